# SPDX-License-Identifier: Apache-2.0
"""Strategies of CustomResourceDefinitions and APIServices."""

from __future__ import annotations

from msgspec.structs import replace

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.generated.apiregistration_v1 import APIService, APIServiceCondition
from kubeloop.api.scalars import wire
from kubeloop.api.strategy.base import RESETS_METADATA, RESETS_SPEC, Strategy

_LOCAL = APIServiceCondition(
    type="Available", status="True", reason="Local", message="Local APIServices are always available"
)


def _refine_definition(new: CustomResourceDefinition, old: CustomResourceDefinition | None) -> None:
    """Add the storage version to status.storedVersions, since objects may be stored in it."""
    status = new.status
    stored = next((version.name for version in new.spec.versions or () if version.storage), None)
    versions = status.stored_versions or ()
    if stored is not None and stored not in versions:
        force_setattr(new, "status", replace(status, stored_versions=(*versions, stored)))


def _refine_api_service(new: APIService, old: APIService | None) -> None:
    if old is None and new.spec.service is None:
        force_setattr(new.status, "conditions", (_LOCAL,))


def _stamp_api_service(new: APIService, old: APIService | None, now: str) -> None:
    if old is None and new.status.conditions:
        stamped = tuple(replace(each, last_transition_time=wire.Time(now)) for each in new.status.conditions)
        force_setattr(new.status, "conditions", stamped)


CUSTOM_RESOURCE_DEFINITION = Strategy(
    has_status=True,
    generation_of=("spec",),
    reset_fields=RESETS_SPEC,
    allow_unconditional_update=False,
    refine=_refine_definition,
)
API_SERVICE = Strategy(
    has_status=True,
    status_preserved_meta=("labels", "annotations", "finalizers", "owner_references"),
    reset_fields=RESETS_METADATA,
    allow_unconditional_update=False,
    refine=_refine_api_service,
    set_timestamps=_stamp_api_service,
)
