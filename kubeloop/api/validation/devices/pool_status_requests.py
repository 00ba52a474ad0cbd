"""Validation of ResourcePoolStatusRequests and their status."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.resource_v1alpha3 import ResourcePoolStatusRequest
from kubeloop.api.meta.field_path import FieldErrors, Path, invalid
from kubeloop.api.strategy.equality import means_the_same
from kubeloop.api.validation.shared.declarative import immutable
from kubeloop.api.validation.shared.formats import (
    fully_qualified_name,
    long_name,
    long_name_of_any_case,
    pool_name,
)
from kubeloop.api.validation.shared.go_values import internal
from kubeloop.api.validation.shared.meta_conditions import validate_conditions
from kubeloop.api.validation.shared.rules import Rules
from kubeloop.api.validation.shared.scalars import IMMUTABLE
from kubeloop.api.validation.shared.tags import Field, Shape, Tags

_SPEC: Final = Path("spec")
_STATUS: Final = Path("status")
_COUNT: Final = Field(minimum=0)
_NEEDED_COUNT: Final = Field(required=True, minimum=0)
_NEEDED: Final = Field(required=True)
_DRIVER: Final = Field(required=True, format=long_name_of_any_case)

TAGS: Final = Tags(
    {
        "request": Shape(
            {
                "driver": _DRIVER,
                "poolName": Field(format=pool_name),
                "limit": Field(required=True, minimum=1, maximum=1000),
                "defaultPartitionTypeAttribute": Field(gate="DRAPartitionableDevicesType", format=fully_qualified_name),
            }
        ),
        "status": Shape(
            {
                "poolCount": _NEEDED_COUNT,
                "pools": Field(max_items=1000, shape="pool"),
                "conditions": Field(max_items=10),
            }
        ),
        "pool": Shape(
            {
                "driver": _DRIVER,
                "poolName": Field(required=True, format=pool_name),
                "generation": _NEEDED_COUNT,
                "resourceSliceCount": Field(minimum=1),
                "totalDevices": _COUNT,
                "allocatedDevices": _COUNT,
                "availableDevices": _COUNT,
                "unavailableDevices": _COUNT,
                "nodeName": Field(format=long_name),
                "validationError": Field(max_bytes=256),
                "partitionSummary": Field(max_items=32, keys=("attribute", "type"), shape="partitions"),
                "shareableSummary": Field(shape="shares"),
            }
        ),
        "partitions": Shape(
            {"attribute": _NEEDED, "type": _NEEDED, "total": _NEEDED_COUNT, "allocatable": _NEEDED_COUNT}
        ),
        "shares": Shape(
            {
                "fullyAvailableDevices": _NEEDED_COUNT,
                "partiallyAvailableDevices": _NEEDED_COUNT,
                "capacity": Field(max_items=32, shape="capacity"),
            }
        ),
        "capacity": Shape({"name": _NEEDED, "total": _NEEDED, "consumed": _NEEDED, "available": _NEEDED}),
    }
)


def _validate_create(obj: ResourcePoolStatusRequest) -> FieldErrors:
    return TAGS.on_create(obj.spec, "request", _SPEC)


def _validate_update(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest) -> FieldErrors:
    return [] if means_the_same(new.spec, old.spec) else immutable(new.spec, old.spec, _SPEC)


def _validate_status(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest) -> FieldErrors:
    """Validate that a completed status does not change."""
    if old.status is not None:
        if means_the_same(new.status, old.status):
            return []
        return [invalid(_STATUS, internal(new.status), IMMUTABLE)]
    if new.status is None:
        return []
    errors = validate_conditions(new.status.conditions, _STATUS.child("conditions"))
    return errors + TAGS.on_create(new.status, "status", _STATUS)


POOL_STATUS_REQUEST = Rules(_validate_create, _validate_update, {"status": _validate_status})
