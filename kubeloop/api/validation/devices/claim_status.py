# SPDX-License-Identifier: Apache-2.0
"""Validation of a ResourceClaim's status: allocation, consumers and device status."""

from __future__ import annotations

import re
from typing import Final

from kubeloop.api import codec
from kubeloop.api.addresses import check_interface_address
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
    validate_binding_conditions,
    validate_driver,
    validate_generated_toleration,
    validate_items,
    validate_json_object,
    validate_pool_name,
    validate_toleration,
)
from kubeloop.api.validation.devices.requests import RequestNames
from kubeloop.api.validation.pods.scheduling import validate_node_selector
from kubeloop.api.validation.pods.volumes.volume_sources import validate_csi_driver_name
from kubeloop.api.validation.shared import formats
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.meta_conditions import validate_conditions
from kubeloop.api.validation.shared.objectmeta import byte_length
from kubeloop.api.validation.shared.scalars import check_errors, validate_dns_label, validate_enum

_STATUS: Final = FieldPath("status")
_MAX_CONSUMERS: Final = 256
_MAX_RESULTS: Final = 32
_MAX_CONFIGS: Final = 64
_MAX_CONDITIONS: Final = 8
_MAX_JSON: Final = 10 * 1024
_MAX_INTERFACE: Final = 256
_MAX_HARDWARE: Final = 128
_MAX_ADDRESSES: Final = 16
_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BAD_UUID: Final = "must be a lowercase UUID in 8-4-4-4-12 format"
_DeviceKey = tuple[str, str, str, str]


def validate_claim_status(new: resource_v1.ResourceClaim, old: resource_v1.ResourceClaim) -> FieldErrors:
    """Validate an update of a ResourceClaim's status."""
    errors = _validate_consumers(new, old)
    allocation, before = new.status.allocation, old.status.allocation
    errors += _validate_devices(new)
    if allocation is not None and before is None:
        errors += _validate_allocation(allocation, RequestNames(new.spec.devices), _STATUS.child("allocation"))
    elif allocation is not None and allocation != before:
        errors.append(invalid(_STATUS.child("allocation"), None, "field cannot be modified once set"))
    return sort_generated_last(errors)


def _validate_consumers(new: resource_v1.ResourceClaim, old: resource_v1.ResourceClaim) -> FieldErrors:
    consumers, path = new.status.reserved_for, _STATUS.child("reservedFor")
    errors = validate_items(consumers, _validate_consumer, path, _MAX_CONSUMERS)
    if len(consumers) <= _MAX_CONSUMERS:
        errors += duplicate_errors(consumers, lambda one: one.uid, path, _shown_consumer)
    if consumers and new.status.allocation is None:
        errors.append(forbidden(path, "may not be specified when `allocated` is not set"))
    elif new.metadata.deletion_timestamp and _identities(new) - _identities(old):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden(path, detail))
    return errors


def _identities(claim: resource_v1.ResourceClaim) -> set[tuple[str, ...]]:
    return {(one.api_group, one.resource, one.name, one.uid) for one in claim.status.reserved_for}


def _validate_consumer(consumer: resource_v1.ResourceClaimConsumerReference, path: FieldPath) -> FieldErrors:
    fields = (("resource", consumer.resource), ("name", consumer.name), ("uid", consumer.uid))
    return [required(path.child(name)) for name, value in fields if not value]


def _shown_consumer(consumer: resource_v1.ResourceClaimConsumerReference) -> object:
    fields = {"apiGroup": consumer.api_group} if consumer.api_group else {}
    return ordered_object({**fields, "resource": consumer.resource, "name": consumer.name, "uid": consumer.uid})


def _validate_devices(obj: resource_v1.ResourceClaim) -> FieldErrors:
    allocation = obj.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    allocated = {_key(result) for result in results}
    path = _STATUS.child("devices")
    errors: FieldErrors = []
    for index, device in enumerate(obj.status.devices):
        at = path.index(index)
        errors += _validate_device(device, at)
        if _key(device) not in allocated:
            errors.append(invalid(at, _shown_key(device), "must be an allocated device in the claim"))
    return errors + duplicate_errors(obj.status.devices, _key, path, _shown_device)


