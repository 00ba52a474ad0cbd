# SPDX-License-Identifier: Apache-2.0
"""The garbage collector as a controller: follows the kinds and works on two queues, to examine and to orphan."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

import msgspec

from kubeloop.api.generated.core_v1 import ObjectReference
from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.garbage_collector.access import ObjectAccess
from kubeloop.controllers.garbage_collector.collector import ObjectCollector
from kubeloop.controllers.garbage_collector.graph import AbsentOwnerCache, GraphNode, OwnershipGraph
from kubeloop.controllers.garbage_collector.identity import ObjectIdentity, owner_identity
from kubeloop.controllers.garbage_collector.kinds import RestMapper
from kubeloop.controllers.garbage_collector.monitors import GraphMonitors
from kubeloop.controllers.garbage_collector.orphaner import Orphaner
from kubeloop.runtime.causes.cause import Origins
from kubeloop.runtime.controller import UNSYNCED_AFTER, Controller, ControllerStatus, Health, Phase, Reconcile
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "garbage-collector-controller"
# Seconds between discoveries, as upstream,
PERIOD = 30.0
# and after a definition has changed: at once and again, because servers take some time to serve it.
AFTER_CHANGE = (0.0, 1.0, 5.0)
# Delay in seconds for an owner that was found under none of its names.
OTHERWISE_WAIT = 1.0

log = logging.getLogger(__name__)


class GarbageCollector:
    """All parts of the collector; may be run again after it has ended, with a new graph."""

    name = NAME

    def __init__(self, context: ControllerContext) -> None:
        absent = AbsentOwnerCache()
        self._recorder: EventRecorder = context.recorder.with_component(NAME)
        self._graph = OwnershipGraph(self, absent)
        self._kinds = RestMapper(context.client)
        self._monitors = GraphMonitors(context.informers, self._graph, context.clock, self._redefine)
        access = ObjectAccess(context.client, self._kinds)
        self._collector = ObjectCollector(access, self._graph, self._monitors, absent)
        orphaner = Orphaner(access, self._graph, self._monitors)
        self._examining = _controller(context, NAME, "garbage_collector_attempt_to_delete", self._collector.reconcile)
        self._orphaning = _controller(
            context, f"{NAME} (orphans)", "garbage_collector_attempt_to_orphan", orphaner.reconcile
        )
        self._sync_errors = context.telemetry.registry.counter(
            "garbagecollector_controller_resources_sync_error_total"
        ).with_labels()
        self._redefined = asyncio.Event()
        self._known = asyncio.Event()  # set after the first discovery
        self._waits_for_caches = False
        self._clock = context.clock
        self._began = self._clock.monotonic()

    # Work scheduled by the graph

    def attempt_to_delete(self, node: GraphNode, origins: Origins = ()) -> None:
        """Enqueue a node to be examined."""
        self._examining.queue.add(node.identity, origins)

    def attempt_to_delete_later(self, node: GraphNode) -> None:
        """Enqueue a node to be examined after a delay."""
        self._examining.queue.add_after(node.identity, OTHERWISE_WAIT)

    def attempt_to_orphan(self, node: GraphNode, origins: Origins = ()) -> None:
        """Enqueue an owner whose dependents are to be orphaned."""
        self._orphaning.queue.add(node.identity, origins)

    def report_invalid_namespace(self, dependent: GraphNode, reference: OwnerReference) -> None:
        """Record an event about a reference to another namespace."""
        about = dependent.identity
        event = ObjectReference(
            kind=about.kind, api_version=about.api_version, namespace=about.namespace, name=about.name, uid=about.uid
        )
        owner = owner_identity(reference, about.namespace)
        message = f'ownerRef {owner} does not exist in namespace "{about.namespace}"'
        self._recorder.event(event, "Warning", "OwnerRefInvalidNamespace", message)

    # Running

    async def run(self) -> None:
        """Follow the kinds, wait some time for their objects, then work until drained or cancelled."""
        following = asyncio.create_task(self._follow_kinds(), name=f"{NAME}: kinds")
        working = asyncio.create_task(self._work(), name=f"{NAME}: work")
        try:
            await asyncio.wait((following, working), return_when=asyncio.FIRST_COMPLETED)
            for task in (following, working):
                if task.done():
                    task.result()
        finally:
            self._waits_for_caches = False
            for task in (following, working):
                task.cancel()
            await asyncio.wait((following, working))
            self._monitors.close()
            self._graph.clear()
            self._known.clear()

    async def drain(self, grace: float) -> bool:
        """Drain both queues."""
        done = await asyncio.gather(self._examining.drain(grace), self._orphaning.drain(grace))
        return all(done)

    async def _work(self) -> None:
        self._waits_for_caches, self._began = True, self._clock.monotonic()
        await self._known.wait()
        if not await self._monitors.wait_synced():
            log.warning("%s: not all resource monitors could be synced, proceeding anyways", NAME)
        self._waits_for_caches = False
        async with asyncio.TaskGroup() as group:
            group.create_task(self._examining.run())
            group.create_task(self._orphaning.run())

    # Kinds

    def _redefine(self) -> None:
        self._redefined.set()

    async def _follow_kinds(self) -> None:
        looks: deque[float] = deque()
        while True:
            await self._look()
            try:
                async with asyncio.timeout(looks.popleft() if looks else PERIOD):
                    await self._redefined.wait()
            except TimeoutError:
                continue
            self._redefined.clear()
            looks = deque(AFTER_CHANGE[1:])
            await asyncio.sleep(AFTER_CHANGE[0])

    async def _look(self) -> None:
        """Discover the kinds, and watch the new ones."""
        try:
            found = await self._kinds.refresh()
        except Exception as error:  # on any error, the known kinds stay
            log.warning("%s: discovery failed: %s", NAME, error)
            self._sync_errors.value += 1
            return
        if found.errors:
            log.info("%s: %s", NAME, found.errors)
        if not found.collectable:
            self._sync_errors.value += 1
            return
        self._monitors.sync(found.collectable)
        if found.has_new_kinds:
            for key in sorted(self._collector.waiting_for_kinds):
                self._examining.queue.add(key)
            self._collector.waiting_for_kinds.clear()
        self._known.set()

    # Reporting

    @property
    def phase(self) -> Phase:
        """Phase of the controller."""
        return "waiting for caches" if self._waits_for_caches else self._examining.phase

    def health(self) -> Health:
        """Return the health of both queues and of the initial discovery."""
        waited = self._clock.monotonic() - self._began
        if self._waits_for_caches and waited > UNSYNCED_AFTER:
            return Health(False, f"waiting for {waited:.0f} s for discovery")
        found = [one.health() for one in (self._examining, self._orphaning)]
        return next((one for one in found if not one.ok), found[0])

    def status(self) -> ControllerStatus:
        """Return the combined status of both queues."""
        one, other = self._examining.status(), self._orphaning.status()
        ok, why = self.health()
        told = other if other.last_error and not one.last_error else one
        summed = {name: getattr(one, name) + getattr(other, name) for name in _SUMMED}
        return msgspec.structs.replace(
            one,
            phase=self.phase,
            healthy=ok,
            why=why,
            last_error=told.last_error,
            last_error_key=told.last_error_key,
            **summed,
        )


_SUMMED = ("active", "depth", "delayed", "reconciles", "errors", "busy_seconds")


def _controller(
    context: ControllerContext, name: str, queue: str, reconcile: Reconcile[ObjectIdentity]
) -> Controller[ObjectIdentity]:
    keys: WorkQueue[ObjectIdentity] = WorkQueue(context.clock, name=queue, registry=context.telemetry.registry)
    workers = context.config.concurrent_gc_syncs
    return Controller(name, reconcile, context.clock, workers=workers, queue=keys, telemetry=context.telemetry)
