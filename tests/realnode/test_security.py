# SPDX-License-Identifier: Apache-2.0
"""Security contexts of real pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, pod, wait_reason

pytestmark = pytest.mark.realnode


def output(node: RealNode, script: str, own: dict[str, Any] | None = None, **spec: Any) -> str:
    node.apply(pod("secure", container("c", script, securityContext=own or {}), restartPolicy="Never", **spec))
    node.wait_phase("secure", "Succeeded")
    return node.kubectl("logs", "secure")


def test_local_seccomp_profile_is_enforced(node: RealNode) -> None:
    folder = node.root / "seccomp/profiles"
    folder.mkdir(parents=True, exist_ok=True)
    deny = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    (folder / "no-mkdir.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [deny]}))
    own = {"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/no-mkdir.json"}}
    assert "Seccomp:\t2" in output(node, "mkdir /tmp/x || echo refused; grep Seccomp: /proc/self/status", own)
    assert "refused" in node.kubectl("logs", "secure")


def test_missing_seccomp_profile_is_reported(node: RealNode) -> None:
    own = {"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/missing.json"}}
    node.apply(pod("missing", container("c", "true", securityContext=own)))
    waiting = wait_reason(node, "missing", "CreateContainerError")
    assert "missing.json" in waiting["message"]


def test_groups_are_added(node: RealNode) -> None:
    said = output(node, "id -G", {"runAsUser": 1000}, securityContext={"supplementalGroups": [7, 8], "fsGroup": 9})
    assert {"7", "8", "9"} <= set(said.split())


def test_containers_of_a_pod_can_share_processes(node: RealNode) -> None:
    other = container("other", "exec sleep 12345")
    node.apply(pod("shared", container("c", "exec sleep 54321"), other, shareProcessNamespace=True))
    node.wait_ready("shared")
    seen = node.kubectl("exec", "shared", "-c", "c", "--", "ps")
    assert "sleep 12345" in seen
    assert "sleep 54321" in seen


def test_proc_is_masked(node: RealNode) -> None:
    said = output(node, "wc -c < /proc/interrupts; (echo 1 > /proc/sys/kernel/panic) 2>/dev/null || echo read-only")
    assert said.split() == ["0", "read-only"]


def test_pods_that_the_machine_cannot_confine_are_rejected(node: RealNode) -> None:
    if Path("/sys/kernel/security/apparmor").exists():
        pytest.skip("needs a machine without AppArmor")
    profile = {"appArmorProfile": {"type": "RuntimeDefault"}}
    node.apply(pod("armed", container("c", "true"), securityContext=profile))
    status = node.wait_phase("armed", "Failed")["status"]
    assert (status["reason"], status["message"]) == (
        "AppArmor",
        "Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host",
    )
