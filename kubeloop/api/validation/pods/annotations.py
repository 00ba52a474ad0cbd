# SPDX-License-Identifier: Apache-2.0
"""Validation of a pod's well-known annotations: mirror pods, security profiles, deletion cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubeloop.api.generated.core_v1 import AppArmorProfile, Pod, PodSpec, SeccompProfile, Toleration
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.field_path import FieldError, FieldErrors, FieldPath, forbidden, invalid, quote
from kubeloop.api.validation.pods.scheduling import validate_tolerations
from kubeloop.api.validation.pods.spec import MIRROR_POD_ANNOTATION
from kubeloop.api.validation.pods.volumes.file_paths import validate_local_descending_path
from kubeloop.api.validation.pods.windows import every_container
from kubeloop.api.validation.shared.go_json import decode_error, type_error

_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST: Final = "localhost/"
_SPECIAL: Final = frozenset((MIRROR_POD_ANNOTATION, _TOLERATIONS, _DELETION_COST))
_PROFILES: Final = (_SECCOMP_POD, _SECCOMP_CONTAINER, _APP_ARMOR)
_is_cost: Final = re.compile("-[0-9]+|0|[1-9][0-9]*").fullmatch
# Fields of a toleration, with their names and types in upstream's structure.
_GO_FIELDS: Final = {
    "key": ("Key", "string"),
    "operator": ("Operator", "core.TolerationOperator"),
    "value": ("Value", "string"),
    "effect": ("Effect", "core.TaintEffect"),
    "tolerationSeconds": ("TolerationSeconds", "int64"),
}
_SECCOMP_NAMES: Final = ("runtime/default", "docker/default", "unconfined")


def _matters(annotations: Mapping[str, str]) -> bool:
    """Return True if any annotation is subject to validation; nearly no pod has one."""
    return any(key in _SPECIAL or key.startswith(_PROFILES) for key in annotations)


def validate_pod_annotations(annotations: Mapping[str, str], spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate the well-known annotations of a pod or template."""
    if not annotations or not _matters(annotations):
        return []
    errors: FieldErrors = []
    if MIRROR_POD_ANNOTATION in annotations and not spec.node_name:
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(path.key(MIRROR_POD_ANNOTATION), annotations[MIRROR_POD_ANNOTATION], detail))
    if annotations.get(_TOLERATIONS):
        errors += _validate_tolerations(annotations[_TOLERATIONS], path)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (_is_cost(cost) and -(2**31) <= int(cost) < 2**31):
        errors.append(invalid(path.key(_DELETION_COST), cost, "must be a 32bit integer"))
    for key, value in annotations.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            errors += _validate_seccomp_name(value, path.child(key))
        elif key.startswith(_APP_ARMOR):
            errors += _validate_app_armor_name(key, value, spec, path)
    return errors


def _validate_tolerations(text: str, path: FieldPath) -> FieldErrors:
    if problem := decode_error(text.encode(errors="surrogatepass"), "[]core.Toleration", list):
        return [invalid(path, _TOLERATIONS, problem)]
    if problem := _type_error(msgspec.json.decode(text) or []):
        return [invalid(path, _TOLERATIONS, problem)]
    tolerations = msgspec.json.decode(text, type=tuple[Toleration, ...] | None)
    return validate_tolerations(tolerations or (), path.child(_TOLERATIONS))


def _type_error(tolerations: list[Any]) -> str:
    """Return Go's message for the first value with a wrong type, or an empty string."""
    for toleration in tolerations:
        if not isinstance(toleration, dict):
            return type_error(toleration, "value of type core.Toleration")
        for name, (go_name, go_type) in _GO_FIELDS.items():
            value = toleration.get(name)
            if value is not None and type(value) is not (int if go_type == "int64" else str):
                return type_error(value, f"struct field Toleration.{go_name} of type {go_type}")
    return ""


