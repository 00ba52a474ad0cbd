# SPDX-License-Identifier: Apache-2.0
"""Strategy of HorizontalPodAutoscalers: drops the annotations that carry fields of another version."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.conversions.autoscaling import without_v1_annotations
from kubeloop.api.generated.autoscaling_v2 import HorizontalPodAutoscaler
from kubeloop.api.strategy.base import RESETS_SPEC, Strategy


def _refine(new: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler | None) -> None:
    kept = without_v1_annotations(new.metadata)
    if kept is not new.metadata:
        force_setattr(new.metadata, "annotations", kept.annotations)


AUTOSCALER = Strategy(generation_of=("spec",), has_status=True, reset_fields=RESETS_SPEC, refine=_refine)
