# SPDX-License-Identifier: Apache-2.0
"""Status manager: writes pod statuses and final deletes, and restores statuses that another client has overwritten.

Each heartbeat of a node checks only pods that were written by others since the agent last found them in sync.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.core_v1 import Node, Pod, PodCondition, PodStatus
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.struct_patch import StructPatch
from kubeloop.client import Client
from kubeloop.kubelet.status.generate import (
    MERGED_LISTS,
    MERGED_MAPS,
    REPLACED_FIELDS,
    build_status_patch,
    merge_reported_status,
    removed_conditions,
)
from kubeloop.kubelet.sync.pod_state import PodState, with_unknown_readiness
from kubeloop.kubelet.sync.pod_states import PodStates
from kubeloop.kubelet.sync.sync_queues import EnqueuePod
from kubeloop.kubelet.sync.termination import TERMINAL_PHASES
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of

_FIELDS = tuple(field for field, _ in (*REPLACED_FIELDS, *MERGED_LISTS, *MERGED_MAPS))


class KubeletStatusPatch(StructPatch):
    """Patch from the status last written or read to the status as it should be; true if there is anything to write."""

    part = "status"

    def __init__(self, uid: str, before: PodStatus, after: PodStatus) -> None:
        self.uid = uid
        self._before = before
        self._after = after

    def __bool__(self) -> bool:
        before, after = self._before, self._after
        return (
            any(getattr(before, field) != getattr(after, field) for field in _FIELDS)
            or any(one not in before.conditions for one in after.conditions)
            or bool(removed_conditions(before.conditions, after.conditions))
        )

    @property
    def document(self) -> dict[str, Any]:
        """Body of the strategic merge patch."""
        return {"metadata": {"uid": self.uid}, "status": build_status_patch(self._before, self._after)}

    def apply_to(self, present: PodStatus) -> PodStatus | None:
        """Return the patched status; None if another client has changed it or conditions are removed.

        In these cases a real merge is required.
        """
        if present is not self._before and present != self._before:
            return None
        conditions = _merged_conditions(present.conditions, self._after.conditions)
        if conditions is None:
            return None
        said = {field: getattr(self._after, field) for field in _FIELDS}
        return msgspec.structs.replace(present, **said, conditions=conditions)

    @property
    def resulting_status(self) -> PodStatus:
        """Status after the patch was applied."""
        laid = self.apply_to(self._before)
        return merge_reported_status(self._before, self._after) if laid is None else laid


def _merged_conditions(
    before: tuple[PodCondition, ...], after: tuple[PodCondition, ...]
) -> tuple[PodCondition, ...] | None:
    """Return the conditions as a strategic merge patch leaves them; None except in simple cases."""
    said = {one.type: one for one in after if one not in before}
    known = [one.type for one in before]
    if len(set(known)) < len(known) or removed_conditions(before, after):
        return None
    if said.keys() >= set(known):
        return tuple(said.values())
    changed = [type for type in known if type in said]
    if changed != list(said):  # some are new, or their order differs
        return None
    return tuple(said.get(one.type, one) for one in before)


class StatusManager:
    """Statuses of an agent's pods on the API server; `enqueue` queues a pod for sync."""

    def __init__(self, client: Client, pods: Informer, states: PodStates, enqueue: EnqueuePod) -> None:
        self._client = client
        self._pods = pods
        self._states = states
        self._enqueue = enqueue
        self._stale_uids: set[str] = set()  # uids of pods whose status must be written again at their next sync
        self._out_of_sync: dict[str, dict[str, str]] = {}  # by node: uid to resourceVersion, if out of sync
        # By node: uid and key of each pod that is not known to be in sync. It leaves this by being found in sync, and
        # comes back with its next change.
        self._unchecked: dict[str, dict[str, ObjectKey]] = {}
        pods.add_handler(ResourceEventHandlerFuncs(self._check_later, self._check_changed_later, self._check_no_more))

    def with_reported_status(self, pod: Pod) -> Pod:
        """Return a pod with the status last reported, which a cache may not show yet."""
        state = self._states.get(pod.metadata.uid)
        return pod if state is None else msgspec.structs.replace(pod, status=state.reported_status)

    # Writes.

    async def write_status(self, pod: Pod, state: PodState, status: PodStatus) -> None:
        """Write the status of a pod unless it equals the one last reported."""
        meta = pod.metadata
        is_stale = meta.uid in self._stale_uids
        change = KubeletStatusPatch(
            meta.uid, with_unknown_readiness(pod.status) if is_stale else state.reported_status, status
        )
        if not change:
            return
        try:
            done: Pod = await self._client.patch(
                Pod, meta.name, change, meta.namespace, type=STRATEGIC_PATCH, subresource="status"
            )
        except NotFound:  # it is gone: the delete event follows
            return
        self._stale_uids.discard(meta.uid)
        current = self._states.get(meta.uid)
        assert current is not None, "a pod's state is kept while it is synced"
        revision = done.metadata.resource_version
        written = msgspec.structs.replace(
            current, reported_status=change.resulting_status, synced_resource_version=revision
        )
        self._states.put(meta.uid, written)

    async def delete_pod(self, pod: Pod) -> None:
        """Send the final delete, as nothing runs any more."""
        meta = pod.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(
                Pod, meta.name, meta.namespace, grace_seconds=0, preconditions=Preconditions(uid=meta.uid)
            )
        if (state := self._states.get(meta.uid)) is not None:
            self._states.put(meta.uid, msgspec.structs.replace(state, deleted=True))

    def remove_pod(self, uid: str) -> None:
        """Drop what is recorded of a pod that is gone."""
        self._stale_uids.discard(uid)

    # Changes by other clients.

    def mark_stale(self, pod: Pod) -> None:
        """Queue a pod to have its status written again, as another client may have changed it."""
        if self._states.get(pod.metadata.uid) is not None:
            self._stale_uids.add(pod.metadata.uid)
        self._enqueue(key_of(pod))

    def reconcile_node(self, node: Node) -> None:
        """Mark pods as stale that were out of sync at two consecutive heartbeats; before, the cache may lag."""
        unchecked = self._unchecked.get(node.metadata.name)
        if not unchecked:
            return
        before = self._out_of_sync.pop(node.metadata.name, None) or {}
        out_of_sync: dict[str, str] = {}
        for uid, key in tuple(unchecked.items()):
            pod: Pod | None = self._pods.get(key.namespace, key.name)
            if pod is None or pod.metadata.uid != uid or self._is_in_sync(pod):
                del unchecked[uid]
                continue
            revision = pod.metadata.resource_version
            if before.get(uid) == revision:
                self.mark_stale(pod)
            else:
                out_of_sync[uid] = revision
        if out_of_sync:
            self._out_of_sync[node.metadata.name] = out_of_sync

    def _check_later(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._unchecked.setdefault(pod.spec.node_name, {})[pod.metadata.uid] = key_of(pod)

    def _check_changed_later(self, _: Pod, pod: Pod) -> None:
        self._check_later(pod)

    def _check_no_more(self, pod: Pod) -> None:
        if unchecked := self._unchecked.get(pod.spec.node_name):
            unchecked.pop(pod.metadata.uid, None)

    def _is_in_sync(self, pod: Pod) -> bool:
        """Return True if no other client has changed the status that the agent reported; always for terminal pods."""
        uid, revision = pod.metadata.uid, pod.metadata.resource_version
        state = self._states.get(uid)
        if (
            state is None
            or state.synced_resource_version == revision
            or state.deleted
            or state.reported_status.phase in TERMINAL_PHASES
        ):
            return True
        if KubeletStatusPatch(uid, pod.status, state.reported_status):
            return False
        self._states.put(uid, msgspec.structs.replace(state, synced_resource_version=revision))
        return True
