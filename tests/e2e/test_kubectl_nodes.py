# SPDX-License-Identifier: Apache-2.0
"""kubectl against simulated nodes: running, looking into, draining."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.plane import GIVE_UP_SECONDS, Plane, call_on, eventually
from tests.skips import kubectl_version, needs_kubectl

pytestmark = needs_kubectl()

# True if kubectl supports WebSockets; otherwise it uses SPDY.
PROTOCOLS = [False] if kubectl_version() < (1, 31) else [True, False]

PYTHON_CLIENT = """
import sys
from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config
from kubernetes.stream import portforward, stream

api = CoreV1Api(new_client_from_config(sys.argv[1]))
flags = dict(stderr=True, stdin=True, stdout=True, tty=False, _preload_content=False)
shell = stream(api.connect_get_namespaced_pod_exec, "spoken-to", "default", command=["sh"], **flags)
shell.write_stdin("echo hello\\nexit 7\\n")
shell.run_forever(timeout=60)
print(shell.read_stdout().strip(), shell.returncode)
ports = portforward(api.connect_get_namespaced_pod_portforward, "spoken-to", "default", ports="80")
connection = ports.socket(80)
connection.sendall(b"GET / HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n")
print(connection.recv(1 << 16).decode().splitlines()[0])
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    port = str(free_ports(3))
    plane = Plane(tmp_path_factory.mktemp("nodes"), "--ephemeral", "--nodes", "3", "--kubelet-port", port)
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


@pytest.mark.parametrize("websockets", PROTOCOLS)
def test_pod_runs_logs_and_executes_commands(kubectl: Kubectl, websockets: bool, tmp_path: Path) -> None:
    name, speaks = f"talker-{websockets}".lower(), protocols(websockets)
    run(kubectl, name, "sh", "-c", "echo hello; sleep 1000")
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", WAIT)
    assert kubectl("logs", name) == "hello\n"
    assert kubectl("exec", name, "--", "echo", "hi", **speaks) == "hi\n"
    assert kubectl("exec", "-i", name, "--", "cat", stdin="through and back" * 9999, **speaks).endswith("and back")
    said = kubectl.run("exec", name, "--", "sh", "-c", "exit 3", **speaks)
    assert said.code == 3
    assert "exit code 3" in said.err
    (tmp_path / "there").write_text("and back again")
    kubectl("cp", str(tmp_path / "there"), f"{name}:/tmp/copy", **speaks)
    kubectl("cp", f"{name}:/tmp/copy", str(tmp_path / "back"), **speaks)
    assert (tmp_path / "back").read_text() == "and back again"


@pytest.mark.parametrize("websockets", PROTOCOLS)
def test_attach_to_a_running_container(kubectl: Kubectl, websockets: bool) -> None:
    words = ("run", "-i", "--rm", f"listener-{websockets}".lower(), "--image=busybox", "--restart=Never")
    said = kubectl.run(*words, "--", "sh", stdin="echo heard\nexit 5\n", **protocols(websockets))
    assert (said.code, said.out.splitlines()[0]) == (5, "heard")


@pytest.mark.parametrize("websockets", PROTOCOLS)
def test_port_is_forwarded(kubectl: Kubectl, websockets: bool) -> None:
    name, port = f"web-{websockets}".lower(), free_ports(1)
    kubectl("run", name, "--image=nginx", "--port=80")
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", WAIT)
    command = kubectl.command("port-forward", f"pod/{name}", f"{port}:80")
    forwarding = subprocess.Popen(
        command, env={**kubectl.environment(), **protocols(websockets)}, stdout=subprocess.PIPE, text=True
    )
    assert forwarding.stdout is not None
    try:
        assert forwarding.stdout.readline().startswith("Forwarding from 127.0.0.1")
        for _ in range(2):
            with urlopen(f"http://127.0.0.1:{port}/path", timeout=GIVE_UP_SECONDS) as answer:
                assert f"of pod default/{name} on" in answer.read().decode()
    finally:
        forwarding.terminate()
        forwarding.wait(GIVE_UP_SECONDS)
        forwarding.stdout.close()


