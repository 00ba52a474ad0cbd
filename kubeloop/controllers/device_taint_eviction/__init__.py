# SPDX-License-Identifier: Apache-2.0
"""Evicts pods from devices whose taints their claims don't tolerate, at once or when the toleration expires.

slices, rules, claims, pods ──▶ view: tainted devices and their users ──▶ condition, then deletion of pods
                                  └──▶ status of rules: progress

Watches: pods, resource claims, resource slices, device taint rules.
Owns: the condition EvictionInProgress of rules.
Writes: the condition DisruptionTarget of pods to be evicted; deletes them; the status of rules.
Wakes itself: when a pod's toleration expires; for the status of a rule at most every ten seconds.
Differs from upstream: patches the status of a rule instead of applying it; ignores pods that have ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from kubeloop.api import codec
from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import ObjectReference, Pod
from kubeloop.api.generated.meta_v1 import Condition, Preconditions
from kubeloop.api.generated.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from kubeloop.api.meta.conditions import find_condition, remove_condition
from kubeloop.api.requests import MERGE_PATCH, STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.device_taint_eviction.policy import (
    NO_EXECUTE,
    DeviceEviction,
    TaintedDeviceId,
    changed_devices,
)
from kubeloop.controllers.device_taint_eviction.rule_status import (
    IN_PROGRESS,
    EvictionProgress,
    RuleCondition,
    rule_condition,
)
from kubeloop.controllers.device_taint_eviction.view import CLAIMS_BY_DEVICE, DeviceTaintCaches
from kubeloop.controllers.shared.pods.pod_disruption import disruption_patch
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "device-taint-eviction-controller"
QUEUE = "device_taint_eviction"
REASON = "DeviceTaintManagerEviction"
MESSAGE = "Device Taint manager: deleting due to NoExecute taint"
STATUS_PERIOD = 10.0  # seconds between two writes of a rule's status
_BOUNDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0)


class DeviceEvictionKey(NamedTuple):
    """Queue key: a pod to be evicted, or a rule whose status may be outdated."""

    kind: Literal["pod", "rule"]
    namespace: str
    name: str


def wire(context: ControllerContext) -> Controller[DeviceEvictionKey]:
    """Build the controller and register its event handlers."""
    view = DeviceTaintCaches(
        *map(
            context.informers.for_resource, map(resource_of_class, (Pod, ResourceClaim, ResourceSlice, DeviceTaintRule))
        )
    )
    view.add_indexers()
    queue: WorkQueue[DeviceEvictionKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    evictor = Evictor(context, view, queue)
    workers = context.config.concurrent_device_taint_eviction_syncs
    controller = Controller(
        NAME, evictor.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    waker = DeviceEventMapper(view, queue)
    controller.add_event_handler(
        view.pods,
        ResourceEventHandlerFuncs(lambda new: waker.handle_pod(None, new), waker.handle_pod, waker.handle_pod_deleted),
    )
    for source, changed in (
        (view.claims, waker.handle_claim),
        (view.slices, waker.handle_slice),
        (view.rules, waker.handle_rule),
    ):
        controller.add_event_handler(
            source,
            ResourceEventHandlerFuncs(
                lambda new, changed=changed: changed(None, new),  # type: ignore[misc]
                changed,
                lambda old, changed=changed: changed(old, None),  # type: ignore[misc]
            ),
        )
    return controller


class DeviceEventMapper:
    """Maps events to the keys of affected pods and rules."""

    def __init__(self, view: DeviceTaintCaches, queue: WorkQueue[DeviceEvictionKey]) -> None:
        self._view = view
        self._queue = queue

    def handle_pod(self, old: Pod | None, new: Pod) -> None:
        """Enqueue a pod whose use of claims has changed."""
        if not new.spec.resource_claims:
            return
        if old is not None and old is not new and _uses(old) == _uses(new):
            return
        self._queue.add(DeviceEvictionKey("pod", new.metadata.namespace, new.metadata.name))

    def handle_pod_deleted(self, pod: Pod) -> None:
        """Enqueue a deleted pod."""
        if pod.spec.resource_claims:
            self._queue.add(DeviceEvictionKey("pod", pod.metadata.namespace, pod.metadata.name))

    def handle_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Enqueue the pods that use a changed claim."""
        self._wake_users(one for one in (old, new) if one is not None)

    def handle_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Enqueue the pods that use devices with changed taints."""
        one = new or old
        if one is None:
            return
        for device in sorted(changed_devices(old, new)):
            where = TaintedDeviceId(one.spec.driver, one.spec.pool.name, device)
            self._wake_users(self._view.claims.by_index(CLAIMS_BY_DEVICE, str(where)))

    def handle_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """Enqueue a changed rule, and the pods that use its devices."""
        if new is not None:
            self._queue.add(DeviceEvictionKey("rule", "", new.metadata.name))
        if old is not None and new is not None and old.spec == new.spec:
            return
        for one in (old, new):
            if one is not None:
                self._wake_users(self._view.claims_selected_by(one))

    def _wake_users(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            for namespace, name in self._view.users_of(claim):
                self._queue.add(DeviceEvictionKey("pod", namespace, name))


def _uses(pod: Pod) -> object:
    return pod.spec.node_name, pod.status.resource_claim_statuses


class Evictor:
    """Evicts pods and reports the progress of rules.

    Invariant of `_planned`: it holds pods that existed in their last sync and are to be evicted later.
    """

    def __init__(
        self, context: ControllerContext, view: DeviceTaintCaches, queue: WorkQueue[DeviceEvictionKey]
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._view = view
        self._queue = queue
        self._recorder = context.recorder.with_component(NAME)
        self._planned: dict[DeviceEvictionKey, str] = {}  # UIDs
        self._evicted: defaultdict[str, int] = defaultdict(int)  # number of pods, by the UID of the rule
        registry = context.telemetry.registry
        self._deleted = registry.counter("device_taint_eviction_controller_pod_deletions_total").with_labels()
        self._lateness = registry.histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            bounds=_BOUNDS,
        ).with_labels()

    async def reconcile(self, key: DeviceEvictionKey) -> Result | None:
        """Sync one pod or one rule."""
        return await self._reconcile_rule(key.name) if key.kind == "rule" else await self._reconcile_pod(key)

    # Pods

    async def _reconcile_pod(self, key: DeviceEvictionKey) -> Result | None:
        pod: Pod | None = self._view.pods.get(key.namespace, key.name)
        if pod is None or self._planned.get(key, pod.metadata.uid) != pod.metadata.uid:
            self._planned.pop(key, None)
        if pod is None:
            return None
        eviction = self._view.eviction_of_pod(pod)
        if eviction is None:
            if self._planned.pop(key, None) is not None and pod.metadata.deletion_timestamp is None:
                self._tell(pod, "Cancelling deletion")
            return None
        self._wake_rules(eviction)
        left = (eviction.due - self._clock.now()).total_seconds()
        if left > 0:
            self._planned[key] = pod.metadata.uid
            return Result(requeue_after=left)
        await self._evict(pod, eviction)
        self._planned.pop(key, None)
        return None

    def _wake_rules(self, eviction: DeviceEviction) -> None:
        for rule in self._view.rules.list():
            if rule.metadata.uid in eviction.rules:
                self._queue.add_after(DeviceEvictionKey("rule", "", rule.metadata.name), STATUS_PERIOD)

    async def _evict(self, pod: Pod, eviction: DeviceEviction) -> None:
        meta = pod.metadata
        try:
            fresh = await self._client.get(Pod, meta.name, meta.namespace)
            if fresh.metadata.uid != meta.uid or fresh.metadata.deletion_timestamp is not None:
                return
            self._tell(pod, "Marking for deletion")
            patch = disruption_patch(fresh, "DeletionByDeviceTaintManager", MESSAGE, self._now())
            if patch is not None:
                await self._client.patch(
                    Pod, meta.name, patch, meta.namespace, type=STRATEGIC_PATCH, subresource="status"
                )
            await self._client.delete(Pod, meta.name, meta.namespace, preconditions=Preconditions(uid=meta.uid))
        except NotFound:
            return
        self._deleted.value += 1
        self._lateness.observe((self._clock.now() - eviction.due).total_seconds())
        for rule in eviction.rules:
            self._evicted[rule] += 1

    def _tell(self, pod: Pod, message: str) -> None:
        meta = pod.metadata
        about = ObjectReference(
            api_version="v1", kind="Pod", name=meta.name, namespace=meta.namespace, uid=meta.uid
        )  # fmt: skip
        self._recorder.event(about, "Normal", REASON, message)

    # Rules

    async def _reconcile_rule(self, name: str) -> Result | None:
        rule: DeviceTaintRule | None = self._view.rules.get("", name)
        if rule is None:
            return None
        before = find_condition(rule.status.conditions, IN_PROGRESS)
        if before is not None and (left := seconds_until_status_write(rule, before, self._clock.now())) > 0:
            return Result(requeue_after=left)
        told = rule_condition(rule.spec.taint.effect, self._progress(rule))
        if before is not None and is_status_current(rule, before, told):
            return None
        after = Condition(
            type=IN_PROGRESS,
            status=told.status,
            reason=told.reason,
            message=told.message,
            observed_generation=rule.metadata.generation,
            last_transition_time=Time(self._now()),
        )
        await self._write(rule, after)
        return None

    def _progress(self, rule: DeviceTaintRule) -> EvictionProgress:
        evicted = self._evicted.get(rule.metadata.uid, 0)
        if rule.spec.taint.effect not in ("NoExecute", "None"):
            return EvictionProgress(0, 0, evicted)
        pods = [pod for pod in self._view.pods_selected_by(rule) if self._concerns(rule, pod)]
        namespaces = {pod.metadata.namespace for pod in pods}
        devices = self._view.count_devices(rule) if rule.spec.taint.effect == "None" else (0, 0)
        return EvictionProgress(len(pods), len(namespaces), evicted, *devices)

    def _concerns(self, rule: DeviceTaintRule, pod: Pod) -> bool:
        eviction = self._view.eviction_of_pod(pod, (as_evicting(rule),))
        return eviction is not None and rule.metadata.uid in eviction.rules

    async def _write(self, rule: DeviceTaintRule, condition: Condition) -> None:
        meta = rule.metadata
        conditions = (*remove_condition(rule.status.conditions, IN_PROGRESS), condition)
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": codec.to_plain(conditions)},
        }
        await self._client.patch(DeviceTaintRule, meta.name, patch, type=MERGE_PATCH, subresource="status")

    def _now(self) -> str:
        return format_time(self._clock.now())


def is_status_current(rule: DeviceTaintRule, before: Condition, told: RuleCondition) -> bool:
    """Return True if the status is up to date; for a rule with effect None it is written once per generation."""
    if before.observed_generation != rule.metadata.generation:
        return False
    return rule.spec.taint.effect == "None" or (before.status, before.reason, before.message) == told


def as_evicting(rule: DeviceTaintRule) -> DeviceTaintRule:
    """Return the rule with the effect NoExecute."""
    taint = msgspec.structs.replace(rule.spec.taint, effect=NO_EXECUTE)
    return msgspec.structs.replace(rule, spec=msgspec.structs.replace(rule.spec, taint=taint))


def seconds_until_status_write(rule: DeviceTaintRule, condition: Condition, now: datetime) -> float:
    """Return the seconds for which the status of the current generation must stay unchanged."""
    if condition.observed_generation != rule.metadata.generation or condition.last_transition_time is None:
        return 0.0
    return STATUS_PERIOD - (now - parse_time(condition.last_transition_time)).total_seconds()
