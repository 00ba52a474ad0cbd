# SPDX-License-Identifier: Apache-2.0
"""Validation of ResourcePoolStatusRequests and their status."""

from __future__ import annotations

from functools import partial
from typing import Final

from kubeloop.api.features.gates import Features
from kubeloop.api.generated.resource_v1alpha3 import ResourcePoolStatusRequest
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.validation.shared.declarative import validate_immutable
from kubeloop.api.validation.shared.formats import (
    validate_caseless_long_name,
    validate_fully_qualified_name,
    validate_long_name,
    validate_pool_name,
)
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.meta_conditions import validate_conditions
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import IMMUTABLE
from kubeloop.api.validation.shared.tags import DeclarativeValidation, FieldTags, StructTags, Table

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_COUNT: Final = FieldTags(minimum=0)
_NEEDED_COUNT: Final = FieldTags(required=True, minimum=0)
_NEEDED: Final = FieldTags(required=True)
_DRIVER: Final = FieldTags(required=True, format=validate_caseless_long_name)

_TABLE: Final[Table] = {
    "request": StructTags(
        {
            "driver": _DRIVER,
            "poolName": FieldTags(format=validate_pool_name),
            "limit": FieldTags(required=True, minimum=1, maximum=1000),
            "defaultPartitionTypeAttribute": FieldTags(
                gate="DRAPartitionableDevicesType", format=validate_fully_qualified_name
            ),
        }
    ),
    "status": StructTags(
        {
            "poolCount": _NEEDED_COUNT,
            "pools": FieldTags(max_items=1000, shape="pool"),
            "conditions": FieldTags(max_items=10),
        }
    ),
    "pool": StructTags(
        {
            "driver": _DRIVER,
            "poolName": FieldTags(required=True, format=validate_pool_name),
            "generation": _NEEDED_COUNT,
            "resourceSliceCount": FieldTags(minimum=1),
            "totalDevices": _COUNT,
            "allocatedDevices": _COUNT,
            "availableDevices": _COUNT,
            "unavailableDevices": _COUNT,
            "nodeName": FieldTags(format=validate_long_name),
            "validationError": FieldTags(max_bytes=256),
            "partitionSummary": FieldTags(max_items=32, keys=("attribute", "type"), shape="partitions"),
            "shareableSummary": FieldTags(shape="shares"),
        }
    ),
    "partitions": StructTags(
        {"attribute": _NEEDED, "type": _NEEDED, "total": _NEEDED_COUNT, "allocatable": _NEEDED_COUNT}
    ),
    "shares": StructTags(
        {
            "fullyAvailableDevices": _NEEDED_COUNT,
            "partiallyAvailableDevices": _NEEDED_COUNT,
            "capacity": FieldTags(max_items=32, shape="capacity"),
        }
    ),
    "capacity": StructTags({"name": _NEEDED, "total": _NEEDED, "consumed": _NEEDED, "available": _NEEDED}),
}


def _validate_create(tags: DeclarativeValidation, obj: ResourcePoolStatusRequest) -> FieldErrors:
    return tags.validate_create(obj.spec, "request", _SPEC)


def _validate_update(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest) -> FieldErrors:
    return [] if is_semantically_equal(new.spec, old.spec) else validate_immutable(new.spec, old.spec, _SPEC)


def _validate_status(
    tags: DeclarativeValidation, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest
) -> FieldErrors:
    """Validate that a completed status does not change."""
    if old.status is not None:
        if is_semantically_equal(new.status, old.status):
            return []
        return [invalid(_STATUS, to_internal(new.status), IMMUTABLE)]
    if new.status is None:
        return []
    errors = validate_conditions(new.status.conditions, _STATUS.child("conditions"))
    return errors + tags.validate_create(new.status, "status", _STATUS)


def pool_status_request_rules(features: Features) -> ValidationRules:
    """Return the rules of ResourcePoolStatusRequests."""
    tags = DeclarativeValidation(_TABLE, features)
    return ValidationRules(
        partial(_validate_create, tags), _validate_update, {"status": partial(_validate_status, tags)}
    )
