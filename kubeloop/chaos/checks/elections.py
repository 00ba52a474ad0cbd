# SPDX-License-Identifier: Apache-2.0
"""Records the holders of leases by a watch that begins before any fault."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Any

from kubeloop.api import errors
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.requests import Call, Verb
from kubeloop.api.scalars.times import parse_time
from kubeloop.chaos.checks.leadership import LeaseWrite, written_at
from kubeloop.chaos.load import FAILURES, PAUSE, call_until_answered
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.transport import ClientTransport
from kubeloop.clock import Clock

# The lease for which the processes of each component stand.
LEASES = {"controller-manager": "kube-controller-manager", "scheduler": "kube-scheduler"}
_NAMESPACE = "kube-system"
_LEASES = resource_of_class(Lease)
_SILENT_FOR = 8.0


class ElectionWatcher:
    """Records every renewal of the leases with its time."""

    def __init__(self, transport: ClientTransport, clock: Clock, wrong_by: Sequence[float]) -> None:
        self._transport = transport
        self._clock = clock
        self._wrong_by = wrong_by  # how wrong clocks may be made
        self._version = ""
        self._newest = 0
        self._told = asyncio.Event()
        self.renewals: dict[str, list[LeaseWrite]] = {name: [] for name in LEASES.values()}

    async def begin(self) -> None:
        """List the leases before any fault; or again, after missed events."""
        found = await call_until_answered(self._transport, _call("list"))
        for lease in sorted(found.items, key=_revision):
            self._take(lease, is_next=not self._version)
        self._version = found.resource_version

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                await self._follow()
            except errors.Expired:
                await self.begin()
            except FAILURES:
                await asyncio.sleep(PAUSE)

    async def wait_renewed(self, leases: Iterable[str], since: float) -> None:
        """Wait until each of some leases was renewed after a moment; earlier renewals are then recorded."""
        while not all(self.renewals[lease] and self.renewals[lease][-1].written > since for lease in leases):
            self._told.clear()
            await self._told.wait()

    async def _follow(self) -> None:
        call = _call("watch", resourceVersion=self._version, allowWatchBookmarks="true", timeoutSeconds="20")
        async with aclosing(self._transport.watch(call)) as batches:  # type: ignore[type-var]
            while True:
                try:
                    async with asyncio.timeout(_SILENT_FOR):
                        batch = await anext(batches)
                except StopAsyncIteration:
                    return
                for event in batch:
                    self._version = event.resource_version
                    if event.type != "BOOKMARK":
                        self._take(event.object)

    def _take(self, lease: Any, *, is_next: bool = True) -> None:
        revision, spec = _revision(lease), lease.spec
        if not _is_ours(lease) or revision <= self._newest or spec is None or spec.renew_time is None:
            return
        self._newest = revision
        self._told.set()
        told, day = self._clock.monotonic(), self._clock.now()
        said = told - (day - parse_time(spec.renew_time)).total_seconds()
        self.renewals[lease.metadata.name].append(
            LeaseWrite(
                lease=lease.metadata.name,
                holder=spec.holder_identity or "",
                written=written_at(said, told, self._wrong_by),
                length=spec.lease_duration_seconds or 0,
                revision=revision,
                is_next=is_next,
            )
        )


def _revision(lease: Any) -> int:
    return int(lease.metadata.resource_version)


def _is_ours(lease: Any) -> bool:
    return lease.metadata.name in LEASES.values()


def _call(verb: Verb, **options: str) -> Call:
    return Call(verb=verb, resource=_LEASES, namespace=_NAMESPACE, options=options, timeout=None)
