# SPDX-License-Identifier: Apache-2.0
"""Validation of CSIDrivers, CSINodes and CSIStorageCapacities."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeloop.api.generated import storage_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.pods.volumes.volume_sources import validate_csi_driver_name
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.meta_conditions import validate_reason
from kubeloop.api.validation.shared.objectmeta import byte_length
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    IMMUTABLE,
    NOT_NEGATIVE,
    validate_dns_subdomain,
    validate_nonnegative,
    validate_qualified_name,
    validate_unchanged,
)

_SPEC: Final = FieldPath("spec")
_DRIVERS: Final = _SPEC.child("drivers")
_HEALTH: Final = FieldPath("status").child("storageHealth")
_FS_GROUP_POLICIES: Final = frozenset(("File", "None", "ReadWriteOnceWithFSType"))
_LIFECYCLES: Final = ("Persistent", "Ephemeral")
_HEALTH_STATUSES: Final = frozenset(("StorageUnreachable", "StorageDegraded"))
_ACCESS_MODES: Final = frozenset(("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"))
_VOLUME_MODES: Final = ("Filesystem", "Block")
_NODE_ID_MAX: Final = 256
_HEALTH_CONDITIONS_MAX: Final = 16
_HEALTH_REASON_MAX: Final = 256
_HEALTH_MESSAGE_MAX: Final = 1024
_TOKEN_SECONDS_MIN: Final = 600
_TOKEN_SECONDS_MAX: Final = 1 << 32
_UPDATE_SECONDS_MIN: Final = 10


def _validate_driver(obj: storage_v1.CSIDriver) -> FieldErrors:
    spec = obj.spec
    errors: FieldErrors = []
    if spec.fs_group_policy is not None and spec.fs_group_policy not in _FS_GROUP_POLICIES:
        errors.append(not_supported(_SPEC.child("fsGroupPolicy"), spec.fs_group_policy, _FS_GROUP_POLICIES))
    errors += _validate_token_requests(spec.token_requests, _SPEC.child("tokenRequests"))
    for mode in spec.volume_lifecycle_modes:
        if mode not in _LIFECYCLES:
            errors.append(not_supported(_SPEC.child("volumeLifecycleModes"), mode, _LIFECYCLES))
    period = spec.node_allocatable_update_period_seconds
    if period is not None and period < _UPDATE_SECONDS_MIN:
        at = _SPEC.child("nodeAllocatableUpdatePeriodSeconds")
        errors.append(invalid(at, period, "must be greater than or equal to 10 seconds"))
    if spec.service_account_token_in_secrets is not None and not spec.token_requests:
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        at = _SPEC.child("serviceAccountTokenInSecrets")
        errors.append(invalid(at, spec.service_account_token_in_secrets, detail))
    return errors


def _validate_token_requests(requests: tuple[storage_v1.TokenRequest, ...], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    audiences: set[str] = set()
    for index, request in enumerate(requests):
        at = path.index(index)
        if request.audience in audiences:
            errors.append(duplicate(at.child("audience"), request.audience))
            continue
        audiences.add(request.audience)
        seconds = request.expiration_seconds
        if seconds is not None and seconds < _TOKEN_SECONDS_MIN:
            detail = "may not specify a duration less than 10 minutes"
            errors.append(invalid(at.child("expirationSeconds"), seconds, detail))
        if seconds is not None and seconds > _TOKEN_SECONDS_MAX:
            detail = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(at.child("expirationSeconds"), seconds, detail))
    return errors


def _validate_driver_update(new: storage_v1.CSIDriver, old: storage_v1.CSIDriver) -> FieldErrors:
    errors = _validate_driver(new)
    errors += validate_unchanged(new.spec.attach_required, old.spec.attach_required, _SPEC.child("attachedRequired"))
    before, after = old.spec.volume_lifecycle_modes, new.spec.volume_lifecycle_modes
    return errors + validate_unchanged(after, before, _SPEC.child("volumeLifecycleModes"), after or None)


def _validate_node(obj: storage_v1.CSINode) -> FieldErrors:
    errors: FieldErrors = []
    names: set[str] = set()
    for index, driver in enumerate(obj.spec.drivers or ()):
        at = _DRIVERS.index(index)
        errors += validate_csi_driver_name(driver.name, at.child("name"))
        errors += _validate_node_id(driver.node_id, at.child("nodeID"))
        if driver.allocatable is not None:
            errors += validate_nonnegative(driver.allocatable.count, at.child("allocatable", "count"))
        if driver.name in names:
            errors.append(duplicate(at.child("name"), driver.name))
        names.add(driver.name)
        errors += _validate_topology_keys(driver.topology_keys or (), at)
    return errors


def _validate_node_id(node_id: str, path: FieldPath) -> FieldErrors:
    if not node_id:
        return [required(path)]
    detail = f"must be {_NODE_ID_MAX} characters or less"
    return [invalid(path, node_id, detail)] if byte_length(node_id) > _NODE_ID_MAX else []


def _validate_topology_keys(keys: tuple[str, ...], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for index, key in enumerate(keys):
        if not key:
            errors.append(required(path))
        if key in keys[:index]:
            errors.append(duplicate(path, key))
        errors += validate_qualified_name(key, path)
    return errors


def _validate_node_update(new: storage_v1.CSINode, old: storage_v1.CSINode) -> FieldErrors:
    """Validate that drivers which remain on a node change at most their volume limit."""
    errors = _validate_node(new)
    before = {driver.name: driver for driver in old.spec.drivers or ()}
    for driver in new.spec.drivers or ():
        known = before.get(driver.name)
        if known is not None and _without_limit(driver) != _without_limit(known):
            errors.append(invalid(_DRIVERS, _shown_driver(driver), IMMUTABLE))
    return errors


def _without_limit(driver: storage_v1.CSINodeDriver) -> storage_v1.CSINodeDriver:
    return msgspec.structs.replace(driver, allocatable=None)


def _shown_driver(driver: storage_v1.CSINodeDriver) -> object:
    fields = {"Name": driver.name, "NodeID": driver.node_id, "TopologyKeys": driver.topology_keys or None}
    return ordered_object({**fields, "Allocatable": None})


def _validate_node_status(new: storage_v1.CSINode, old: storage_v1.CSINode) -> FieldErrors:
    errors: FieldErrors = []
    names: set[str] = set()
    for index, health in enumerate(new.status.storage_health):
        at = _HEALTH.index(index)
        if health.name in names:
            errors.append(duplicate(at, health.name))
        names.add(health.name)
        errors += validate_csi_driver_name(health.name, at.child("name"))
        errors += _validate_health(health.health_conditions, at.child("healthConditions"))
    return errors


def _validate_health(conditions: tuple[storage_v1.StorageHealthCondition, ...], path: FieldPath) -> FieldErrors:
    if len(conditions) > _HEALTH_CONDITIONS_MAX:
        return [too_many(path, len(conditions), _HEALTH_CONDITIONS_MAX)]
    errors: FieldErrors = []
    for index, condition in enumerate(conditions):
        at = path.index(index)
        if condition.status not in _HEALTH_STATUSES:
            errors.append(not_supported(at.child("status"), condition.status, _HEALTH_STATUSES))
        errors += validate_reason(condition.reason, _HEALTH_REASON_MAX, at.child("reason"))
        if byte_length(condition.message) > _HEALTH_MESSAGE_MAX:
            errors.append(too_long(at.child("message"), _HEALTH_MESSAGE_MAX))
        if condition.access_mode is not None and condition.access_mode not in _ACCESS_MODES:
            errors.append(not_supported(at.child("accessMode"), condition.access_mode, _ACCESS_MODES))
        if condition.volume_mode is not None and condition.volume_mode not in _VOLUME_MODES:
            errors.append(not_supported(at.child("volumeMode"), condition.volume_mode, _VOLUME_MODES))
    return errors


def _validate_capacity(obj: storage_v1.CSIStorageCapacity) -> FieldErrors:
    return _capacity_errors(obj, any_values=False)


def _capacity_errors(obj: storage_v1.CSIStorageCapacity, any_values: bool) -> FieldErrors:
    errors = validate_label_selector(obj.node_topology, FieldPath("nodeTopology"), any_values)
    errors += validate_dns_subdomain(obj.storage_class_name, FieldPath("storageClassName"))
    if obj.capacity is not None and parse_quantity(obj.capacity).sign() < 0:
        errors.append(invalid(FieldPath("capacity"), obj.capacity, NOT_NEGATIVE))
    return errors


def _validate_capacity_update(new: storage_v1.CSIStorageCapacity, old: storage_v1.CSIStorageCapacity) -> FieldErrors:
    lenient = bool(validate_label_selector(old.node_topology, FieldPath("nodeTopology")))
    errors = _capacity_errors(new, any_values=lenient)
    errors += validate_unchanged(new.node_topology, old.node_topology, FieldPath("nodeTopology"))
    return errors + validate_unchanged(new.storage_class_name, old.storage_class_name, FieldPath("storageClassName"))


CSI_DRIVER = ValidationRules(_validate_driver, _validate_driver_update)
CSI_NODE = ValidationRules(_validate_node, _validate_node_update, {"status": _validate_node_status})
CSI_STORAGE_CAPACITY = ValidationRules(_validate_capacity, _validate_capacity_update)
