# SPDX-License-Identifier: Apache-2.0
"""Selects the checks of a level and policy version, and evaluates them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.admission.plugins.pod_security import baseline, restricted
from kubeloop.apiserver.admission.plugins.pod_security.findings import Check, PodSecurityViolation
from kubeloop.apiserver.admission.plugins.pod_security.labels import LATEST, LevelVersion
from kubeloop.apiserver.admission.plugins.pod_security.restricted import unless_user_namespace, unless_windows

_NEWEST = 37


class _VersionedCheck(NamedTuple):
    """Check with its revisions by minor version, and the check that it replaces at a stricter level."""

    revisions: tuple[tuple[int, Check], ...]
    overrides: str = ""


_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
)
_SYSCTLS_27 = (*_SYSCTLS, "net.ipv4.ip_local_reserved_ports")
_SYSCTLS_29 = (
    *_SYSCTLS_27,
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
)
_SYSCTLS_32 = (*_SYSCTLS_29, "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
_SYSCTLS_37 = (*_SYSCTLS_32, "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat")
_SE_LINUX_TYPES = ("container_t", "container_init_t", "container_kvm_t")

# In the order in which violations are reported.
_BASELINE = {
    "appArmorProfile": _VersionedCheck(((0, baseline.app_armor),)),
    "capabilities_baseline": _VersionedCheck(((0, baseline.capabilities),)),
    "hostNamespaces": _VersionedCheck(((0, baseline.host_namespaces),)),
    "hostPathVolumes": _VersionedCheck(((0, baseline.host_path_volumes),)),
    "hostPorts": _VersionedCheck(((0, baseline.host_ports),)),
    "hostProbesAndHostLifecycle": _VersionedCheck(((34, baseline.probe_hosts),)),
    "privileged": _VersionedCheck(((0, baseline.privileged),)),
    "procMount": _VersionedCheck(((0, baseline.proc_mount), (35, baseline.proc_mount_on_host_users))),
    "seLinuxOptions": _VersionedCheck(
        ((0, baseline.se_linux(*_SE_LINUX_TYPES)), (31, baseline.se_linux(*_SE_LINUX_TYPES, "container_engine_t")))
    ),
    "seccompProfile_baseline": _VersionedCheck(((0, baseline.seccomp_annotations), (19, baseline.seccomp))),
    "sysctls": _VersionedCheck(
        (
            (0, baseline.sysctls(*_SYSCTLS)),
            (27, baseline.sysctls(*_SYSCTLS_27)),
            (29, baseline.sysctls(*_SYSCTLS_29)),
            (32, baseline.sysctls(*_SYSCTLS_32)),
            (37, baseline.sysctls(*_SYSCTLS_37)),
        )
    ),
    "windowsHostProcess": _VersionedCheck(((0, baseline.windows_host_process),)),
}
_RESTRICTED = {
    "allowPrivilegeEscalation": _VersionedCheck(
        ((8, restricted.privilege_escalation), (25, unless_windows(restricted.privilege_escalation)))
    ),
    "capabilities_restricted": _VersionedCheck(
        ((22, restricted.capabilities), (25, unless_windows(restricted.capabilities))), "capabilities_baseline"
    ),
    "procMount_restricted": _VersionedCheck(((35, baseline.proc_mount),), "procMount"),
    "restrictedVolumes": _VersionedCheck(((0, restricted.volume_types),), "hostPathVolumes"),
    "runAsNonRoot": _VersionedCheck(
        ((0, restricted.run_as_non_root), (35, unless_user_namespace(restricted.run_as_non_root)))
    ),
    "runAsUser": _VersionedCheck(((23, restricted.run_as_user), (35, unless_user_namespace(restricted.run_as_user)))),
    "seccompProfile_restricted": _VersionedCheck(
        ((19, restricted.seccomp_required), (25, unless_windows(restricted.seccomp_required))),
        "seccompProfile_baseline",
    ),
}


def evaluate(policy: LevelVersion, meta: ObjectMeta, spec: PodSpec) -> list[PodSecurityViolation]:
    """Return all violations of a level by a pod."""
    if policy.level == "privileged":
        return []
    minor = _NEWEST if policy.version == LATEST else min(policy.version, _NEWEST)
    found = (check(meta, spec) for check in _checks(policy.level, minor))
    return [finding for finding in found if finding is not None]


def forbidden_reasons(found: Sequence[PodSecurityViolation]) -> str:
    """Return the violations' reasons as text."""
    return ", ".join(finding.reason for finding in found)


def forbidden_details(found: Sequence[PodSecurityViolation]) -> str:
    """Return the violations' reasons with details as text."""
    return ", ".join(f"{finding.reason} ({finding.detail})" for finding in found)


@cache
def _checks(level: str, minor: int) -> tuple[Check, ...]:
    base = {name: check for name, rule in _BASELINE.items() if (check := _revision(rule, minor))}
    if level == "baseline":
        return tuple(base.values())
    added = []
    for rule in _RESTRICTED.values():
        check = _revision(rule, minor)
        if check is not None:
            added.append(check)
            base.pop(rule.overrides, None)
    return (*base.values(), *added)


def _revision(rule: _VersionedCheck, minor: int) -> Check | None:
    return next((check for since, check in reversed(rule.revisions) if minor >= since), None)
