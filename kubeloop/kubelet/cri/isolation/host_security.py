# SPDX-License-Identifier: Apache-2.0
"""Security modules and paths of the machine, and pods whose security context it cannot apply."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.kubelet.cri.config.security_context import APP_ARMOR_ANNOTATION, app_armor_profile
from kubeloop.kubelet.sync.containers import all_containers_of
from kubeloop.kubelet.sync.pod_state import TerminationReason

_CONTAINER = "container"  # variable of processes in containers, which systemd sets
_LOCALHOST, _UNCONFINED = "Localhost", "Unconfined"


@dataclass(frozen=True, slots=True)
class HostSecurity:
    """Facts about the machine, read when the kubelet starts."""

    has_app_armor: bool = False
    has_selinux: bool = False
    masked_paths: tuple[str, ...] = ()  # besides those of every machine

    def rejection(self, pod: Pod, node: Node) -> TerminationReason | None:
        """Return why a new pod is rejected; None if its security context can be applied."""
        if problem := self._app_armor_problem(pod):
            return TerminationReason("AppArmor", f"Cannot enforce AppArmor: {problem}", rejected=True)
        context, features = pod.spec.security_context, node.status.features
        is_strict = context is not None and context.supplemental_groups_policy == "Strict"
        if is_strict and not (features is not None and features.supplemental_groups_policy):
            message = "SupplementalGroupsPolicy=Strict is not supported in this node"
            return TerminationReason("SupplementalGroupsPolicyNotSupported", message, rejected=True)
        return None

    def _app_armor_problem(self, pod: Pod) -> str:
        if not _requires_app_armor(pod):
            return ""
        if not self.has_app_armor:
            return "AppArmor is not enabled on the host"
        for one in all_containers_of(pod):
            profile = app_armor_profile(pod, one)
            if profile is not None and profile.type == _LOCALHOST and not (profile.localhost_profile or "").strip():
                return f'invalid empty AppArmor profile name: "{profile.localhost_profile or ""}"'
        return ""


def read_host_security(root: Path = Path("/")) -> HostSecurity:
    """Read which security modules the kernel has."""
    return HostSecurity(_has_app_armor(root), (root / "sys/fs/selinux/status").exists(), tuple(_throttle_paths(root)))


def _has_app_armor(root: Path) -> bool:
    if not (root / "sys/kernel/security/apparmor").exists() or _CONTAINER in os.environ:
        return False
    enabled = root / "sys/module/apparmor/parameters/enabled"
    return enabled.exists() and enabled.read_text().startswith("Y")


def _throttle_paths(root: Path) -> Iterator[str]:
    """Yield the folders that tell about the load of the machine."""
    cpus = root / "sys/devices/system/cpu"
    for found in sorted(cpus.glob("cpu[0-9]*/thermal_throttle")):
        yield f"/{found.relative_to(root)}"


def _requires_app_armor(pod: Pod) -> bool:
    contexts = [pod.spec.security_context, *(one.security_context for one in all_containers_of(pod))]
    profiles = (one.app_armor_profile for one in contexts if one is not None)
    if any(one is not None and one.type != _UNCONFINED for one in profiles):
        return True
    annotations = pod.metadata.annotations
    return any(key.startswith(APP_ARMOR_ANNOTATION) and annotations[key] != "unconfined" for key in annotations)
