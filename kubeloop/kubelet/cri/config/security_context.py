# SPDX-License-Identifier: Apache-2.0
"""Security contexts of sandboxes and containers: fields of a container override those of its pod. Pure."""

from __future__ import annotations

import os
from typing import NamedTuple, TypeVar

import msgspec

from kubeloop.api.generated.core_v1 import (
    AppArmorProfile,
    Capabilities,
    Container,
    Pod,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from kubeloop.kubelet.cri.messages.container import LinuxContainerSecurityContext
from kubeloop.kubelet.cri.messages.sandbox import LinuxSandboxSecurityContext
from kubeloop.kubelet.cri.messages.security import (
    Capability,
    Int64Value,
    NamespaceMode,
    NamespaceOption,
    ProfileType,
    SecurityProfile,
    SELinuxOption,
    SupplementalGroupsPolicy,
    UserNamespace,
)
from kubeloop.kubelet.sync.containers import all_containers_of, format_pod

T = TypeVar("T")
_NO_CONTEXT, _NO_POD_CONTEXT = SecurityContext(), PodSecurityContext()
_UNMASKED = "Unmasked"
_APP_ARMOR_NAMES = {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}
APP_ARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_HIGHEST_UID = (1 << 31) - 1
_MASKED_PATHS = (
    *(f"/proc/{one}" for one in ("asound", "acpi", "interrupts", "kcore", "keys", "latency_stats", "timer_list")),
    *(f"/proc/{one}" for one in ("timer_stats", "sched_debug", "scsi")),
    *("/sys/firmware", "/sys/devices/virtual/powercap"),
)
_READ_ONLY_PATHS = tuple(f"/proc/{one}" for one in ("bus", "fs", "irq", "sys", "sysrq-trigger"))


class ImageUser(NamedTuple):
    """User that an image names, by number or by name; neither means root."""

    uid: int | None = None
    name: str = ""


class SecurityInputs(NamedTuple):
    """Inputs of a container's security context besides the pod."""

    image_user: ImageUser
    seccomp_root: str
    seccomp_default: bool = False
    user_namespace: UserNamespace | None = None
    masked_paths: tuple[str, ...] = ()  # of this machine


class ContainerConfigError(Exception):
    """Raised for a container that cannot be configured: CreateContainerConfigError."""


def container_security_context(pod: Pod, container: Container, inputs: SecurityInputs) -> LinuxContainerSecurityContext:
    """Return the security context of a container.

    Raises `ContainerConfigError` if it must not run as root and its image does, or may.
    """
    own, of_pod = container.security_context or _NO_CONTEXT, pod.spec.security_context or _NO_POD_CONTEXT
    user = inputs.image_user
    _verify_non_root(pod, container, user)
    run_as_user = _first(own.run_as_user, of_pod.run_as_user)
    image_uid = 0 if user.uid is None and not user.name else user.uid
    profile = _first(own.seccomp_profile, of_pod.seccomp_profile)
    app_armor = app_armor_profile(pod, container)
    is_unmasked = own.proc_mount == _UNMASKED
    return LinuxContainerSecurityContext(
        capabilities=_capabilities(own.capabilities),
        privileged=bool(own.privileged),
        namespace_options=namespaces_of(pod, inputs.user_namespace),
        selinux_options=_selinux(_first(own.se_linux_options, of_pod.se_linux_options)),
        run_as_user=_number(image_uid if run_as_user is None else run_as_user),
        run_as_username=user.name if run_as_user is None and user.uid is None else "",
        run_as_group=_number(_first(own.run_as_group, of_pod.run_as_group)),
        readonly_rootfs=bool(own.read_only_root_filesystem),
        supplemental_groups=_groups(of_pod),
        supplemental_groups_policy=_groups_policy(of_pod),
        no_new_privs=own.allow_privilege_escalation is False,
        masked_paths=() if is_unmasked else (*_MASKED_PATHS, *inputs.masked_paths),
        readonly_paths=() if is_unmasked else _READ_ONLY_PATHS,
        seccomp=_seccomp(profile, inputs.seccomp_root, inputs.seccomp_default),
        apparmor=_app_armor(app_armor),
        apparmor_profile=_app_armor_name(app_armor),
    )


def app_armor_profile(pod: Pod, container: Container) -> AppArmorProfile | None:
    """Return the AppArmor profile of a container: its own, that of an annotation of static pods, or the pod's."""
    own, of_pod = container.security_context or _NO_CONTEXT, pod.spec.security_context or _NO_POD_CONTEXT
    if own.app_armor_profile is not None:
        return own.app_armor_profile
    said = pod.metadata.annotations.get(f"{APP_ARMOR_ANNOTATION}{container.name}")
    if said is not None and said.startswith("localhost/"):
        return AppArmorProfile(type="Localhost", localhost_profile=said.removeprefix("localhost/"))
    named = next((type for type, name in _APP_ARMOR_NAMES.items() if name == said), None)
    return AppArmorProfile(type=named) if named is not None else of_pod.app_armor_profile


def sandbox_security_context(pod: Pod, user_namespace: UserNamespace | None = None) -> LinuxSandboxSecurityContext:
    """Return the security context of a sandbox."""
    of_pod = pod.spec.security_context or _NO_POD_CONTEXT
    contexts = (one.security_context for one in all_containers_of(pod))
    return LinuxSandboxSecurityContext(
        privileged=any(one is not None and one.privileged for one in contexts),
        seccomp=SecurityProfile(profile_type=ProfileType.RUNTIME_DEFAULT),
        run_as_user=_number(of_pod.run_as_user),
        run_as_group=_number(of_pod.run_as_group),
        namespace_options=namespaces_of(pod, user_namespace),
        supplemental_groups=_groups(of_pod),
        supplemental_groups_policy=_groups_policy(of_pod),
        selinux_options=_selinux(of_pod.se_linux_options),
    )


def namespaces_of(pod: Pod, user_namespace: UserNamespace | None = None) -> NamespaceOption:
    """Return the namespaces that a pod shares with the node, or its containers with each other."""
    spec = pod.spec
    pid = NamespaceMode.POD if spec.share_process_namespace else NamespaceMode.CONTAINER
    return NamespaceOption(
        network=NamespaceMode.NODE if spec.host_network else NamespaceMode.POD,
        ipc=NamespaceMode.NODE if spec.host_ipc else NamespaceMode.POD,
        pid=NamespaceMode.NODE if spec.host_pid else pid,
        userns_options=user_namespace,
    )


def with_target(context: LinuxContainerSecurityContext, target_id: str) -> LinuxContainerSecurityContext:
    """Return a security context with the process namespace of another container, unless the pod shares one."""
    found = context.namespace_options
    if found is None or found.pid != NamespaceMode.CONTAINER:
        return context
    options = msgspec.structs.replace(found, pid=NamespaceMode.TARGET, target_id=target_id)
    return msgspec.structs.replace(context, namespace_options=options)


def _verify_non_root(pod: Pod, container: Container, user: ImageUser) -> None:
    own, of_pod = container.security_context or _NO_CONTEXT, pod.spec.security_context or _NO_POD_CONTEXT
    if not _first(own.run_as_non_root, of_pod.run_as_non_root):
        return
    where = f'(pod: "{format_pod(pod)}", container: {container.name})'
    wanted = _first(own.run_as_user, of_pod.run_as_user)
    if wanted is not None:
        if wanted == 0:
            raise ContainerConfigError(f"container's runAsUser breaks non-root policy {where}")
    elif user.uid == 0 or (user.uid is None and not user.name):
        raise ContainerConfigError(f"container has runAsNonRoot and image will run as root {where}")
    elif user.uid is None:
        raise ContainerConfigError(
            f"container has runAsNonRoot and image has non-numeric user ({user.name}), cannot verify user is non-root"
            f" {where}"
        )
    elif not 0 <= user.uid <= _HIGHEST_UID:
        raise ContainerConfigError(
            f"container has runAsNonRoot and image has an invalid user id ({user.uid}). (Must be 1-({_HIGHEST_UID})): "
            f"must be between 0 and {_HIGHEST_UID}, inclusive {where}"
        )


def _first(own: T | None, of_pod: T | None) -> T | None:
    return of_pod if own is None else own


def _number(value: int | None) -> Int64Value | None:
    return None if value is None else Int64Value(value=value)


def _groups(of_pod: PodSecurityContext) -> tuple[int, ...]:
    own = (of_pod.fs_group,) if of_pod.fs_group is not None else ()
    return (*own, *of_pod.supplemental_groups)


def _groups_policy(of_pod: PodSecurityContext) -> SupplementalGroupsPolicy:
    is_strict = of_pod.supplemental_groups_policy == "Strict"
    return SupplementalGroupsPolicy.STRICT if is_strict else SupplementalGroupsPolicy.MERGE


def _capabilities(found: Capabilities | None) -> Capability | None:
    return None if found is None else Capability(add_capabilities=found.add, drop_capabilities=found.drop)


def _selinux(found: SELinuxOptions | None) -> SELinuxOption | None:
    if found is None:
        return None
    return SELinuxOption(user=found.user, role=found.role, type=found.type, level=found.level)


def _seccomp(found: SeccompProfile | None, root: str, by_default: bool) -> SecurityProfile:
    if found is None:
        kind = ProfileType.RUNTIME_DEFAULT if by_default else ProfileType.UNCONFINED
        return SecurityProfile(profile_type=kind)
    if found.type == "Localhost":
        if not found.localhost_profile:
            raise ContainerConfigError("localhostProfile must be set if seccompProfile type is Localhost.")
        path = os.path.normpath(f"{root}/{found.localhost_profile}")
        return SecurityProfile(profile_type=ProfileType.LOCALHOST, localhost_ref=path)
    is_default = found.type == "RuntimeDefault"
    return SecurityProfile(profile_type=ProfileType.RUNTIME_DEFAULT if is_default else ProfileType.UNCONFINED)


def _app_armor(found: AppArmorProfile | None) -> SecurityProfile | None:
    if found is None:
        return None
    if found.type == "Localhost":
        if found.localhost_profile is None:
            raise ContainerConfigError("missing localhost apparmor profile name")
        return SecurityProfile(profile_type=ProfileType.LOCALHOST, localhost_ref=found.localhost_profile)
    is_default = found.type == "RuntimeDefault"
    return SecurityProfile(profile_type=ProfileType.RUNTIME_DEFAULT if is_default else ProfileType.UNCONFINED)


def _app_armor_name(found: AppArmorProfile | None) -> str:
    """Return the profile in the form that older runtimes read."""
    if found is None:
        return ""
    return f"localhost/{found.localhost_profile}" if found.type == "Localhost" else _APP_ARMOR_NAMES[found.type]
