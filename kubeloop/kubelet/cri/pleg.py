# SPDX-License-Identifier: Apache-2.0
"""PLEG (pod lifecycle event generator): lists sandboxes and containers every second, and queues changed pods."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping

from kubeloop.clock import Clock
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.config.labels import POD_NAME, POD_NAMESPACE, POD_UID
from kubeloop.kubelet.cri.pod_status_cache import PodParts
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.runtime.objects.keys import ObjectKey

RELIST_SECONDS = 1.0
# A kubelet whose lists are older than this is not ready.
THRESHOLD_SECONDS = 180.0

_NOTHING: PodParts = frozenset()

log = logging.getLogger(__name__)

# Called with the UID and key of a pod, and the IDs and states of its sandboxes and containers. Returns False if an
# operation on the pod is under way: the change is reported again with the next list.
OnPodChange = Callable[[str, ObjectKey, PodParts], bool]


class GenericPLEG:
    """Compares each list with the one before. Changes that a list misses appear in the next one."""

    def __init__(self, runtime: RuntimeService, clock: Clock, on_change: OnPodChange) -> None:
        self._runtime = runtime
        self._clock = clock
        self._on_change = on_change
        self._known: Mapping[str, PodParts] = {}
        self._keys: dict[str, ObjectKey] = {}
        self._listed_at: float | None = None
        self.failure = ""  # of the last list

    @property
    def pods(self) -> Mapping[str, ObjectKey]:
        """Pods of which the runtime has anything, by UID."""
        return self._keys

    def is_absent(self, uid: str) -> bool:
        """Return True if the runtime was listed and had nothing of a pod."""
        return self._listed_at is not None and uid not in self._keys

    def health_error(self) -> str:
        """Return why the node is not ready; empty if lists succeed."""
        if self._listed_at is None:
            return "PLEG is not healthy: pleg has yet to be successful"
        elapsed = self._clock.monotonic() - self._listed_at
        if elapsed <= THRESHOLD_SECONDS:
            return ""
        return f"PLEG is not healthy: pleg was last seen active {elapsed:.3f}s ago; threshold is 3m0s"

    async def run(self) -> None:
        """Relist forever."""
        while True:
            try:
                await self.relist()
            except RpcError as error:
                if str(error) != self.failure:
                    log.error("the container runtime does not answer: %s", error.format())
                self.failure = str(error)
            await asyncio.sleep(RELIST_SECONDS)

    async def relist(self) -> None:
        """List once, and report the pods whose sandboxes or containers changed. Raises `RpcError`."""
        began = self._clock.monotonic()
        found: dict[str, set[tuple[str, int]]] = defaultdict(set)
        keys: dict[str, ObjectKey] = {}
        for sandbox in await self._runtime.list_pod_sandboxes({}):
            _add(found, keys, sandbox.labels, (sandbox.id, sandbox.state))
        for container in await self._runtime.list_containers({}):
            _add(found, keys, container.labels, (container.id, container.state))
        before, after = self._known, {uid: frozenset(parts) for uid, parts in found.items()}
        known, self._keys = self._keys, keys
        self._listed_at, self.failure = began, ""
        self._known = after
        for uid in before.keys() | after.keys():
            old, new = before.get(uid, _NOTHING), after.get(uid, _NOTHING)
            if old != new and not self._on_change(uid, keys.get(uid) or known[uid], new):
                after[uid], self._keys[uid] = old, keys.get(uid) or known[uid]


def _add(
    found: dict[str, set[tuple[str, int]]],
    keys: dict[str, ObjectKey],
    labels: Mapping[str, str],
    part: tuple[str, int],
) -> None:
    uid = labels.get(POD_UID)
    if uid:  # others belong to another program
        found[uid].add(part)
        keys[uid] = ObjectKey(labels.get(POD_NAMESPACE, ""), labels.get(POD_NAME, ""))
