# SPDX-License-Identifier: Apache-2.0
"""Tests with real programs: a silent node is tainted, its pods are replaced, and it recovers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.manager_process import ManagerProcess
from tests.e2e.plane import GIVE_UP_SECONDS, PROGRAM, SOURCE_ROOT, Plane, _first_line, environment, eventually

# As upstream's, but shorter: hearts beat every second here, not every ten.
QUICK = ("--node-monitor-period=500ms", "--node-monitor-grace-period=5s")
TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
    for key in ("unreachable", "not-ready")
]
POD = {"containers": [{"name": "web", "image": "registry.example/web:1"}], "tolerations": TOLERATIONS}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 6,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD},
    },
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """API server, controllers, scheduler and nodes as separate processes that connect to the first by its port."""
    folder = tmp_path_factory.mktemp("failing")
    flags = ("--store", "memory", "--bind-address", "127.0.0.1", "--cert-dir", str(folder / "pki"))
    plane = Plane(folder / "server", *flags, command="apiserver")
    manager = ManagerProcess(plane, folder / "manager", "--controllers=*", *QUICK)
    with ExitStack() as parts:
        parts.callback(plane.close)
        plane.start()
        parts.callback(manager.close)
        scheduler = (*PROGRAM, "scheduler", "--kubeconfig", str(plane.kubeconfig), "--secure-port", "0")
        nodes = (sys.executable, str(SOURCE_ROOT / "tests/e2e/node_simulator.py"), "3")
        started = [parts.enter_context(_running(plane, *command)) for command in (scheduler, nodes)]
        manager.start()
        for one in started:
            assert _first_line(one)
        yield plane


@contextmanager
def _running(plane: Plane, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    around = {**environment(), "KUBECONFIG": str(plane.kubeconfig)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=around) as process:
        yield process
        process.terminate()


@pytest.fixture
def kubectl(plane: Plane, kubectl_home: Path) -> Kubectl:
    return Kubectl(plane.kubeconfig, "default", kubectl_home)


def node_command(plane: Plane, *words: str) -> None:
    command = [sys.executable, "-m", "kubeloop.cli.main", "node", *words, "--kubeconfig", str(plane.kubeconfig)]
    subprocess.run(command, capture_output=True, timeout=GIVE_UP_SECONDS, check=True, env=environment())


def items(kubectl: Kubectl, what: str) -> list[Any]:
    found: list[Any] = json.loads(kubectl("get", what, "-o", "json"))["items"]
    return found


def is_leaving(pod: Any) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def keys(node: Any) -> set[tuple[str, str]]:
    return {(one["key"].rpartition("/")[2], one["effect"]) for one in node["spec"].get("taints", ())}


def test_pods_of_a_stopped_node_are_replaced_and_the_node_recovers(
    kubectl: Kubectl, plane: Plane, tmp_path: Path
) -> None:
    manifest = tmp_path / "web.json"
    manifest.write_text(json.dumps(DEPLOYMENT))
    kubectl("apply", "-f", str(manifest))
    kubectl("rollout", "status", "deployment/web", WAIT)
    victim = items(kubectl, "pods")[0]["spec"]["nodeName"]  # a node that was late with its heartbeat has no pods
    node_command(plane, "stop", victim)

    def is_tainted() -> bool:
        (node,) = (one for one in items(kubectl, "nodes") if one["metadata"]["name"] == victim)
        return keys(node) == {("unreachable", "NoExecute"), ("unreachable", "NoSchedule")}

    def has_moved() -> bool:
        stayed = [pod for pod in items(kubectl, "pods") if not is_leaving(pod)]
        return len(stayed) == 6 and all(pod["spec"].get("nodeName") not in (None, victim) for pod in stayed)

    eventually(is_tainted, GIVE_UP_SECONDS)
    eventually(has_moved, GIVE_UP_SECONDS)
    assert "NotReady" in kubectl("get", "node", victim)
    kubectl("rollout", "status", "deployment/web", WAIT)
    node_command(plane, "start", victim)
    eventually(lambda: all(not keys(node) for node in items(kubectl, "nodes")), GIVE_UP_SECONDS)
    eventually(lambda: not any(map(is_leaving, items(kubectl, "pods"))), GIVE_UP_SECONDS)
    told = kubectl("get", "events", "-A")
    assert "NodeNotReady" in told
    assert "TaintManagerEviction" in told
