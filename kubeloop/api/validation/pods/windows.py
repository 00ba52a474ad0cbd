# SPDX-License-Identifier: Apache-2.0
"""Validation of the differences between Windows and Linux pods, and of the Windows options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, PodSpec, WindowsSecurityContextOptions
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.validation.shared.scalars import validate_dns_subdomain

_SPEC_MAX: Final = 64 * 1024
_DOMAIN_MAX: Final = 256
_USER_MAX: Final = 104
_has_control: Final = re.compile(r"[\x00-\x1f\x7f]").search
_is_netbios: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}').fullmatch
_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_is_domain: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*").fullmatch
_has_bad_character: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]').search
_FOREIGN: Final = "cannot be set for a windows pod"
_OPTIONS: Final = "windows options cannot be set for a linux pod"
_POD_FIELDS: Final = (
    ("app_armor_profile", "appArmorProfile"), ("se_linux_options", "seLinuxOptions"),
    ("seccomp_profile", "seccompProfile"), ("fs_group", "fsGroup"),
    ("fs_group_change_policy", "fsGroupChangePolicy"), ("sysctls", "sysctls"), ("run_as_user", "runAsUser"),
    ("run_as_group", "runAsGroup"), ("supplemental_groups", "supplementalGroups"),
    ("supplemental_groups_policy", "supplementalGroupsPolicy"), ("se_linux_change_policy", "seLinuxChangePolicy"),
)  # fmt: skip
_CONTAINER_FIELDS: Final = (
    ("app_armor_profile", "appArmorProfile"), ("se_linux_options", "seLinuxOptions"),
    ("seccomp_profile", "seccompProfile"), ("capabilities", "capabilities"),
    ("read_only_root_filesystem", "readOnlyRootFilesystem"), ("privileged", "privileged"),
    ("allow_privilege_escalation", "allowPrivilegeEscalation"), ("proc_mount", "procMount"),
    ("run_as_user", "runAsUser"), ("run_as_group", "runAsGroup"),
)  # fmt: skip


def every_container(spec: PodSpec, path: FieldPath) -> Iterator[tuple[Container | EphemeralContainer, FieldPath]]:
    """Yield all containers with their paths; init containers first, as upstream."""
    for index, container in enumerate(spec.init_containers):
        yield container, path.child("initContainers").index(index)
    for index, container in enumerate(spec.containers or ()):
        yield container, path.child("containers").index(index)
    for index, ephemeral in enumerate(spec.ephemeral_containers):
        yield ephemeral, path.child("ephemeralContainers").index(index)


def validate_os(spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate that a pod with an OS uses only features of that OS."""
    if spec.os is None:
        return []
    if not spec.os.name:
        return [required(path.child("os", "name"))]
    if spec.os.name not in ("linux", "windows"):
        return [not_supported(path.child("os"), spec.os.name, ("linux", "windows"))]
    return _validate_linux(spec, path) if spec.os.name == "linux" else _validate_windows(spec, path)


def _validate_linux(spec: PodSpec, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if spec.security_context is not None and spec.security_context.windows_options is not None:
        errors.append(forbidden(path.child("securityContext", "windowsOptions"), _OPTIONS))
    for container, at in every_container(spec, path):
        if container.security_context is not None and container.security_context.windows_options is not None:
            errors.append(forbidden(at.child("securityContext", "windowsOptions"), _OPTIONS))
    return errors


def _validate_windows(spec: PodSpec, path: FieldPath) -> FieldErrors:
    errors = _foreign(spec.security_context, _POD_FIELDS, path.child("securityContext"))
    for name, present in (
        ("hostUsers", spec.host_users is not None),
        ("hostPID", spec.host_pid),
        ("hostIPC", spec.host_ipc),
        ("shareProcessNamespace", spec.share_process_namespace is not None),
    ):
        if present:
            errors.append(forbidden(path.child(name), _FOREIGN))
    for container, at in every_container(spec, path):
        errors += _foreign(container.security_context, _CONTAINER_FIELDS, at.child("securityContext"))
    return errors


def _foreign(context: Any, fields: tuple[tuple[str, str], ...], path: FieldPath) -> FieldErrors:
    if context is None:
        return []
    return [forbidden(path.child(name), _FOREIGN) for attribute, name in fields if _is_set(getattr(context, attribute))]


def _is_set(value: Any) -> bool:
    return value is not None and value != ()


def _mentions_windows(spec: PodSpec) -> bool:
    context: Any = spec.security_context
    if context is not None and context.windows_options is not None:
        return True
    for containers in (spec.containers or (), spec.init_containers, spec.ephemeral_containers):
        for container in containers:
            context = cast(Container, container).security_context
            if context is not None and context.windows_options is not None:
                return True
    return False


def validate_host_process(spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate HostProcess containers: all containers of a pod, with the node's network."""
    errors: FieldErrors = []
    if not _mentions_windows(spec):
        return errors
    options = spec.security_context.windows_options if spec.security_context is not None else None
    of_pod = options.host_process if options is not None else None
    total = on_host = 0
    for container, at in every_container(spec, path):
        total += 1
        context = container.security_context
        own = context.windows_options.host_process if context is not None and context.windows_options else None
        if of_pod is not None and own is not None and of_pod != own:
            said = "true" if of_pod else "false"
            detail = f"pod hostProcess value must be identical if both are specified, was {said}"
            errors.append(invalid(at.child("securityContext", "windowsOptions", "hostProcess"), own, detail))
        on_host += bool(of_pod if own is None else own)
    if on_host and on_host != total:
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", detail))
    if on_host and not spec.host_network:
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(path.child("hostNetwork"), False, detail))
    return errors


def validate_windows_options(options: WindowsSecurityContextOptions, path: FieldPath) -> FieldErrors:
    """Validate windowsOptions."""
    errors: FieldErrors = []
    if options.gmsa_credential_spec_name is not None:
        errors += validate_dns_subdomain(options.gmsa_credential_spec_name, path.child("gmsaCredentialSpecName"))
    content = options.gmsa_credential_spec
    if content is not None and not 0 < len(content.encode()) <= _SPEC_MAX:
        detail = "gmsaCredentialSpec size must be under 64 KiB" if content else _empty("gmsaCredentialSpec")
        errors.append(invalid(path.child("gmsaCredentialSpec"), content, detail))
    if options.run_as_user_name is not None:
        name, at = options.run_as_user_name, path.child("runAsUserName")
        errors += [invalid(at, name, message) for message in _user_name_problems(name)]
    return errors


def _empty(name: str) -> str:
    return f"{name} cannot be an empty string"


def _user_name_problems(name: str) -> list[str]:
    """Return the problems of a user name, which may have a domain and a backslash as prefix."""
    if not name:
        return [_empty("runAsUserName")]
    if _has_control(name):
        return ["runAsUserName cannot contain control characters"]
    if name.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    problems: list[str] = []
    if len(domain) >= _DOMAIN_MAX:
        problems.append(f"runAsUserName's Domain length must be under {_DOMAIN_MAX} characters")
    if backslash and not (_is_netbios(domain) or _is_domain(domain)):
        problems.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        problems.append("runAsUserName's User cannot be empty")
    elif len(user) > _USER_MAX:
        problems.append(f"runAsUserName's User length must not be longer than {_USER_MAX} characters")
    if user and not user.strip(". "):
        problems.append("runAsUserName's User cannot contain only periods or spaces")
    if _has_bad_character(user):
        problems.append("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return problems