def _validate_seccomp_name(name: str, path: FieldPath) -> FieldErrors:
    if name in _SECCOMP_NAMES:
        return []
    if name.startswith(_LOCALHOST):
        return validate_local_descending_path(name.removeprefix(_LOCALHOST), path)
    return [invalid(path, name, "must be a valid seccomp profile")]


def _validate_app_armor_name(key: str, value: str, spec: PodSpec, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    name = key.removeprefix(_APP_ARMOR)
    if all(container.name != name for container, _ in every_container(spec, path)):
        errors.append(invalid(path.key(key), name, "container not found"))
    if value not in ("", "runtime/default", "unconfined") and not value.startswith(_LOCALHOST):
        errors.append(invalid(path.key(key), value, f"invalid AppArmor profile name: {quote(value)}"))
    return errors


def validate_profiles_match(meta: ObjectMeta, spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate that security profiles given both as annotation and as field are equal."""
    if not _matters(meta.annotations):
        return []
    errors: FieldErrors = []
    context = spec.security_context
    if context is not None and context.seccomp_profile is not None and _SECCOMP_POD in meta.annotations:
        at = path.child("securityContext", "seccompProfile")
        errors += _seccomp_match(meta.annotations[_SECCOMP_POD], context.seccomp_profile, at)
    of_pod = context.app_armor_profile if context is not None else None
    for container, at in every_container(spec, path):
        own = container.security_context
        seccomp = own.seccomp_profile if own is not None else None
        said = meta.annotations.get(_SECCOMP_CONTAINER + container.name)
        if seccomp is not None and said is not None:
            errors += _seccomp_match(said, seccomp, at.child("securityContext", "seccompProfile"))
        profile = own.app_armor_profile if own is not None and own.app_armor_profile is not None else of_pod
        said = meta.annotations.get(_APP_ARMOR + container.name)
        if profile is not None and said is not None and not (spec.os is not None and spec.os.name == "windows"):
            errors += _app_armor_match(said, profile, at.child("securityContext", "appArmorProfile"))
    return errors


def _seccomp_match(said: str, profile: SeccompProfile, path: FieldPath) -> FieldErrors:
    names = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")}
    return _match(said, profile.type, profile.localhost_profile, names, path, "seccomp")


def _app_armor_match(said: str, profile: AppArmorProfile, path: FieldPath) -> FieldErrors:
    names = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}
    return _match(said, profile.type, profile.localhost_profile, names, path, "apparmor")


def _match(
    said: str, kind: str, localhost: str | None, names: Mapping[str, tuple[str, ...]], path: FieldPath, what: str
) -> FieldErrors:
    if kind == "Localhost" and said.startswith(_LOCALHOST):
        if said.removeprefix(_LOCALHOST) == localhost:
            return []
        return [forbidden(path.child("localhostProfile"), f"{what} profile in annotation and field must match")]
    if (kind == "Localhost") or (kind in names and said not in names[kind]):
        return [forbidden(path.child("type"), f"{what} type in annotation and field must match")]
    return []


def validate_annotation_changes(new: Pod, old: Pod, path: FieldPath) -> FieldErrors:
    """Validate changes of a pod's annotations."""
    errors: FieldErrors = []
    before, after = old.metadata.annotations, new.metadata.annotations
    for key, value in before.items():
        if after.get(key) != value and (found := _fixed(key, path, "remove or update")):
            errors.append(found)
    for key in after:
        if key not in before and (found := _fixed(key, path, "add")):
            errors.append(found)
    return errors + validate_pod_annotations(after, new.spec, path)


def _fixed(key: str, path: FieldPath, verb: str) -> FieldError | None:
    if key.startswith(_APP_ARMOR):
        return forbidden(path.key(key), f"may not {verb} AppArmor annotations")
    return forbidden(path.key(key), f"may not {verb} mirror pod annotation") if key == MIRROR_POD_ANNOTATION else None
