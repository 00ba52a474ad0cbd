# SPDX-License-Identifier: Apache-2.0
"""Counts the usage of a quota and writes it to the status; follows the countable kinds."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from kubeloop.api.generated.core_v1 import ResourceQuota
from kubeloop.api.quota.amounts import ZERO, Amounts, add, amounts_of, mask
from kubeloop.api.quota.evaluator import QuotaEvaluator, scopes_of
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.garbage_collector.kinds import RestMapper
from kubeloop.controllers.resourcequota.monitors import QuotaMonitor, QuotaMonitors
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.controller import Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
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
        self._writer = PatchOrUpdate(context.client)
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
            await self._writer.patch_status(self._quotas.resource, quota, {"metadata": this_one, "status": change})
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
            names = kind.meter.matching_resources(quota.spec.hard)
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
        if found.errors:
            log.info("resourcequota-controller: %s", found.errors)
        if not found.collectable:
            raise RuntimeError("discovery returned no resources")
        new = self._monitors.sync(found.collectable)
        late = await self._monitors.wait_synced()
        if late:
            log.warning("resources that quota cannot count: %s", ", ".join(one.group_resource for one in late))
        self._count_by(new)
        return Result(requeue_after=AFTER_CHANGE if redefined else PERIOD)

    def _count_by(self, new: list[QuotaMonitor]) -> None:
        """Enqueue all quotas at first, and later those that name a new kind."""
        for quota in self._quotas.list():
            if not self._knows_kinds or any(one.meter.matching_resources(quota.spec.hard) for one in new):
                self._wake(quota, "resync")
        self._knows_kinds = True


def _origin(obj: Any, kind: str, event: Event) -> Origin:
    meta = obj.metadata
    return Origin(kind, meta.namespace, meta.name, meta.resource_version, event)


class Countable(Protocol):
    """Kind whose objects can be counted."""

    @property
    def meter(self) -> QuotaEvaluator:
        """Meter of the kind."""

    @property
    def is_synced(self) -> bool:
        """True if all objects of the kind are known."""

    def objects(self, namespace: str) -> Iterable[Any]:
        """Return the objects in a namespace."""


@dataclass(frozen=True, slots=True)
class CalculatedUsage:
    """Usage, and the names that could not be counted because their objects are not known yet."""

    used: Amounts
    unknown: frozenset[str]


def calculate_usage(quota: ResourceQuota, kinds: Iterable[Countable], now: datetime) -> CalculatedUsage:
    """Count the usage; names that no kind measures are in neither part of the result."""
    used: Amounts = {}
    unknown: set[str] = set()
    for kind in kinds:
        names = kind.meter.matching_resources(quota.spec.hard)
        if not names:
            continue
        if not kind.is_synced:
            unknown.update(names)
            continue
        used = add(used, dict.fromkeys(names, ZERO))
        for obj in kind.objects(quota.metadata.namespace):
            used = _with(used, mask(object_usage(kind.meter, quota, obj, now), names))
    return CalculatedUsage({name: amount for name, amount in used.items() if name not in unknown}, frozenset(unknown))


def object_usage(meter: QuotaEvaluator, quota: ResourceQuota, obj: Any, now: datetime) -> Amounts:
    """Return an object's usage of a quota; empty if it is outside of its scopes."""
    if not all(meter.matches_scope(scope, obj) for scope in scopes_of(quota)):
        return {}
    return meter.usage(obj, now)


def status_patch(quota: ResourceQuota, counted: Amounts) -> dict[str, dict[str, str | None]]:
    """Return the changes of a quota's status; empty if there are none.

    Names that could not be counted keep their last value.
    """
    hard, used = amounts_of(quota.spec.hard), amounts_of(quota.status.used)
    wanted = mask({**used, **counted}, hard)
    # A quota without limits gets a status too, which shows that it was processed.
    return {
        field: change
        for field, change in (
            ("hard", _difference(amounts_of(quota.status.hard), hard)),
            ("used", _difference(used, wanted)),
        )
        if change
    }


def lacks_usage(quota: ResourceQuota, meters: Iterable[QuotaEvaluator]) -> bool:
    """Return True if the quota awaits its first count, which blocks the creation of what it limits."""
    if amounts_of(quota.spec.hard) != amounts_of(quota.status.hard):
        return True
    uncounted = [name for name in quota.status.hard if name not in quota.status.used]
    return bool(uncounted) and any(meter.matching_resources(uncounted) for meter in meters)


def _with(used: Amounts, more: Amounts) -> Amounts:
    """Add to a sum in place."""
    for name, amount in more.items():
        used[name] += amount
    return used


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {name: str(after[name]) for name in after if before.get(name) != after[name]}
    changed.update((name, None) for name in before if name not in after)
    return changed
