"""Counts the usage of a quota and writes it to the status; follows the countable kinds."""

from __future__ import annotations

import logging
from typing import Any, Final

from kubeloop.api.generated.core_v1 import ResourceQuota
from kubeloop.api.quota.amounts import mask
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.garbage_collector.kinds import RestMapper
from kubeloop.controllers.resourcequota.counting import calculate_usage, lacks_usage, object_usage, status_patch
from kubeloop.controllers.resourcequota.monitors import QuotaMonitor, QuotaMonitors
from kubeloop.controllers.shared.status_writer import StatusWriter
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.controller import Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.workqueue import LOW, NORMAL, WorkQueue

# Key that triggers the discovery of kinds. Every quota has a namespace.
KINDS: Final = ObjectKey("", "kinds")
# Seconds between discoveries, as upstream; and after a change, which servers take some time to serve.
PERIOD, AFTER_CHANGE = 30.0, 1.0
# Objects are charged before they exist. A count in between misses them, so it is repeated after these seconds.
RECOUNT_AFTER = 10.0
# Seconds until names are counted again whose objects were not all known.
UNKNOWN_AFTER = 5.0

log = logging.getLogger(__name__)


class Reconciler:
    """Reconciles quotas by key; also the event handler of quotas."""

    def __init__(self, context: ControllerContext, quotas: Informer, queue: WorkQueue[ObjectKey]) -> None:
        self._quotas = quotas
        self._queue = queue
        self._kinds = RestMapper(context.client)
        self._writer = StatusWriter(context.client, quotas.resource)
        self._clock = context.clock
        self._monitors = QuotaMonitors(context.informers, self._replenish, self._redefine)
        self._knows_kinds = False
        self._redefined = False

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Count one quota; a special key discovers the kinds."""
        if key == KINDS:
            return await self._follow_kinds()
        quota = self._quotas.get(*key)
        if quota is None or not self._knows_kinds:  # afterwards all quotas are counted
            return None
        counted = calculate_usage(quota, self._monitors, self._clock.now())
        change = status_patch(quota, counted.used)
        if change:
            meta = quota.metadata
            this_one = {"uid": meta.uid, "resourceVersion": meta.resource_version}  # charges must not get lost
            await self._writer.write(quota, {"metadata": this_one, "status": change})
        return Result(requeue_after=UNKNOWN_AFTER) if counted.unknown else None

    # Event handlers

    def on_add(self, quota: ResourceQuota) -> None:
        """Enqueue a new quota."""
        self._wake(quota, "ADDED")

    def on_update(self, old: ResourceQuota, new: ResourceQuota) -> None:
        """Enqueue a quota with changed limits, and recount it after a delay if its status has changed."""
        if old is new:
            self._wake(new, "resync")
        elif old.spec.hard != new.spec.hard:
            self._wake(new, "MODIFIED")
        elif old.status != new.status:
            self._queue.add_after(key_of(new), RECOUNT_AFTER, (_origin(new, "ResourceQuota", "MODIFIED"),), LOW)

    def on_delete(self, quota: ResourceQuota) -> None:
        """Do nothing for a deleted quota."""

    def _wake(self, quota: ResourceQuota, event: Event) -> None:
        """Enqueue a quota; those without usage first, since they block creations."""
        priority = NORMAL if lacks_usage(quota, self._monitors.meters()) else LOW
        self._queue.add(key_of(quota), (_origin(quota, "ResourceQuota", event),), priority)

    def _replenish(self, kind: QuotaMonitor, old: Any, new: Any) -> None:
        """Enqueue the quotas whose usage changes with an object."""
        now = self._clock.now()
        for quota in self._quotas.list(old.metadata.namespace):
            names = kind.meter.measured(quota.spec.hard)
            if not names:
                continue
            before = mask(object_usage(kind.meter, quota, old, now), names)
            after = {} if new is None else mask(object_usage(kind.meter, quota, new, now), names)
            if before != after:
                origin = _origin(old, kind.informer.resource.kind, "DELETED" if new is None else "MODIFIED")
                self._queue.add(key_of(quota), (origin,), LOW)

    # Kinds

    def _redefine(self) -> None:
        self._redefined = True
        self._queue.add(KINDS)

    async def _follow_kinds(self) -> Result:
        redefined, self._redefined = self._redefined, False
        found = await self._kinds.refresh()
        if found.complaint:
            log.info("resourcequota-controller: %s", found.complaint)
        if not found.collectable:
            raise RuntimeError("the server tells of no kinds")
        new = self._monitors.sync(found.collectable)
        late = await self._monitors.wait_known()
        if late:
            log.warning("quotas cannot be counted by: %s", ", ".join(one.qualified for one in late))
        self._count_by(new)
        return Result(requeue_after=AFTER_CHANGE if redefined else PERIOD)

    def _count_by(self, new: list[QuotaMonitor]) -> None:
        """Enqueue all quotas at first, and later those that name a new kind."""
        for quota in self._quotas.list():
            if not self._knows_kinds or any(one.meter.measured(quota.spec.hard) for one in new):
                self._wake(quota, "resync")
        self._knows_kinds = True


def _origin(obj: Any, kind: str, event: Event) -> Origin:
    meta = obj.metadata
    return Origin(kind, meta.namespace, meta.name, meta.resource_version, event)
