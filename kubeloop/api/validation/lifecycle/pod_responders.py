# SPDX-License-Identifier: Apache-2.0
"""Validation of the eviction responders that a pod names."""

from __future__ import annotations

from typing import Final

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.generated.core_v1 import PodSpec
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid
from kubeloop.api.validation.lifecycle.evictions import validate_participant_name
from kubeloop.api.validation.lifecycle.responders import FIRST_FREE_PRIORITY, RESERVED_PRIORITY
from kubeloop.api.validation.shared.tags import DeclarativeValidation, FieldTags, StructTags


def _validate_priority(value: int, path: FieldPath) -> FieldErrors:
    return [invalid(path, value, RESERVED_PRIORITY)] if 0 <= value < FIRST_FREE_PRIORITY else []


# No rule asks a feature gate: without the feature, pods have no responders.
_TAGS: Final = DeclarativeValidation(
    {
        "spec": StructTags({"evictionResponders": FieldTags(max_items=10, keys=("name",), shape="responder")}),
        "responder": StructTags(
            {
                "name": FieldTags(required=True, format=validate_participant_name),
                "priority": FieldTags(required=True, custom=_validate_priority, minimum=0, maximum=100_000),
            }
        ),
    },
    DEFAULT_FEATURES,
)


def validate_eviction_responders(spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate the eviction responders of a new pod."""
    return _TAGS.validate_create(spec, "spec", path)
