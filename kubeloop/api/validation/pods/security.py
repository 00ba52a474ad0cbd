# SPDX-License-Identifier: Apache-2.0
"""Validation of security contexts: users and groups, seccomp and AppArmor profiles, sysctls."""

from __future__ import annotations

import re
from typing import Final

from kubeloop.api.generated.core_v1 import (
    AppArmorProfile,
    PodSecurityContext,
    PodSpec,
    SeccompProfile,
    SecurityContext,
    Sysctl,
)
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeloop.api.meta.name_rules import check_user_id
from kubeloop.api.validation.pods.volumes.file_paths import validate_local_descending_path
from kubeloop.api.validation.pods.windows import validate_windows_options
from kubeloop.api.validation.shared.go_values import to_internal

_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL: Final = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_is_sysctl: Final = re.compile(_SYSCTL).fullmatch
_SYSCTL_MAX: Final = 253
_IPC_SYSCTLS: Final = frozenset(
    (
        "kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced", "kernel.shm",
        "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg",
    )
)  # fmt: skip
_APP_ARMOR_MAX: Final = 4095
_NO_LOCALHOST_PROFILE: Final = "must be set when AppArmor type is Localhost"


def _id(value: int | None, path: FieldPath, name: str) -> FieldErrors:
    if value is None:
        return []
    return [invalid(path.child(name), value, message) for message in check_user_id(value)]


def validate_security_context(context: SecurityContext, host_users: bool, path: FieldPath) -> FieldErrors:
    """Validate a container's security context; privileged containers are allowed."""
    errors = _id(context.run_as_user, path, "runAsUser") + _id(context.run_as_group, path, "runAsGroup")
    if context.proc_mount is not None:
        errors += _validate_proc_mount(context.proc_mount, host_users, path.child("procMount"))
    if context.seccomp_profile is not None:
        errors += validate_seccomp(context.seccomp_profile, path.child("seccompProfile"))
    if context.allow_privilege_escalation is False:
        errors += _validate_escalation(context, path)
    if context.windows_options is not None:
        errors += validate_windows_options(context.windows_options, path.child("windowsOptions"))
    if context.app_armor_profile is not None:
        errors += validate_app_armor(context.app_armor_profile, path.child("appArmorProfile"))
    return errors


def _validate_proc_mount(proc_mount: str, host_users: bool, path: FieldPath) -> FieldErrors:
    if proc_mount not in ("Default", "Unmasked"):
        return [not_supported(path, proc_mount, ("Default", "Unmasked"))]
    if host_users and proc_mount == "Unmasked":
        return [invalid(path, proc_mount, "`hostUsers` must be false to use `Unmasked`")]
    return []


def _validate_escalation(context: SecurityContext, path: FieldPath) -> FieldErrors:
    """Validate that no field escalates privileges if allowPrivilegeEscalation is false."""
    errors: FieldErrors = []
    if context.privileged:
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, to_internal(context), detail))
    if context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add:
        detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        errors.append(invalid(path, to_internal(context), detail))
    return errors


def validate_seccomp(profile: SeccompProfile, path: FieldPath) -> FieldErrors:
    """Validate a seccomp profile."""
    errors: FieldErrors = []
    if not profile.type:
        errors.append(required(path.child("type"), "type is required when seccompProfile is set"))
    elif profile.type not in _PROFILE_TYPES:
        errors.append(not_supported(path.child("type"), profile.type, _PROFILE_TYPES))
    at = path.child("localhostProfile")
    if profile.type == "Localhost":
        if profile.localhost_profile is None:
            errors.append(required(at, "must be set when seccomp type is Localhost"))
        else:
            errors += validate_local_descending_path(profile.localhost_profile, at)
    elif profile.localhost_profile is not None:
        errors.append(invalid(at, to_internal(profile), "can only be set when seccomp type is Localhost"))
    return errors


def validate_app_armor(profile: AppArmorProfile, path: FieldPath) -> FieldErrors:
    """Validate an AppArmor profile."""
    at, name = path.child("localhostProfile"), profile.localhost_profile
    if not profile.type:
        return [required(path.child("type"), "type is required when appArmorProfile is set")]
    if profile.type not in _PROFILE_TYPES:
        return [not_supported(path.child("type"), profile.type, _PROFILE_TYPES)]
    if profile.type != "Localhost":
        return [] if name is None else [invalid(at, name, "can only be set when AppArmor type is Localhost")]
    if name is None:
        return [required(at, _NO_LOCALHOST_PROFILE)]
    errors: FieldErrors = []
    if name != name.strip():
        errors.append(invalid(at, name, "must not be padded with whitespace"))
    elif not name:
        errors.append(required(at, _NO_LOCALHOST_PROFILE))
    return [*errors, too_long(at, _APP_ARMOR_MAX)] if len(name) > _APP_ARMOR_MAX else errors


def validate_pod_security_context(context: PodSecurityContext, spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate a pod's security context."""
    errors = _id(context.fs_group, path, "fsGroup")
    errors += _id(context.run_as_user, path, "runAsUser") + _id(context.run_as_group, path, "runAsGroup")
    for index, group in enumerate(context.supplemental_groups):
        messages = check_user_id(group)
        errors += [invalid(path.child("supplementalGroups").index(index), group, message) for message in messages]
    if context.sysctls:
        errors += _validate_sysctls(context.sysctls, spec, path.child("sysctls"))
    for value, name, supported in (
        (context.fs_group_change_policy, "fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        (context.supplemental_groups_policy, "supplementalGroupsPolicy", ("Merge", "Strict")),
        (context.se_linux_change_policy, "seLinuxChangePolicy", ("MountOption", "Recursive")),
    ):
        if value is not None and value not in supported:
            errors.append(not_supported(path.child(name), value, supported))
    if context.seccomp_profile is not None:
        errors += validate_seccomp(context.seccomp_profile, path.child("seccompProfile"))
    if context.windows_options is not None:
        errors += validate_windows_options(context.windows_options, path.child("windowsOptions"))
    if context.app_armor_profile is not None:
        errors += validate_app_armor(context.app_armor_profile, path.child("appArmorProfile"))
    return errors


def _validate_sysctls(sysctls: tuple[Sysctl, ...], spec: PodSpec, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        at = path.index(index).child("name")
        if not sysctl.name:
            errors.append(required(at))
        elif len(sysctl.name) > _SYSCTL_MAX or not _is_sysctl(sysctl.name):
            detail = f"must have at most {_SYSCTL_MAX} characters and match regex ^{_SYSCTL}$"
            errors.append(invalid(at, sysctl.name, detail))
        elif sysctl.name in seen:
            errors.append(duplicate(at, sysctl.name))
        errors += _validate_host_sysctl(sysctl.name, spec, at)
        seen.add(sysctl.name)
    return errors


def _validate_host_sysctl(name: str, spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate a sysctl of a namespace that the pod shares with its node."""
    normal = _with_dots(name).partition("*")[0]
    if spec.host_network and normal.startswith("net."):
        return [invalid(path, name, "may not be specified when 'hostNetwork' is true")]
    if spec.host_ipc and (normal in _IPC_SYSCTLS or normal.startswith("fs.mqueue.")):
        return [invalid(path, name, "may not be specified when 'hostIPC' is true")]
    return []


def _with_dots(name: str) -> str:
    """Convert a sysctl's name to dots as separators: slashes may replace dots, and then dots replace slashes."""
    first = re.search("[./]", name)
    return name if first is None or first[0] == "." else name.translate(str.maketrans("./", "/."))
