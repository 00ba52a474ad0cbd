# SPDX-License-Identifier: Apache-2.0
"""Validation of the health of volumes, in the status of pods and of claims."""

from __future__ import annotations

import re
from typing import Final

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.generated.core_v1 import VolumeHealthCondition
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid
from kubeloop.api.validation.shared.meta_conditions import BAD_REASON, REASON
from kubeloop.api.validation.shared.tags import DeclarativeValidation, FieldTags, StructTags

_CONDITIONS: Final = FieldTags(max_items=16, keys=("status", "reason"), shape="condition")
# Declarative validation of a pod's and of a claim's status. No field has a gate: the strategies drop disabled ones.
VOLUME_HEALTH: Final = DeclarativeValidation(
    {
        "pod status": StructTags({"volumeHealth": FieldTags(keys=("name",), shape="volume")}),
        "volume": StructTags({"name": FieldTags(required=True), "healthConditions": _CONDITIONS}),
        "claim status": StructTags({"healthStatus": FieldTags(shape="health")}),
        "health": StructTags({"healthConditions": _CONDITIONS}),
        "condition": StructTags(
            {
                "status": FieldTags(required=True, symbols=("DataLoss", "Degraded", "Inaccessible")),
                "reason": FieldTags(required=True, max_bytes=256),
                "message": FieldTags(max_bytes=1024),
            }
        ),
    },
    DEFAULT_FEATURES,
)


def validate_reasons(conditions: tuple[VolumeHealthCondition, ...], path: FieldPath) -> FieldErrors:
    """Validate the form of the reasons of volume health conditions."""
    return [
        invalid(path.index(index).child("reason"), condition.reason, BAD_REASON)
        for index, condition in enumerate(conditions)
        if condition.reason and not re.fullmatch(REASON, condition.reason)
    ]