def test_official_python_client_runs_commands_and_forwards_ports(kubectl: Kubectl) -> None:
    kubectl("run", "spoken-to", "--image=nginx", "--port=80")
    kubectl("wait", "--for=condition=Ready", "pod/spoken-to", WAIT)
    # On its own, since it leaves connections open.
    command = [sys.executable, "-c", PYTHON_CLIENT, str(kubectl.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, check=False)
    assert done.stdout == "hello 7\nHTTP/1.1 200 OK\n", done.stderr


def test_kubelet_port_authenticates_clients(kubectl: Kubectl, nodes: Plane) -> None:
    node = nodes.get("/api/v1/nodes/n2")["status"]
    assert node["addresses"][0] == {"type": "InternalIP", "address": "127.0.0.1"}
    port = node["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    known = http.client.HTTPSConnection("127.0.0.1", port, timeout=GIVE_UP_SECONDS, context=nodes.tls)
    assert call_on(known, "GET", "/healthz").body == b"ok"
    known.close()
    unknown = http.client.HTTPSConnection("127.0.0.1", port, timeout=GIVE_UP_SECONDS, context=trusting(nodes))
    assert call_on(unknown, "GET", "/pods").body == b"Unauthorized"
    kubectl("create", "serviceaccount", "robot")
    made = nodes.create("/api/v1/namespaces/default/serviceaccounts/robot/token", {"spec": {}})
    token = made["status"]["token"]
    assert call_on(unknown, "GET", "/pods", Authorization=f"Bearer {token}").status == 403
    unknown.close()


@needs_kubectl(1, 23)
def test_followed_log_ends_with_its_container(kubectl: Kubectl) -> None:
    run(kubectl, "worker", "sh", "-c", "echo begin; sleep 2; echo end", restart="Never")
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/worker", WAIT)
    assert kubectl("logs", "--follow", "worker") == "begin\nend\n"
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/worker", WAIT)


def test_usage_is_shown(kubectl: Kubectl) -> None:
    run(kubectl, "measured")
    kubectl("wait", "--for=condition=Ready", "pod/measured", WAIT)
    assert [line.split()[0] for line in kubectl("top", "nodes", "--no-headers").splitlines()] == ["n1", "n2", "n3"]
    assert kubectl("top", "pod", "measured", "--no-headers").split() == ["measured", "1m", "16Mi"]


def test_node_is_drained_and_stopped_and_started(kubectl: Kubectl, nodes: Plane) -> None:
    run(kubectl, "leaving", node="n2")
    kubectl("wait", "--for=condition=Ready", "pod/leaving", WAIT)
    kubectl("drain", "n2", "--force", "--ignore-daemonsets")
    assert kubectl("get", "pods", "--field-selector=spec.nodeName=n2", "-o", "name") == ""
    assert "SchedulingDisabled" in kubectl("get", "node", "n2")
    kubectl("uncordon", "n2")
    run(kubectl, "surviving", node="n2")
    kubectl("wait", "--for=condition=Ready", "pod/surviving", WAIT)
    assert node_command(nodes, "stop", "n2") == "node/n2 stopped\n"
    assert node_command(nodes, "start", "n2") == "node/n2 started\n"
    path = "jsonpath={.status.containerStatuses[0].restartCount}"
    eventually(lambda: kubectl("get", "pod", "surviving", "-o", path) == "1")


def protocols(websockets: bool) -> dict[str, str]:
    """Environment variables that select kubectl's protocol."""
    said = str(websockets).lower()
    return {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": said, "KUBECTL_PORT_FORWARD_WEBSOCKETS": said}


def free_ports(count: int) -> int:
    """Return the first of some consecutive free ports."""
    while True:
        with ExitStack() as held:
            first = 0
            try:
                for index in range(count):
                    one = held.enter_context(socket.socket())
                    one.bind(("127.0.0.1", first + index if index else 0))
                    first = first or one.getsockname()[1]
                return first
            except (OSError, OverflowError):
                continue


def trusting(plane: Plane) -> ssl.SSLContext:
    """Trust in the plane's authority, and no certificate of one's own."""
    cluster = yaml.safe_load(plane.kubeconfig.read_text())["clusters"][0]["cluster"]
    return ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())


def node_command(plane: Plane, *words: str) -> str:
    command = [sys.executable, "-m", "kubeloop.cli.main", "node", *words, "--kubeconfig", str(plane.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, check=True).stdout
