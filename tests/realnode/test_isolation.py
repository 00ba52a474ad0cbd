# SPDX-License-Identifier: Apache-2.0
"""Tests of real pods that ask for a runtime class or for a user namespace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.realnode.containerd import HANDLER
from tests.realnode.node import NODE, RealNode
from tests.realnode.test_pods import container, pod

pytestmark = pytest.mark.realnode


def runtime_class(name: str, handler: str) -> dict[str, Any]:
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler}


def sandbox_failure(node: RealNode, name: str) -> str:
    """Return the message of the event about a sandbox that could not be created."""

    def look() -> str | None:
        selector = f"involvedObject.name={name},reason=FailedCreatePodSandBox"
        events = json.loads(node.kubectl("get", "events", "--field-selector", selector, "-o", "json"))["items"]
        return events[0]["message"] if events else None

    return node.eventually(look, lambda: node.kubectl("describe", "pod", name))


def test_a_pod_runs_with_the_handler_of_its_runtime_class(node: RealNode) -> None:
    node.apply(runtime_class("other", HANDLER))
    node.apply(
        pod("classy", container("c", "sleep 600"), runtimeClassName="other"), pod("plain", container("c", "sleep 600"))
    )
    node.wait_ready("classy")
    node.wait_ready("plain")
    assert node.runtime.sandbox_handlers() == {"classy": HANDLER, "plain": ""}


def test_a_handler_that_the_runtime_does_not_have_is_reported(node: RealNode) -> None:
    node.apply(runtime_class("missing", "missing"))
    node.apply(pod("stuck", container("c", "sleep 600"), runtimeClassName="missing"))
    assert 'no runtime for "missing" is configured' in sandbox_failure(node, "stuck")
    assert node.statuses("stuck")["c"]["state"]["waiting"]["reason"] == "ContainerCreating"


def test_a_deleted_runtime_class_stops_new_sandboxes(node: RealNode) -> None:
    node.apply(runtime_class("short", HANDLER))
    node.kubectl("cordon", NODE)
    try:
        node.apply(pod("late", container("c", "sleep 600"), runtimeClassName="short"))
        node.kubectl("delete", "runtimeclass", "short")
    finally:
        node.kubectl("uncordon", NODE)
    assert 'runtimeclass.node.k8s.io "short" not found' in sandbox_failure(node, "late")


def test_a_pod_does_not_run_without_its_user_namespace(node: RealNode) -> None:
    handlers = json.loads(node.kubectl("get", "node", NODE, "-o", "json"))["status"].get("runtimeHandlers", [])
    supported = any(one["name"] == "" and one["features"]["userNamespaces"] for one in handlers)
    node.apply(pod("mapped", container("c", "cat /proc/self/uid_map; sleep 600"), hostUsers=False))
    if not supported:
        message = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
        assert message in sandbox_failure(node, "mapped")
        assert node.statuses("mapped")["c"]["state"]["waiting"]["reason"] == "ContainerCreating"
        return
    node.wait_ready("mapped")
    inside, outside, length = map(int, node.kubectl("logs", "mapped").split())
    assert (inside, length) == (0, 65536)
    assert outside >= 65536


def test_unsafe_sysctls_are_rejected_and_safe_ones_are_set(node: RealNode) -> None:
    sysctls = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]
    shown = container("c", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start; sleep 600")
    node.apply(
        pod("safe", shown, securityContext={"sysctls": sysctls}),
        pod(
            "unsafe",
            container("c", "sleep 600"),
            securityContext={"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]},
        ),
    )
    status = node.wait_phase("unsafe", "Failed")["status"]
    assert status["reason"] == "SysctlForbidden"
    assert status["message"] == 'Pod was rejected: forbidden sysctl: "net.core.somaxconn" not allowlisted'
    node.wait_ready("safe")
    assert node.kubectl("logs", "safe").strip() == "80"
