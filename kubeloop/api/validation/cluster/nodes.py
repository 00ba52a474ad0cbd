# SPDX-License-Identifier: Apache-2.0
"""Validation of Nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from kubeloop.api.addresses import check_legacy_cidr, parse_cidr
from kubeloop.api.generated.core_v1 import ConfigMapNodeConfigSource, Node, NodeConfigSource, Taint
from kubeloop.api.meta.field_path import (
    ErrorType,
    FieldError,
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    internal,
    invalid,
    quote,
    required,
)
from kubeloop.api.meta.name_rules import check_config_map_key, check_label_value
from kubeloop.api.validation.pods.containers.compute_resources import is_valid_amount, validate_amount
from kubeloop.api.validation.pods.scheduling import TAINT_EFFECTS
from kubeloop.api.validation.shared.go_json import decode_error
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.objectmeta import METADATA
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    check_errors,
    validate_dns_label,
    validate_dns_subdomain,
    validate_enum,
    validate_positive,
    validate_qualified_name,
)

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_CIDRS: Final = _SPEC.child("podCIDRs")
_ANNOTATIONS: Final = METADATA.child("annotations")
_TAINTS: Final = "scheduler.alpha.kubernetes.io/taints"
_AVOID: Final = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_FEATURE_MAX: Final = 253
_is_feature: Final = re.compile("[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*").fullmatch
_BAD_FEATURE: Final = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
    "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)


def _validate_taints(taints: tuple[Taint, ...], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        at = path.index(index)
        errors += validate_qualified_name(taint.key, at.child("key"))
        if messages := check_label_value(taint.value):
            errors.append(invalid(at.child("value"), taint.value, ";".join(messages)))
        errors += validate_enum(taint.effect, TAINT_EFFECTS, at.child("effect"))
        if (taint.key, taint.effect) in seen:
            shown = {"Key": taint.key, "Value": taint.value, "Effect": taint.effect, "TimeAdded": taint.time_added}
            detail = "taints must be unique by key and effect pair"
            errors.append(FieldError(ErrorType.DUPLICATE, at, ordered_object(shown), detail))
        seen.add((taint.key, taint.effect))
    return errors


def _validate_annotations(annotations: Mapping[str, str]) -> FieldErrors:
    """Validate the legacy annotations for taints and avoided pods."""
    errors: FieldErrors = []
    if text := annotations.get(_TAINTS):
        if problem := decode_error(text.encode(errors="replace"), "[]core.Taint", list):
            errors.append(invalid(_ANNOTATIONS, _TAINTS, problem))
        else:
            errors += _validate_taints(_taints_of(text), _ANNOTATIONS.child(_TAINTS))
    if text := annotations.get(_AVOID):
        problem = decode_error(text.encode(errors="replace"), "v1.AvoidPods", dict)
        if problem:
            errors.append(invalid(_ANNOTATIONS.child("AvoidPods"), _AVOID, problem))
    return errors


def _taints_of(text: str) -> tuple[Taint, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[Taint, ...])
    except msgspec.MsgspecError:
        return ()


def _validate_features(features: tuple[str, ...]) -> FieldErrors:
    errors: FieldErrors = []
    path = _STATUS.child("declaredFeatures")
    for index, feature in enumerate(features):
        if len(feature) > _FEATURE_MAX:
            detail = f"invalid feature name {quote(feature)}: must be no more than {_FEATURE_MAX} characters"
            errors.append(invalid(path.index(index), feature, detail))
        elif not _is_feature(feature):
            errors.append(invalid(path.index(index), feature, f"invalid feature name {quote(feature)}: {_BAD_FEATURE}"))
        if index and feature == features[index - 1]:
            errors.append(duplicate(path.index(index), feature))
        elif index and feature < features[index - 1]:
            errors.append(invalid(path.index(index), feature, "list must be sorted alphabetically"))
    return errors


def _validate_resources(node: Node) -> FieldErrors:
    errors: FieldErrors = []
    for side, amounts in (("capacity", node.status.capacity), ("allocatable", node.status.allocatable)):
        for name, amount in amounts.items():
            if is_valid_amount(name, amount):
                continue
            errors += validate_amount(name, amount, _STATUS.child(side, name))
    return errors


def _validate_node(node: Node) -> FieldErrors:
    errors = _validate_annotations(node.metadata.annotations)
    errors += _validate_taints(node.spec.taints, METADATA.child("taints"))
    errors += _validate_resources(node)
    swap = node.status.node_info.swap
    if swap is not None and swap.capacity is not None:
        errors += validate_positive(swap.capacity, METADATA.child("nodeSwapStatus", "capacity"))
    errors += _validate_features(node.status.declared_features)
    return errors + _validate_cidrs(node.spec.pod_cidrs)


def _validate_cidrs(cidrs: tuple[str, ...]) -> FieldErrors:
    errors: FieldErrors = []
    for index, cidr in enumerate(cidrs):
        errors += [invalid(_CIDRS.index(index), cidr, message) for message in check_legacy_cidr(cidr, strict=True)]
    if len(cidrs) < 2:
        return errors
    parsed = [parse_cidr(cidr) for cidr in cidrs]
    if None in parsed:
        index = parsed.index(None)
        problem = f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {cidrs[index]})"
        errors.append(internal(_CIDRS, f"invalid PodCIDRs. failed to check with dual stack with error:{problem}"))
    versions = {found[1].version for found in parsed if found is not None}
    if len(cidrs) > 2 or None in parsed or versions != {4, 6}:
        errors.append(invalid(_CIDRS, cidrs, "may specify no more than one CIDR for each IP family"))
    return errors


def _validate_changes(new: Node, old: Node) -> FieldErrors:
    """Validate every update, of the node or of its status."""
    errors = _validate_annotations(new.metadata.annotations) + _validate_resources(new)
    errors += _validate_features(new.status.declared_features)
    for index, address in enumerate(new.status.addresses):
        if address in new.status.addresses[:index]:
            shown = ordered_object({"Type": address.type, "Address": address.address})
            errors.append(duplicate(_STATUS.child("addresses").index(index), shown))
    if old.spec.pod_cidrs and old.spec.pod_cidrs != new.spec.pod_cidrs:
        errors.append(forbidden(_CIDRS, 'node updates may not change podCIDR except from "" to valid'))
    if old.spec.provider_id and new.spec.provider_id != old.spec.provider_id:
        verb = "modified" if new.spec.provider_id else "cleared"
        errors.append(invalid(_SPEC.child("providerID"), None, f"field cannot be {verb} once set"))
    errors += _validate_configuration(new)
    if new.spec.external_id != old.spec.external_id:
        errors.append(forbidden(_SPEC.child("externalID"), "may not be updated"))
    return errors


def _validate_configuration(node: Node) -> FieldErrors:
    """Validate the deprecated configuration source of the kubelet."""
    errors: FieldErrors = []
    if node.spec.config_source is not None:
        errors += _validate_source(node.spec.config_source, _SPEC.child("configSource"), in_status=False)
    config = node.status.config
    if config is not None:
        path = _STATUS.child("config")
        for name, source in (
            ("assigned", config.assigned), ("active", config.active), ("lastKnownGood", config.last_known_good)
        ):  # fmt: skip
            if source is not None:
                errors += _validate_source(source, path.child(name), in_status=True)
    return errors


def _validate_source(source: NodeConfigSource, path: FieldPath, in_status: bool) -> FieldErrors:
    if source.config_map is None:
        shown = ordered_object({"ConfigMap": None})
        return [invalid(path, shown, "exactly one reference subfield must be non-nil")]
    at, ref = path.child("configMap"), source.config_map
    errors: FieldErrors = []
    for name, value in (("uid", ref.uid), ("resourceVersion", ref.resource_version)):
        if in_status and not value:
            errors.append(required(at.child(name)))
        elif value and not in_status:
            errors.append(forbidden(at.child(name), f"{name} must not be set in spec"))
    return errors + _validate_config_map(ref, at)


def _validate_config_map(ref: ConfigMapNodeConfigSource, path: FieldPath) -> FieldErrors:
    namespace, name, key = path.child("namespace"), path.child("name"), path.child("kubeletConfigKey")
    errors = validate_dns_label(ref.namespace, namespace) if ref.namespace else [required(namespace)]
    errors += validate_dns_subdomain(ref.name, name) if ref.name else [required(name)]
    if not ref.kubelet_config_key:
        return [*errors, required(key)]
    return errors + check_errors(check_config_map_key, ref.kubelet_config_key, key)


def _validate_update(new: Node, old: Node) -> FieldErrors:
    return _validate_node(new) + _validate_changes(new, old)


NODE = ValidationRules(_validate_node, _validate_update, {"status": _validate_changes})
