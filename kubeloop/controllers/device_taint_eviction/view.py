# SPDX-License-Identifier: Apache-2.0
"""Reads devices, their taints and their users from the caches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.resource_v1 import DeviceRequestAllocationResult, DeviceTaintRule, ResourceClaim
from kubeloop.api.pods.pod import is_active
from kubeloop.controllers.device_taint_eviction.policy import (
    NO_EXECUTE,
    DeviceEviction,
    EvictingTaint,
    TaintedDeviceId,
    current_slices,
    evicting_taints,
    eviction_of,
    pool_of,
    selects,
)
from kubeloop.controllers.resourceclaim.policy import ClaimNotCreated, UnknownClaimSource, belongs_to, claim_of
from kubeloop.runtime.informer.informer import Informer

SLICES_BY_POOL = "device taints: pool"
CLAIMS_BY_DEVICE = "device taints: device"


def results_of(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    """Return the allocated devices of a claim."""
    allocation = claim.status.allocation
    return () if allocation is None else allocation.devices.results


def device_id_of(result: DeviceRequestAllocationResult) -> TaintedDeviceId:
    """Return the ID of an allocated device."""
    return TaintedDeviceId(result.driver, result.pool, result.device)


def devices_of(claim: ResourceClaim) -> tuple[str, ...]:
    """Index a claim by its allocated devices."""
    return tuple(dict.fromkeys(str(device_id_of(one)) for one in results_of(claim)))


@dataclass(frozen=True, slots=True)
class DeviceTaintCaches:
    """Informers of the controller, with queries across them."""

    pods: Informer
    claims: Informer
    slices: Informer
    rules: Informer

    def add_indexers(self) -> None:
        """Add the indexes that the queries need."""
        self.slices.add_indexer(SLICES_BY_POOL, _pools)
        self.claims.add_indexer(CLAIMS_BY_DEVICE, devices_of)

    def eviction_of_pod(self, pod: Pod, rules: Iterable[DeviceTaintRule] | None = None) -> DeviceEviction | None:
        """Return the eviction of a pod, caused by these rules or by all evicting ones; None if it stays."""
        if not pod.spec.node_name or not is_active(pod):
            return None
        evicting = self._evicting_rules() if rules is None else list(rules)
        found: DeviceEviction | None = None
        for claim in self._claims_of(pod):
            for result in results_of(claim):
                due = eviction_of(result, self._causes(device_id_of(result), evicting))
                found = due.merge(found) if due is not None else found
        return found

    def _evicting_rules(self) -> list[DeviceTaintRule]:
        return [rule for rule in self.rules.list() if rule.spec.taint.effect == NO_EXECUTE]

    def _claims_of(self, pod: Pod) -> Iterator[ResourceClaim]:
        """Return the claims that the pod uses and that are reserved for it."""
        for wanted in pod.spec.resource_claims:
            try:
                named = claim_of(pod, wanted)
            except (ClaimNotCreated, UnknownClaimSource):
                continue
            claim: ResourceClaim | None = self.claims.get(pod.metadata.namespace, named.name or "")
            if claim is None or (named.is_generated and not belongs_to(claim, pod)):
                continue
            if any(one.uid == pod.metadata.uid for one in claim.status.reserved_for):
                yield claim

    def _causes(self, where: TaintedDeviceId, rules: Iterable[DeviceTaintRule]) -> Iterator[EvictingTaint]:
        for one in current_slices(self.slices.by_index(SLICES_BY_POOL, where.pool_key)):
            for device in one.spec.devices:
                if device.name == where.device:
                    yield from map(EvictingTaint, evicting_taints(device))
        for rule in rules:
            if selects(rule, where):
                yield EvictingTaint(rule.spec.taint, rule.metadata.uid)

    # Users of devices

    def users_of(self, claim: ResourceClaim) -> Iterator[tuple[str, str]]:
        """Return namespace and name of the pods that a claim is reserved for."""
        for one in claim.status.reserved_for:
            if one.resource == "pods" and not one.api_group:
                yield claim.metadata.namespace, one.name

    def claims_selected_by(self, rule: DeviceTaintRule) -> Iterator[ResourceClaim]:
        """Return the claims with an allocated device that the rule selects."""
        for claim in self.claims.list():
            if any(selects(rule, device_id_of(one)) for one in results_of(claim)):
                yield claim

    def pods_selected_by(self, rule: DeviceTaintRule) -> list[Pod]:
        """Return the pods that use a device that the rule selects."""
        keys = dict.fromkeys(key for claim in self.claims_selected_by(rule) for key in self.users_of(claim))
        found = (self.pods.get(*key) for key in keys)
        return [pod for pod in found if pod is not None]

    def count_devices(self, rule: DeviceTaintRule) -> tuple[int, int]:
        """Return the numbers of published and of allocated devices that the rule selects."""
        published = 0
        for pool in self.slices.index_values(SLICES_BY_POOL):
            for one in current_slices(self.slices.by_index(SLICES_BY_POOL, pool)):
                places = (
                    TaintedDeviceId(one.spec.driver, one.spec.pool.name, device.name) for device in one.spec.devices
                )
                published += sum(selects(rule, where) for where in places)
        allocated = sum(selects(rule, device_id_of(one)) for claim in self.claims.list() for one in results_of(claim))
        return published, allocated


def _pools(one: object) -> tuple[str, ...]:
    return (pool_of(one),)  # type: ignore[arg-type]  # the informer's kind
