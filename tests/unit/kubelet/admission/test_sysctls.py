# SPDX-License-Identifier: Apache-2.0
"""Kernel settings that pods may have."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Pod, PodSecurityContext, PodSpec, Sysctl
from kubeloop.kubelet.admission.sysctls import check_sysctl_patterns, kernel_version, new_allowlist, normalize_name

ALLOWED = new_allowlist(["kernel.msg*", "net.core.somaxconn", "user/max_user_namespaces"], (6, 1))


def pod(name: str, **spec: Any) -> Pod:
    return Pod(spec=PodSpec(security_context=PodSecurityContext(sysctls=(Sysctl(name=name, value="1"),)), **spec))


@pytest.mark.parametrize(
    ("name", "spec", "problem"),
    [
        ("kernel.shm_rmid_forced", {}, ""),
        ("kernel.shm_rmid_forced", {"host_ipc": True}, '"kernel.shm_rmid_forced" not allowed with host IPC enabled'),
        ("net.ipv4.tcp_syncookies", {"host_network": True}, '"net.ipv4.tcp_syncookies" not allowed with host Net'),
        ("net/ipv4/tcp_syncookies", {}, ""),
        ("kernel.msgmax", {}, ""),
        ("net.core.somaxconn", {}, ""),
        ("net.core.other", {}, '"net.core.other" not allowlisted'),
        ("kernel.panic", {}, '"kernel.panic" not allowlisted'),
        ("user.max_user_namespaces", {}, '"user.max_user_namespaces" not allowed with host User enabled'),
        ("user.max_user_namespaces", {"host_users": False}, ""),
    ],
)
def test_only_allowed_settings_are_admitted(name: str, spec: dict[str, Any], problem: str) -> None:
    found = ALLOWED.rejection(pod(name, **spec))
    assert found.startswith(f"forbidden sysctl: {problem}") if problem else found == ""


def test_older_kernels_have_fewer_safe_settings() -> None:
    assert kernel_version("6.1.0-18-amd64") == (6, 1)
    assert kernel_version("unknown") == (0, 0)
    name = "net.ipv4.tcp_rmem"
    assert new_allowlist((), (4, 15)).rejection(pod(name)) == ""
    assert "not allowlisted" in new_allowlist((), (4, 14)).rejection(pod(name))


def test_names_with_slashes_are_the_same_settings() -> None:
    assert normalize_name("net/ipv4/conf/eno2.100/rp_filter") == "net.ipv4.conf.eno2/100.rp_filter"
    assert normalize_name("net.ipv4.conf.eno2/100.rp_filter") == "net.ipv4.conf.eno2/100.rp_filter"


@pytest.mark.parametrize("pattern", ["kernel.panic", "vm.*", "net.*.x", "Net.core", "x" * 254])
def test_patterns_outside_of_namespaces_are_refused(pattern: str) -> None:
    assert list(check_sysctl_patterns([pattern]))


def test_valid_patterns() -> None:
    assert not list(check_sysctl_patterns(["kernel.msg*", "net.*", "fs.mqueue.*", "kernel.shm*", "net.core.somaxconn"]))
