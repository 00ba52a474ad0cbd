# SPDX-License-Identifier: Apache-2.0
"""Validation of EvictionRequests and Evictions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Final

from kubeloop.api.features.gates import Features
from kubeloop.api.generated.lifecycle_v1alpha1 import Eviction, EvictionRequest, EvictionStatus
from kubeloop.api.generated.meta_v1 import Condition
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid
from kubeloop.api.validation.lifecycle.responders import validate_responder_statuses, validate_target_responders
from kubeloop.api.validation.shared.formats import (
    validate_long_name,
    validate_prefixed_label_key,
    validate_unreserved_domain,
    validate_uuid,
)
from kubeloop.api.validation.shared.meta_conditions import shown_conditions, validate_conditions
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.tags import DeclarativeValidation, FieldTags, StructTags, Table

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_INTENTS: Final = ("Eviction", "Withdrawn")
_STATES: Final = ("Active", "Canceled", "Completed", "Inactive", "Interrupted")
_MAX_PARTICIPANTS: Final = 100
_MAX_RESPONDERS: Final = 11  # those of a pod, and the default one
_FINAL_CONDITIONS: Final = ("TargetEvicted", "Failed")
_NAME: Final = FieldTags(required=True, format=validate_prefixed_label_key)
_FIXED_TIME: Final = FieldTags(fixed_once_set=True)
_GENERATION: Final = FieldTags(minimum=1, kept_once_set=True, monotonic=True)


def validate_participant_name(value: str, path: FieldPath) -> FieldErrors:
    """Validate the name of a requester or responder that does not belong to Kubernetes."""
    return validate_unreserved_domain(value, path) + validate_prefixed_label_key(value, path)


_TABLE: Final[Table] = {
    "request": StructTags(
        {
            "target": FieldTags(immutable="always", shape="target"),
            "requester": FieldTags(required=True, immutable="always", format=validate_participant_name),
            "intent": FieldTags(required=True, symbols=_INTENTS),
        }
    ),
    "eviction": StructTags({"target": FieldTags(immutable="always", shape="target")}),
    "target": StructTags({"pod": FieldTags(shape="pod")}, unions=(("pod",),)),
    "pod": StructTags(
        {
            "name": FieldTags(required=True, format=validate_long_name),
            "uid": FieldTags(required=True, format=validate_uuid),
        }
    ),
    "request status": StructTags(
        {"conditions": FieldTags(max_items=_MAX_PARTICIPANTS), "observedGeneration": _GENERATION}
    ),
    "status": StructTags(
        {
            "conditions": FieldTags(max_items=_MAX_PARTICIPANTS),
            "observedGeneration": _GENERATION,
            "requesters": FieldTags(max_items=_MAX_PARTICIPANTS, keys=("name",), shape="requester"),
            "targetResponders": FieldTags(max_items=_MAX_RESPONDERS, keys=("name",), shape="target responder"),
            "responders": FieldTags(max_items=_MAX_RESPONDERS, keys=("name",), shape="responder"),
        }
    ),
    "requester": StructTags({"name": _NAME, "intent": FieldTags(required=True, symbols=_INTENTS)}),
    "target responder": StructTags(
        {
            "name": _NAME,
            "priority": FieldTags(required=True, fixed_once_set=True, minimum=0, maximum=100_000),
            "state": FieldTags(required=True, symbols=_STATES),
        }
    ),
    "responder": StructTags(
        {
            "name": _NAME,
            "startTime": _FIXED_TIME,
            "completionTime": _FIXED_TIME,
            "message": FieldTags(max_bytes=4000),
        }
    ),
}


def _validate_request(tags: DeclarativeValidation, new: EvictionRequest) -> FieldErrors:
    return tags.validate_create(new.spec, "request", _SPEC)


def _validate_request_update(tags: DeclarativeValidation, new: EvictionRequest, old: EvictionRequest) -> FieldErrors:
    return tags.validate_update(new.spec, old.spec, "request", _SPEC)


def _validate_request_status(tags: DeclarativeValidation, new: EvictionRequest, old: EvictionRequest) -> FieldErrors:
    errors = validate_conditions(new.status.conditions, _STATUS.child("conditions"))
    return errors + tags.validate_update(new.status, old.status, "request status", _STATUS)


def _validate_eviction(tags: DeclarativeValidation, new: Eviction) -> FieldErrors:
    return tags.validate_create(new.spec, "eviction", _SPEC)


def _validate_eviction_update(tags: DeclarativeValidation, new: Eviction, old: Eviction) -> FieldErrors:
    return tags.validate_update(new.spec, old.spec, "eviction", _SPEC)


def _validate_eviction_status(tags: DeclarativeValidation, new: Eviction, old: Eviction, now: datetime) -> FieldErrors:
    """Validate a status, which several clients write: only transitions of the eviction controller are accepted."""
    path = _STATUS.child("conditions")
    errors = validate_conditions(new.status.conditions, path)
    reverted = list(_reverted(new.status, old.status))
    for kind in reverted:
        text = f"{kind} condition status cannot be reverted"
        errors.append(invalid(path, shown_conditions(new.status.conditions), text))
    is_final = bool(reverted) or any(_is_true(new.status.conditions, kind) for kind in _FINAL_CONDITIONS)
    errors += validate_target_responders(new.status, old.status, is_final, now)
    errors += validate_responder_statuses(new.status, old.status, now)
    return errors + tags.validate_update(new.status, old.status, "status", _STATUS)


def _reverted(new: EvictionStatus, old: EvictionStatus) -> Iterable[str]:
    """Yield the types of final conditions that were true and are not any more, or have another reason."""
    for before in old.conditions:
        if before.type not in _FINAL_CONDITIONS or before.status != "True":
            continue
        after = next((one for one in new.conditions if one.type == before.type), None)
        if after is None or after.status == "False" or after.reason != before.reason:
            yield before.type


def _is_true(conditions: Iterable[Condition], kind: str) -> bool:
    return any(one.type == kind and one.status == "True" for one in conditions)


def eviction_request_rules(features: Features) -> ValidationRules:
    """Return the rules of EvictionRequests."""
    tags = DeclarativeValidation(_TABLE, features)
    return ValidationRules(
        partial(_validate_request, tags),
        partial(_validate_request_update, tags),
        {"status": partial(_validate_request_status, tags)},
    )


def eviction_rules(features: Features) -> ValidationRules:
    """Return the rules of Evictions."""
    tags = DeclarativeValidation(_TABLE, features)
    return ValidationRules(
        partial(_validate_eviction, tags),
        partial(_validate_eviction_update, tags),
        timed_subresources={"status": partial(_validate_eviction_status, tags)},
    )
