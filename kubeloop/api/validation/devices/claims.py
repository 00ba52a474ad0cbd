# SPDX-License-Identifier: Apache-2.0
"""Validation of ResourceClaims, their templates and DeviceClasses, including their selectors' expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

from kubeloop.api import codec
from kubeloop.api.features.gates import Features
from kubeloop.api.generated import resource_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeloop.api.meta.name_rules import check_qualified_name
from kubeloop.api.validation.devices.claim_status import validate_claim_status
from kubeloop.api.validation.devices.derived_attributes import validate_derived_attributes
from kubeloop.api.validation.devices.parts import (
    duplicate_errors,
    validate_driver,
    validate_each,
    validate_generated_items,
    validate_generated_toleration,
    validate_json_object,
    validate_toleration,
)
from kubeloop.api.validation.devices.requests import RequestNames
from kubeloop.api.validation.shared.declarative import (
    mark_generated,
    sort_generated_last,
    split_generated,
    validate_immutable,
)
from kubeloop.api.validation.shared.formats import validate_fully_qualified_name
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.internal_form import to_internal_form
from kubeloop.api.validation.shared.objectmeta import byte_length
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_dns_label, validate_dns_subdomain, validate_unchanged
from kubeloop.api.validation.storage.claim_spec import validate_template_meta

T = TypeVar("T")

_SPEC: Final = FieldPath("spec")
_MAX_ITEMS: Final = 32
_MAX_ALTERNATIVES: Final = 8
_MAX_EXPRESSION: Final = 10 * 1024
_MAX_PARAMETERS: Final = 10 * 1024
_MODES: Final = ("All", "ExactCount")
_QUOTA_PREFIX: Final = "requests."
# Fields of requests and subrequests in upstream's order.
_RANKS: Final = {
    name: rank
    for rank, name in enumerate(
        (
            "name", "exactly", "firstAvailable", "deviceClassName", "selectors", "allocationMode", "count",
            "adminAccess", "tolerations", "capacity", "derivedAttributes", "key", "operator", "value", "effect",
            "tolerationSeconds",
        )
    )
}  # fmt: skip
_ONE_KIND: Final = "exactly one of `exactly` or `firstAvailable` is required"


def _validate_claim_spec(spec: resource_v1.ResourceClaimSpec, path: FieldPath, features: Features) -> FieldErrors:
    claim, at = spec.devices, path.child("devices")
    names = RequestNames(claim)

    def check_constraint(constraint: resource_v1.DeviceConstraint, path: FieldPath) -> FieldErrors:
        return _validate_constraint(constraint, names, path)

    def check_config(config: resource_v1.DeviceClaimConfiguration, path: FieldPath) -> FieldErrors:
        return names.validate(config.requests, path.child("requests")) + _validate_config(config, path)

    errors = _validate_named(claim.requests or (), _validate_request, at.child("requests"), _MAX_ITEMS)
    if len(claim.requests or ()) <= _MAX_ITEMS:
        allows_lists = features.is_enabled("DRAListTypeAttributes")
        errors += validate_derived_attributes(claim, at.child("requests"), allows_lists)
    errors += validate_generated_items(claim.constraints, check_constraint, at.child("constraints"), _MAX_ITEMS)
    return errors + validate_generated_items(claim.config, check_config, at.child("config"), _MAX_ITEMS)


def _validate_named(
    items: Sequence[T], check: Callable[[T, FieldPath], FieldErrors], path: FieldPath, limit: int
) -> FieldErrors:
    """Validate a list of limited length with unique names; both are declared."""
    if len(items) > limit:
        return validate_generated_items(items, check, path, limit)
    repeated = duplicate_errors(items, lambda one: cast(Any, one).name, path, _shown_request)
    return mark_generated(repeated) + validate_each(items, check, path)


def _shown_request(request: Any) -> object:
    return ordered_object(_in_order(codec.to_plain(request)))


def _in_order(value: Any) -> Any:
    """Return a plain value with its fields in the order of upstream's structures."""
    if isinstance(value, list):
        return [_in_order(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _in_order(value[name]) for name in sorted(value, key=lambda name: _RANKS.get(name, len(_RANKS)))}


def _validate_request(request: resource_v1.DeviceRequest, path: FieldPath) -> FieldErrors:
    """Validate a request; what is declared holds for both kinds of it, even if there may be only one."""
    exactly, alternatives = request.exactly, request.first_available
    errors = validate_dns_label(request.name, path.child("name"))
    if exactly is not None and alternatives:
        errors.append(invalid(path, None, f"{_ONE_KIND}, but multiple fields are set"))
    elif exactly is None and not alternatives:
        errors.append(required(path, _ONE_KIND))
    found: FieldErrors = []
    if exactly is not None:
        at = path.child("exactly")
        found += _validate_class_name(exactly.device_class_name, at.child("deviceClassName"))
        found += _validate_wish(exactly, at)
    if alternatives:
        found += _validate_named(alternatives, _validate_alternative, path.child("firstAvailable"), _MAX_ALTERNATIVES)
    return errors + (split_generated(found)[1] if errors and errors[-1].path == path else found)


def _validate_class_name(name: str, path: FieldPath) -> FieldErrors:
    return validate_dns_subdomain(name, path) if name else [required(path)]


def _validate_alternative(request: resource_v1.DeviceSubRequest, path: FieldPath) -> FieldErrors:
    errors = validate_dns_label(request.name, path.child("name"))
    errors += mark_generated(_validate_class_name(request.device_class_name, path.child("deviceClassName")))
    return errors + _validate_wish(request, path)


def _validate_wish(
    request: resource_v1.ExactDeviceRequest | resource_v1.DeviceSubRequest, path: FieldPath
) -> FieldErrors:
    errors = validate_generated_items(request.selectors, _validate_selector, path.child("selectors"), _MAX_ITEMS)
    count, at = request.count, path.child("count")
    if request.allocation_mode not in _MODES:
        errors += mark_generated([not_supported(path.child("allocationMode"), request.allocation_mode, _MODES)])
    elif request.allocation_mode == "All" and count != 0:
        errors.append(invalid(at, count, "must not be specified when allocationMode is 'All'"))
    elif request.allocation_mode == "ExactCount" and count <= 0:
        errors.append(invalid(at, count, "must be greater than zero"))
    at = path.child("tolerations")
    errors += validate_each(request.tolerations, validate_toleration, at)
    return errors + validate_each(request.tolerations, validate_generated_toleration, at)


def _validate_selector(selector: resource_v1.DeviceSelector, path: FieldPath) -> FieldErrors:
    if selector.cel is None:
        return [required(path.child("cel"))]
    text, at = selector.cel.expression, path.child("cel", "expression")
    if byte_length(text) > _MAX_EXPRESSION:
        return [too_long(at, _MAX_EXPRESSION)]
    from kubeloop.api.expressions.devices import device_selector  # rarely used

    found = device_selector(text)
    return [invalid(at, text, found)] if isinstance(found, str) else []


def _validate_constraint(constraint: resource_v1.DeviceConstraint, names: RequestNames, path: FieldPath) -> FieldErrors:
    errors = names.validate(constraint.requests, path.child("requests"))
    matched, distinct = constraint.match_attribute, constraint.distinct_attribute
    if matched is None and distinct is None:
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        return [*errors, required(path, detail)]
    if matched is not None:
        errors += mark_generated(validate_fully_qualified_name(matched, path.child("matchAttribute")))
    if distinct is not None:
        errors += mark_generated(validate_fully_qualified_name(distinct, path.child("distinctAttribute")))
    return errors


def _validate_config(config: Any, path: FieldPath) -> FieldErrors:
    if config.opaque is None:
        return [required(path.child("opaque"))]
    at = path.child("opaque")
    errors = mark_generated(validate_driver(config.opaque.driver, at.child("driver")))
    return errors + validate_json_object(config.opaque.parameters, _MAX_PARAMETERS, at.child("parameters"))


def _validate_claim(features: Features, obj: resource_v1.ResourceClaim) -> FieldErrors:
    return sort_generated_last(_validate_claim_spec(obj.spec, _SPEC, features))


def _validate_claim_update(new: resource_v1.ResourceClaim, old: resource_v1.ResourceClaim) -> FieldErrors:
    return validate_immutable(new.spec, old.spec, _SPEC)


def _validate_template(features: Features, obj: resource_v1.ResourceClaimTemplate) -> FieldErrors:
    errors = validate_template_meta(obj.spec.metadata, _SPEC.child("metadata"))
    return sort_generated_last(errors + _validate_claim_spec(obj.spec.spec, _SPEC.child("spec"), features))


def _validate_template_update(
    features: Features, new: resource_v1.ResourceClaimTemplate, old: resource_v1.ResourceClaimTemplate
) -> FieldErrors:
    meta = new.spec.metadata
    labels: dict[str, object] = {"labels": dict(sorted(meta.labels.items()))} if meta.labels else {}
    notes: dict[str, object] = {"annotations": dict(sorted(meta.annotations.items()))} if meta.annotations else {}
    shown = ordered_object({**labels, **notes, "Spec": to_internal_form(new.spec.spec)})
    errors = _validate_template(features, new)
    return sort_generated_last(errors + validate_unchanged(new.spec, old.spec, _SPEC, shown))


def _validate_class(obj: resource_v1.DeviceClass) -> FieldErrors:
    spec = obj.spec
    errors = validate_generated_items(spec.selectors, _validate_selector, _SPEC.child("selectors"), _MAX_ITEMS)
    errors += validate_generated_items(spec.config, _validate_config, _SPEC.child("config"), _MAX_ITEMS)
    errors += _validate_extended_resource_name(spec.extended_resource_name, _SPEC.child("extendedResourceName"))
    return sort_generated_last(errors)


def _validate_extended_resource_name(name: str | None, path: FieldPath) -> FieldErrors:
    if name is None:
        return []
    messages: list[str] = []
    if "/" not in name:
        messages.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in name:
        messages.append('must not have "kubernetes.io/" domain')
    if name.startswith(_QUOTA_PREFIX):
        messages.append(f'must not have "{_QUOTA_PREFIX}" prefix')
    messages += check_qualified_name(_QUOTA_PREFIX + name)  # a quota must be able to name it
    return [invalid(path, name, message) for message in messages]


def _validate_class_update(new: resource_v1.DeviceClass, old: resource_v1.DeviceClass) -> FieldErrors:
    return _validate_class(new)


def claim_rules(features: Features) -> ValidationRules:
    """Return the rules of ResourceClaims."""
    status = {"status": validate_claim_status}
    return ValidationRules(partial(_validate_claim, features), _validate_claim_update, status)


def claim_template_rules(features: Features) -> ValidationRules:
    """Return the rules of ResourceClaimTemplates."""
    return ValidationRules(partial(_validate_template, features), partial(_validate_template_update, features))


DEVICE_CLASS = ValidationRules(_validate_class, _validate_class_update)
