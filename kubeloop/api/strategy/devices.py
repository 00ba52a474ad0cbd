# SPDX-License-Identifier: Apache-2.0
"""Strategies of resource.k8s.io: claims, their templates, slices and taint rules."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.generated.resource_v1 import (
    AllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceSlice,
    ResourceSliceSpec,
)
from kubeloop.api.scalars import wire
from kubeloop.api.strategy.base import RESETS_METADATA, STATUS_METADATA, Strategy, count_generation
from kubeloop.api.strategy.gates import Use, drop_disabled

DeviceKey = tuple[str, str, str, str | None]


def _claim_uses(spec: ResourceClaimSpec) -> Iterator[Use]:
    for request in spec.devices.requests or ():
        for each in (request.exactly, *request.first_available):
            if each is not None and each.derived_attributes:
                yield "DRADerivedAttributes", each, "derived_attributes"


def _claim_status_uses(status: ResourceClaimStatus) -> Iterator[Use]:
    if status.allocation is not None:
        for result in status.allocation.devices.results:
            if result.skip_node_operations:
                yield "DRAOptionalNodeOperations", result, "skip_node_operations"


def _slice_uses(spec: ResourceSliceSpec) -> Iterator[Use]:
    if spec.partition_type_attribute is not None:
        yield "DRAPartitionableDevicesType", spec, "partition_type_attribute"
    if spec.skip_node_operations:
        yield "DRAOptionalNodeOperations", spec, "skip_node_operations"
    for device in spec.devices:
        if device.node_allocatable_resources:
            yield "DRANodeAllocatableResources", device, "node_allocatable_resources"
        for consumption in device.consumes_counters:
            if consumption.compatibility_groups:
                yield "DRADeviceCompatibilityGroups", consumption, "compatibility_groups"
        for attribute in device.attributes.values():
            for name in ("bools", "ints", "strings", "versions"):
                if getattr(attribute, name):
                    yield "DRAListTypeAttributes", attribute, name


def _drop_claim_fields(new: ResourceClaim, old: ResourceClaim | None, features: Features) -> None:
    drop_disabled(_claim_uses, new.spec, None if old is None else old.spec, features)


def _drop_claim_status_fields(new: ResourceClaim, old: ResourceClaim, features: Features) -> None:
    drop_disabled(_claim_status_uses, new.status, old.status, features)


def _drop_template_fields(new: ResourceClaimTemplate, old: ResourceClaimTemplate | None, features: Features) -> None:
    drop_disabled(_claim_uses, new.spec.spec, None if old is None else old.spec.spec, features)


def _drop_slice_fields(new: ResourceSlice, old: ResourceSlice | None, features: Features) -> None:
    drop_disabled(_slice_uses, new.spec, None if old is None else old.spec, features)


def _refine_claim_status(new: ResourceClaim, old: ResourceClaim) -> None:
    """Drop the status of devices that are no longer allocated."""
    gone = _allocated(old.status.allocation) - _allocated(new.status.allocation)
    if gone:
        kept = tuple(
            each for each in new.status.devices if (each.driver, each.pool, each.device, each.share_id) not in gone
        )
        force_setattr(new.status, "devices", kept)


def _allocated(allocation: AllocationResult | None) -> set[DeviceKey]:
    if allocation is None:
        return set()
    return {(each.driver, each.pool, each.device, each.share_id) for each in allocation.devices.results}


def _stamp_rule(new: DeviceTaintRule, old: DeviceTaintRule | None, now: str) -> None:
    """Set a taint's timeAdded when it is added and when its effect changes."""
    taint = new.spec.taint
    before = old.spec.taint if old is not None else None
    effect_changed = before is not None and taint.effect != before.effect and taint.time_added == before.time_added
    if taint.time_added is None or effect_changed:
        force_setattr(new, "spec", replace(new.spec, taint=replace(taint, time_added=wire.Time(now))))
        if old is not None:
            count_generation(new, old, ("spec",))


def _stamp_slice(new: ResourceSlice, old: ResourceSlice | None, now: str) -> None:
    unstamped = [taint for device in new.spec.devices for taint in device.taints if taint.time_added is None]
    for taint in unstamped:
        force_setattr(taint, "time_added", wire.Time(now))
    if unstamped and old is not None:
        count_generation(new, old, ("spec",))


CLAIM = Strategy(
    has_status=True,
    status_preserved_meta=STATUS_METADATA,
    reset_fields=RESETS_METADATA,
    drop_disabled=_drop_claim_fields,
    drop_disabled_status=_drop_claim_status_fields,
    refine_status=_refine_claim_status,
)
CLAIM_TEMPLATE = Strategy(drop_disabled=_drop_template_fields)
SLICE = Strategy(generation_of=("spec",), drop_disabled=_drop_slice_fields, set_timestamps=_stamp_slice)
TAINT_RULE = Strategy(
    has_status=True,
    generation_of=("spec",),
    status_preserved_meta=STATUS_METADATA,
    reset_fields=RESETS_METADATA,
    set_timestamps=_stamp_rule,
)
