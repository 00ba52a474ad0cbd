# SPDX-License-Identifier: Apache-2.0
"""Checks of the baseline level, which prevents known privilege escalations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeloop.api.generated.core_v1 import PodSpec, SELinuxOptions
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.admission.plugins.pod_security.findings import (
    Check,
    PodSecurityViolation,
    containers,
    noun_with_names,
    pluralize,
    quoted,
    security_contexts,
    setters,
)

_APP_ARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER_PREFIX = "container.seccomp.security.alpha.kubernetes.io/"
_SAFE_PROFILES = ("RuntimeDefault", "Localhost")
_DEFAULT_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)


def app_armor(meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check AppArmor profiles in fields and annotations."""
    of_pod = _profile_type(spec.security_context, "app_armor_profile")
    of_containers = {
        name: kind
        for name, context in security_contexts(spec)
        if (kind := _profile_type(context, "app_armor_profile")) not in (None, *_SAFE_PROFILES)
    }
    pod_is_bad = of_pod not in (None, *_SAFE_PROFILES)
    values = sorted({*of_containers.values(), *([of_pod] if pod_is_bad else [])})
    annotations = sorted(
        f"{key}={quote(value)}"
        for key, value in meta.annotations.items()
        if key.startswith(_APP_ARMOR_PREFIX)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    who = [setters(pod_is_bad, list(of_containers))] if pod_is_bad or of_containers else []
    if annotations:
        who.append(pluralize("annotation", annotations))
    if not who:
        return None
    values += annotations
    return PodSecurityViolation(
        pluralize("forbidden AppArmor profile", values),
        f"{' and '.join(who)} must not set AppArmor profile type to {quoted(values)}",
    )


def capabilities(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that containers add only default capabilities."""
    found: dict[str, list[str]] = {}
    for name, context in security_contexts(spec):
        added = context.capabilities.add if context.capabilities is not None else ()
        beyond = [capability for capability in added if capability not in _DEFAULT_CAPABILITIES]
        if beyond:
            found[name] = beyond
    if not found:
        return None
    beyond = sorted({capability for added in found.values() for capability in added})
    return PodSecurityViolation(
        "non-default capabilities",
        f"{noun_with_names('container', list(found))} must not include {quoted(beyond)}"
        " in securityContext.capabilities.add",
    )


def host_namespaces(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that no host namespace is shared."""
    shared = {"hostNetwork": spec.host_network, "hostPID": spec.host_pid, "hostIPC": spec.host_ipc}
    found = [f"{name}=true" for name, is_shared in shared.items() if is_shared]
    return PodSecurityViolation("host namespaces", ", ".join(found)) if found else None


def host_path_volumes(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that there are no hostPath volumes."""
    found = [volume.name for volume in spec.volumes if volume.host_path is not None]
    return PodSecurityViolation("hostPath volumes", noun_with_names("volume", found)) if found else None


def host_ports(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that no container uses host ports."""
    found = {
        container.name: ports
        for container in containers(spec)
        if (ports := [str(port.host_port) for port in container.ports if port.host_port])
    }
    if not found:
        return None
    ports = sorted({port for used in found.values() for port in used})
    return PodSecurityViolation(
        "hostPort", f"{_use('container', list(found))} {pluralize('hostPort', ports)} {', '.join(ports)}"
    )


def probe_hosts(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that probes and lifecycle handlers set no host."""
    found: dict[str, list[str]] = {}
    for container in containers(spec):
        hosts = list(_hosts_of(container))
        if hosts:
            found[container.name] = hosts
    if not found:
        return None
    hosts = sorted({host for used in found.values() for host in used})
    return PodSecurityViolation(
        "probe or lifecycle host",
        f"{_use('container', sorted(found))} {noun_with_names('probe or lifecycle host', hosts)}",
    )


def privileged(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that no container is privileged."""
    found = [name for name, context in security_contexts(spec) if context.privileged]
    detail = f"{noun_with_names('container', found)} must not set securityContext.privileged=true"
    return PodSecurityViolation("privileged", detail) if found else None


def proc_mount(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that procMount is Default."""
    found = {
        name: context.proc_mount
        for name, context in security_contexts(spec)
        if context.proc_mount not in (None, "Default")
    }
    if not found:
        return None
    kinds = quoted(sorted(set(found.values())))
    return PodSecurityViolation(
        "procMount", f"{noun_with_names('container', list(found))} must not set securityContext.procMount to {kinds}"
    )


def proc_mount_on_host_users(meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check procMount unless the pod has its own user namespace, which makes an unmasked /proc safe."""
    return None if spec.host_users is False else proc_mount(meta, spec)


def se_linux(*allowed_types: str) -> Check:
    """Return the check of SELinux options for these allowed types."""

    def is_bad(options: SELinuxOptions | None) -> bool:
        if options is None:
            return False
        return bool(options.type and options.type not in allowed_types) or bool(options.user or options.role)

    def check(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
        of_pod = spec.security_context.se_linux_options if spec.security_context is not None else None
        bad = {
            name: context.se_linux_options
            for name, context in security_contexts(spec)
            if is_bad(context.se_linux_options)
        }
        options = [*([of_pod] if is_bad(of_pod) else []), *bad.values()]
        if not options:
            return None
        types = sorted({one.type for one in options if one.type and one.type not in allowed_types})
        what = [f"{pluralize('type', types)} {quoted(types)}"] if types else []
        what += ["user may not be set"] if any(one.user for one in options) else []
        what += ["role may not be set"] if any(one.role for one in options) else []
        who = setters(is_bad(of_pod), list(bad))
        return PodSecurityViolation(
            "seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(what)}"
        )

    return check


def seccomp_annotations(meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check seccomp annotations (before v1.19)."""
    keys = [_SECCOMP_POD, *(_SECCOMP_CONTAINER_PREFIX + container.name for container in containers(spec))]
    found = sorted(
        f"{key}={quote(meta.annotations[key])}"
        for key in set(keys)
        if key in meta.annotations and not _is_safe_seccomp(meta.annotations[key])
    )
    detail = f"forbidden {pluralize('annotation', found)} {', '.join(found)}"
    return PodSecurityViolation("seccompProfile", detail) if found else None


def seccomp(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check seccomp profiles in fields."""
    of_pod = _profile_type(spec.security_context, "seccomp_profile")
    bad = {
        name: kind
        for name, context in security_contexts(spec)
        if (kind := _profile_type(context, "seccomp_profile")) not in (None, *_SAFE_PROFILES)
    }
    pod_is_bad = of_pod not in (None, *_SAFE_PROFILES)
    if not bad and not pod_is_bad:
        return None
    values = quoted(sorted({*bad.values(), *([of_pod] if pod_is_bad else [])}))
    return PodSecurityViolation(
        "seccompProfile",
        f"{setters(pod_is_bad, list(bad))} must not set securityContext.seccompProfile.type to {values}",
    )


def sysctls(*allowed: str) -> Check:
    """Return the check that only these sysctls are set."""

    def check(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
        wanted = spec.security_context.sysctls if spec.security_context is not None else ()
        found = [sysctl.name for sysctl in wanted if sysctl.name not in allowed]
        return PodSecurityViolation("forbidden sysctls", ", ".join(found)) if found else None

    return check


def windows_host_process(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that Windows hostProcess is not set."""
    found = [name for name, context in security_contexts(spec) if _is_host_process(context)]
    pod_too = _is_host_process(spec.security_context)
    detail = f"{setters(pod_too, found)} must not set securityContext.windowsOptions.hostProcess=true"
    return PodSecurityViolation("hostProcess", detail) if found or pod_too else None


def _is_host_process(context: Any) -> bool:
    return context is not None and context.windows_options is not None and bool(context.windows_options.host_process)


def _profile_type(context: Any, field: str) -> Any:
    profile = getattr(context, field) if context is not None else None
    return profile.type if profile is not None else None


def _is_safe_seccomp(value: str) -> bool:
    return value in ("runtime/default", "docker/default") or value.startswith("localhost/")


def _hosts_of(container: Any) -> Iterator[str]:
    handlers = [container.liveness_probe, container.readiness_probe, container.startup_probe]
    if container.lifecycle is not None:
        handlers += [container.lifecycle.post_start, container.lifecycle.pre_stop]
    for handler in handlers:
        if handler is not None:
            yield from (action.host for action in (handler.http_get, handler.tcp_socket) if action and action.host)


def _use(noun: str, names: list[str]) -> str:
    return f"{noun_with_names(noun, names)} {'uses' if len(names) == 1 else 'use'}"
