"""kubectl against simulated nodes: running, looking into, draining."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kubectl import Kubectl, version
from tests.e2e.plane import Plane, eventually

pytestmark = pytest.mark.skipif(version() < (1, 31), reason="an older kubectl runs commands by SPDY")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    plane = Plane(tmp_path_factory.mktemp("nodes"), "--ephemeral", "--nodes", "3")
    plane.start()
    yield plane
    plane.close()


@pytest.fixture
def kubectl(nodes: Plane, kubectl_home: Path) -> Kubectl:
    return Kubectl(nodes.kubeconfig, "default", kubectl_home)


def run(kubectl: Kubectl, name: str, *command: str, node: str = "n1", restart: str = "Always") -> None:
    overrides = f'{{"spec":{{"nodeName":"{node}"}}}}'
    words = ("--command", "--", *command) if command else ()
    kubectl("run", name, "--image=busybox", f"--restart={restart}", f"--overrides={overrides}", *words)


def test_pod_runs_speaks_and_answers(kubectl: Kubectl) -> None:
    run(kubectl, "talker", "sh", "-c", "echo hello; sleep 1000")
    kubectl("wait", "--for=condition=Ready", "pod/talker", "--timeout=20s")
    assert kubectl("logs", "talker") == "hello\n"
    assert kubectl("exec", "talker", "--", "echo", "hi") == "hi\n"
    assert kubectl("exec", "-i", "talker", "--", "cat", stdin="through and back") == "through and back"
    said = kubectl.run("exec", "talker", "--", "sh", "-c", "exit 3")
    assert said.code == 3
    assert "exit code 3" in said.err


def test_followed_log_ends_with_its_container(kubectl: Kubectl) -> None:
    run(kubectl, "worker", "sh", "-c", "echo begin; sleep 2; echo end", restart="Never")
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/worker", "--timeout=20s")
    assert kubectl("logs", "--follow", "worker") == "begin\nend\n"
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/worker", "--timeout=20s")


def test_usage_is_shown(kubectl: Kubectl) -> None:
    run(kubectl, "measured")
    kubectl("wait", "--for=condition=Ready", "pod/measured", "--timeout=20s")
    assert [line.split()[0] for line in kubectl("top", "nodes", "--no-headers").splitlines()] == ["n1", "n2", "n3"]
    assert kubectl("top", "pod", "measured", "--no-headers").split() == ["measured", "1m", "16Mi"]


def test_node_is_drained_and_stopped_and_started(kubectl: Kubectl, nodes: Plane) -> None:
    run(kubectl, "leaving", node="n2")
    kubectl("wait", "--for=condition=Ready", "pod/leaving", "--timeout=20s")
    kubectl("drain", "n2", "--force", "--ignore-daemonsets")
    assert kubectl("get", "pods", "--field-selector=spec.nodeName=n2", "-o", "name") == ""
    assert "SchedulingDisabled" in kubectl("get", "node", "n2")
    kubectl("uncordon", "n2")
    run(kubectl, "surviving", node="n2")
    kubectl("wait", "--for=condition=Ready", "pod/surviving", "--timeout=20s")
    assert node_command(nodes, "stop", "n2") == "node/n2 stopped\n"
    assert node_command(nodes, "start", "n2") == "node/n2 started\n"
    path = "jsonpath={.status.containerStatuses[0].restartCount}"
    eventually(lambda: kubectl("get", "pod", "surviving", "-o", path) == "1")


def node_command(plane: Plane, *words: str) -> str:
    command = [sys.executable, "-m", "kubeloop.cli.main", "node", *words, "--kubeconfig", str(plane.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
