# SPDX-License-Identifier: Apache-2.0
"""Validation of DeviceTaintRules."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated import resource_v1
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, too_many
from kubeloop.api.validation.devices.parts import validate_pool_name, validate_taint
from kubeloop.api.validation.pods.volumes.volume_sources import validate_csi_driver_name
from kubeloop.api.validation.shared.declarative import sort_generated_last
from kubeloop.api.validation.shared.meta_conditions import validate_conditions
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_dns_label

_SPEC: Final = FieldPath("spec")
_CONDITIONS: Final = FieldPath("status").child("conditions")
_MAX_CONDITIONS: Final = 8


def _validate_rule(obj: resource_v1.DeviceTaintRule, old_effect: str | None = None) -> FieldErrors:
    selector, path = obj.spec.device_selector, _SPEC.child("deviceSelector")
    errors: FieldErrors = []
    if selector is not None:
        if selector.driver is not None:
            errors += validate_csi_driver_name(selector.driver, path.child("driver"))
        if selector.pool is not None:
            errors += validate_pool_name(selector.pool, path.child("pool"))
        if selector.device is not None:
            errors += validate_dns_label(selector.device, path.child("device"))
    return sort_generated_last(errors + validate_taint(obj.spec.taint, _SPEC.child("taint"), old_effect))


def _validate_update(new: resource_v1.DeviceTaintRule, old: resource_v1.DeviceTaintRule) -> FieldErrors:
    return _validate_rule(new, old.spec.taint.effect)


def _validate_status(new: resource_v1.DeviceTaintRule, old: resource_v1.DeviceTaintRule) -> FieldErrors:
    errors = validate_conditions(new.status.conditions, _CONDITIONS)
    if len(new.status.conditions) > _MAX_CONDITIONS:
        errors.append(too_many(_CONDITIONS, len(new.status.conditions), _MAX_CONDITIONS))
    return errors


DEVICE_TAINT_RULE = ValidationRules(_validate_rule, _validate_update, {"status": _validate_status})