def _key(device: resource_v1.AllocatedDeviceStatus | resource_v1.DeviceRequestAllocationResult) -> _DeviceKey:
    return device.driver, device.pool, device.device, device.share_id or ""


def _shown_key(device: resource_v1.AllocatedDeviceStatus) -> object:
    return ordered_object(dict(zip(("Driver", "Pool", "Device", "ShareID"), _key(device), strict=True)))


def _shown_device(device: resource_v1.AllocatedDeviceStatus) -> object:
    plain = codec.to_plain(device)
    names = ("driver", "pool", "device", "shareID", "conditions", "data", "networkData")
    return ordered_object({name: plain.get(name) for name in names if name in plain or name == "conditions"})


def _validate_device(device: resource_v1.AllocatedDeviceStatus, path: FieldPath) -> FieldErrors:
    errors = validate_csi_driver_name(device.driver, path.child("driver"))
    errors += validate_pool_name(device.pool, path.child("pool"))
    errors += validate_dns_label(device.device, path.child("device"))
    errors += _validate_share(device.share_id, path.child("shareID"))
    conditions, at = device.conditions or (), path.child("conditions")
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(at, len(conditions), _MAX_CONDITIONS))
    errors += validate_conditions(conditions, at)
    if bytes(device.data):
        errors += validate_json_object(device.data, _MAX_JSON, path.child("data"))
    if device.network_data is not None:
        errors += _validate_network(device.network_data, path.child("networkData"))
    return errors


def _validate_share(share: str | None, path: FieldPath) -> FieldErrors:
    return [] if share is None or _UUID.fullmatch(share) else mark_generated([invalid(path, share, _BAD_UUID)])


def _validate_network(network: resource_v1.NetworkDeviceData, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if byte_length(network.interface_name) > _MAX_INTERFACE:
        errors.append(too_long(path.child("interfaceName"), _MAX_INTERFACE))
    if byte_length(network.hardware_address) > _MAX_HARDWARE:
        errors.append(too_long(path.child("hardwareAddress"), _MAX_HARDWARE))

    def check_address(address: str, path: FieldPath) -> FieldErrors:
        return check_errors(check_interface_address, address, path)

    errors += validate_items(network.ips, check_address, path.child("ips"), _MAX_ADDRESSES)
    return errors + duplicate_errors(network.ips, str, path.child("ips"), str)


def _validate_allocation(allocation: resource_v1.AllocationResult, names: RequestNames, path: FieldPath) -> FieldErrors:
    at = path.child("devices")

    def check_result(result: resource_v1.DeviceRequestAllocationResult, path: FieldPath) -> FieldErrors:
        return _validate_result(result, names, path)

    def check_config(config: resource_v1.DeviceAllocationConfiguration, path: FieldPath) -> FieldErrors:
        errors = validate_enum(config.source, ("FromClaim", "FromClass"), path.child("source"))
        errors += names.validate(config.requests, path.child("requests"))
        if config.opaque is None:
            return [*errors, required(path.child("opaque"))]
        errors += validate_driver(config.opaque.driver, path.child("opaque", "driver"))
        parameters = path.child("opaque", "parameters")
        return errors + validate_json_object(config.opaque.parameters, _MAX_JSON, parameters)

    errors = validate_items(allocation.devices.results, check_result, at.child("results"), _MAX_RESULTS)
    errors += validate_items(allocation.devices.config, check_config, at.child("config"), _MAX_CONFIGS)
    if allocation.node_selector is not None:
        errors += validate_node_selector(allocation.node_selector, path.child("nodeSelector"))
    return errors


def _validate_result(
    result: resource_v1.DeviceRequestAllocationResult, names: RequestNames, path: FieldPath
) -> FieldErrors:
    errors = names.validate_one(result.request, path.child("request"))
    errors += validate_driver(result.driver, path.child("driver"))
    pool = path.child("pool")
    errors += formats.validate_pool_name(result.pool, pool) if result.pool else [required(pool)]
    errors += validate_dns_label(result.device, path.child("device"))
    errors += validate_binding_conditions(result, path)
    for index, toleration in enumerate(result.tolerations):
        at = path.child("tolerations").index(index)
        errors += validate_toleration(toleration, at) + validate_generated_toleration(toleration, at)
    return errors + _validate_share(result.share_id, path.child("shareID"))
