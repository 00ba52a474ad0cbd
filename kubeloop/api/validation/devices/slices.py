# SPDX-License-Identifier: Apache-2.0
"""Validation of ResourceSlices: the devices of a driver and the nodes that can use them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from kubeloop.api.generated import resource_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
)
from kubeloop.api.validation.devices.parts import (
    duplicate_errors,
    validate_attribute_name,
    validate_binding_conditions,
    validate_items,
    validate_pool_name,
    validate_taint,
)
from kubeloop.api.validation.pods.scheduling import validate_node_selector
from kubeloop.api.validation.pods.volumes.volume_sources import validate_csi_driver_name
from kubeloop.api.validation.shared.declarative import mark_generated
from kubeloop.api.validation.shared.formats import validate_short_name
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.objectmeta import byte_length
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    validate_dns_label,
    validate_dns_subdomain,
    validate_positive,
    validate_unchanged,
)

_SPEC: Final = FieldPath("spec")
_MAX_DEVICES: Final = 128
_MAX_ADVANCED_DEVICES: Final = 64
_MAX_COUNTER_SETS: Final = 8
_MAX_COUNTERS: Final = 32
_MAX_COMPATIBILITY_GROUPS: Final = 2
_MAX_CONSUMED_SETS: Final = 2
_MAX_TAINTS: Final = 16
_MAX_ATTRIBUTES: Final = 32
_MAX_ATTRIBUTE_VALUES: Final = 48
_MAX_VALUE: Final = 64
_ONE_PLACE: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_ONE_PLACE_EACH: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_PLACE: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_ONE_POLICY: Final = (
    'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
)
_VALUES: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def _validate_slice(obj: resource_v1.ResourceSlice) -> FieldErrors:
    return _validate_spec(obj.spec, None)


def _validate_update(new: resource_v1.ResourceSlice, old: resource_v1.ResourceSlice) -> FieldErrors:
    errors = validate_unchanged(new.spec.pool.name, old.spec.pool.name, _SPEC.child("pool", "name"))
    errors += validate_unchanged(new.spec.driver, old.spec.driver, _SPEC.child("driver"))
    errors += validate_unchanged(new.spec.node_name, old.spec.node_name, _SPEC.child("nodeName"))
    return errors + _validate_spec(new.spec, old.spec)


def _validate_spec(spec: resource_v1.ResourceSliceSpec, old: resource_v1.ResourceSliceSpec | None) -> FieldErrors:
    errors = validate_csi_driver_name(spec.driver, _SPEC.child("driver"))
    errors += _validate_pool(spec.pool, _SPEC.child("pool"))
    errors += _validate_place(spec)
    if spec.shared_counters and spec.devices:
        errors.append(invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed"))
    before = {device.name: device for device in old.devices} if old is not None else {}

    def check_device(device: resource_v1.Device, path: FieldPath) -> FieldErrors:
        return _validate_device(device, before.get(device.name), bool(spec.per_device_node_selection), path)

    limit = _MAX_ADVANCED_DEVICES if any(map(_is_advanced, spec.devices)) else _MAX_DEVICES
    at = _SPEC.child("devices")
    errors += validate_items(spec.devices, check_device, at, limit)
    if len(spec.devices) <= limit:
        errors += duplicate_errors(spec.devices, lambda one: one.name, at, lambda one: one.name)
    at = _SPEC.child("sharedCounters")
    return errors + validate_items(spec.shared_counters, _validate_counter_set, at, _MAX_COUNTER_SETS)


def _is_advanced(device: resource_v1.Device) -> bool:
    lists = any(one.ints or one.bools or one.strings or one.versions for one in device.attributes.values())
    return bool(device.taints or device.consumes_counters or lists)


def _validate_pool(pool: resource_v1.ResourcePool, path: FieldPath) -> FieldErrors:
    errors = validate_pool_name(pool.name, path.child("name"))
    errors += validate_positive(pool.resource_slice_count, path.child("resourceSliceCount"))
    if pool.generation < 0:
        errors.append(invalid(path.child("generation"), pool.generation, "must be greater than or equal to zero"))
    return errors


def _validate_place(spec: resource_v1.ResourceSliceSpec) -> FieldErrors:
    errors: FieldErrors = []
    places: list[str] = []
    if spec.node_name:
        places.append("`nodeName`")
        errors += validate_dns_subdomain(spec.node_name, _SPEC.child("nodeName"))
    elif spec.node_name is not None:
        detail = "must be either unset or set to a non-empty string"
        errors.append(invalid(_SPEC.child("nodeName"), "", detail))
    if spec.node_selector is not None:
        places.append("`nodeSelector`")
        at = _SPEC.child("nodeSelector")
        errors += validate_node_selector(spec.node_selector, at)
        terms = spec.node_selector.node_selector_terms or ()
        if len(terms) != 1:
            detail = "must have exactly one node selector term"
            errors.append(invalid(at.child("nodeSelectorTerms"), to_internal(terms), detail))
    for name, flag in (("allNodes", spec.all_nodes), ("perDeviceNodeSelection", spec.per_device_node_selection)):
        if flag:
            places.append(f"`{name}`")
        elif flag is not None:
            errors.append(invalid(_SPEC.child(name), False, "must be either unset or set to true"))
    if not places:
        errors.append(required(_SPEC, _ONE_PLACE))
    elif len(places) > 1:
        detail = f"{_ONE_PLACE}, but multiple fields are set"
        errors.append(invalid(_SPEC, f"{{{', '.join(places)}}}", detail))
    return errors


def _validate_counter_set(counters: resource_v1.CounterSet, path: FieldPath) -> FieldErrors:
    return _validate_counters(counters.name, "name", counters.counters, path)


def _validate_consumption(consumed: resource_v1.DeviceCounterConsumption, path: FieldPath) -> FieldErrors:
    errors = _validate_counters(consumed.counter_set, "counterSet", consumed.counters, path)
    return errors + _validate_compatibility_groups(consumed.compatibility_groups, path.child("compatibilityGroups"))


def _validate_compatibility_groups(groups: Sequence[str], path: FieldPath) -> FieldErrors:
    """Validate the names of groups, which are declared to be few, unique labels."""
    if not groups:
        return []
    errors = validate_items(groups, validate_short_name, path, _MAX_COMPATIBILITY_GROUPS)
    if len(groups) <= _MAX_COMPATIBILITY_GROUPS:
        errors += duplicate_errors(groups, str, path, str)
    return mark_generated(errors)


def _validate_counters(name: str, field: str, counters: Mapping[str, object], path: FieldPath) -> FieldErrors:
    errors = validate_dns_label(name, path.child(field)) if name else [required(path.child(field))]
    at = path.child("counters")
    if not counters:
        return [*errors, required(at)]
    if len(counters) > _MAX_COUNTERS:
        return [*errors, too_many(at, len(counters), _MAX_COUNTERS)]
    for key in counters:
        errors += validate_dns_label(key, at)
    return errors


def _validate_device(
    device: resource_v1.Device, old: resource_v1.Device | None, chooses_node: bool, path: FieldPath
) -> FieldErrors:
    errors = validate_dns_label(device.name, path.child("name"))
    errors += _validate_attributes(device, path)
    if old is None or old.capacity != device.capacity:
        errors += _validate_capacity(device, path.child("capacity"))
    if old is None or old.taints != device.taints:
        errors += validate_items(device.taints, validate_taint, path.child("taints"), _MAX_TAINTS)
    at = path.child("consumesCounters")
    errors += validate_items(device.consumes_counters, _validate_consumption, at, _MAX_CONSUMED_SETS)
    if chooses_node:
        errors += _validate_own_place(device, path)
    elif device.node_name is not None or device.node_selector is not None or device.all_nodes is not None:
        errors.append(invalid(path, None, _NO_PLACE))
    return errors + validate_binding_conditions(device, path)


def _validate_own_place(device: resource_v1.Device, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    places: list[str] = []
    if device.node_name:
        places.append("`nodeName`")
        errors += validate_dns_subdomain(device.node_name, path.child("nodeName"))
    elif device.node_name is not None:
        errors.append(invalid(path.child("nodeName"), "", "must not be empty"))
    if device.node_selector is not None:
        places.append("`nodeSelector`")
        errors += validate_node_selector(device.node_selector, path.child("nodeSelector"))
    if device.all_nodes:
        places.append("`allNodes`")
    elif device.all_nodes is not None:
        errors.append(invalid(path.child("allNodes"), False, "must be either unset or set to true"))
    if not places:
        errors.append(required(path, _ONE_PLACE_EACH))
    elif len(places) > 1:
        errors.append(invalid(path, f"{{{', '.join(places)}}}", _ONE_PLACE_EACH))
    return errors


def _validate_attributes(device: resource_v1.Device, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    count = len(device.attributes) + len(device.capacity)
    if count > _MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        errors.append(invalid(path, count, detail))
    values = sum(
        len(one.ints) + len(one.bools) + len(one.strings) + len(one.versions) or 1 for one in device.attributes.values()
    )
    if values > _MAX_ATTRIBUTE_VALUES:
        detail = f"the total number of attribute values must not exceed {_MAX_ATTRIBUTE_VALUES}"
        errors.append(invalid(path, values, detail))
    at = path.child("attributes")
    for name, attribute in device.attributes.items():
        errors += validate_attribute_name(name, at)
        errors += _validate_attribute(attribute, at.key(name))
    return errors


def _validate_attribute(attribute: resource_v1.DeviceAttribute, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if attribute.string is not None and byte_length(attribute.string) > _MAX_VALUE:
        errors.append(too_long(path.child("string"), _MAX_VALUE))
    for index, text in enumerate(attribute.strings):
        if byte_length(text) > _MAX_VALUE:
            errors.append(too_long(path.child("strings").index(index), _MAX_VALUE))
    if attribute.version is not None:
        errors += _validate_version(attribute.version, path.child("version"))
    for index, version in enumerate(attribute.versions):
        errors += _validate_version(version, path.child("versions").index(index))
    return errors + _validate_one_value(attribute, path)


def _validate_one_value(attribute: resource_v1.DeviceAttribute, path: FieldPath) -> FieldErrors:
    values = (
        attribute.int_, attribute.bool_, attribute.string, attribute.version,
        attribute.ints or None, attribute.bools or None, attribute.strings or None, attribute.versions or None,
    )  # fmt: skip
    given = [name for name, value in zip(_VALUES, values, strict=True) if value is not None]
    if len(given) == 1:
        return []
    names = ", ".join(f"`{name}`" for name in _VALUES)
    shown = f"{{{', '.join(given)}}}" if given else ""
    return [invalid(path, shown, f"must specify {'exactly one' if given else 'one'} of: {names}")]


def _validate_version(version: str, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if not _SEMVER.fullmatch(version):
        errors.append(invalid(path, version, "must be a string compatible with semver.org spec 2.0.0"))
    if byte_length(version) > _MAX_VALUE:
        errors.append(too_long(path, _MAX_VALUE))
    return errors


def _validate_capacity(device: resource_v1.Device, path: FieldPath) -> FieldErrors:
    """Validate capacities; a request policy requires that a device allows multiple allocations."""
    errors: FieldErrors = []
    for name, capacity in device.capacity.items():
        errors += validate_attribute_name(name, path)
        policy, at = capacity.request_policy, path.key(name).child("requestPolicy")
        if policy is None:
            continue
        if not device.allow_multiple_allocations:
            errors.append(forbidden(at, "allowMultipleAllocations must be true"))
        elif policy.valid_values and policy.valid_range is not None:
            errors.append(forbidden(at, _ONE_POLICY))
        elif policy.default is None and (policy.valid_values or policy.valid_range is not None):
            what = "validValues" if policy.valid_values else "validRange"
            errors.append(required(at.child("default"), f"required when {what} is defined"))
    return errors


RESOURCE_SLICE = ValidationRules(_validate_slice, _validate_update)
