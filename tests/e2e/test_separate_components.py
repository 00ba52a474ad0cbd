# SPDX-License-Identifier: Apache-2.0
"""Tests of components as separate processes: API server, manager, scheduler, and nodes that the API server dials."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.manager_process import free_port
from tests.e2e.plane import GIVE_UP_SECONDS, PROGRAM, Plane, _first_line, environment, eventually
from tests.e2e.test_kubectl_nodes import free_ports, protocols
from tests.skips import needs_kubectl

pytestmark = needs_kubectl(1, 31)


class Component:
    """Process of a kubeloop program."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.errors = folder / "stderr"
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=errors, env=environment(), cwd=folder
            )

    def ready(self) -> str:
        line = _first_line(self.process)
        assert " is ready" in line, (line, self.errors.read_text())
        return line

    def stop(self, number: int = signal.SIGTERM) -> int:
        """The exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(GIVE_UP_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()


class SeparateComponentsHarness:
    """Plane of separate processes, started by the test modules."""

    def __init__(self, plane: Plane, kubectl: Kubectl, parts: ExitStack) -> None:
        self.plane = plane
        self.kubectl = kubectl
        self._parts = parts

    def start(self, command: str, name: str, *flags: str) -> Component:
        one = Component(self.plane.folder / name, command, *flags)
        self._parts.callback(one.stop)
        return one

    def nodes(self, name: str, *flags: str) -> Component:
        return self.start("kubelet", name, *flags, "--address=127.0.0.1", "--healthz-port=0", f"--cert-dir={name}-keys")


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory, kubectl_home: Path) -> Iterator[SeparateComponentsHarness]:
    with ExitStack() as parts:
        plane = Plane(tmp_path_factory.mktemp("alone"), command="apiserver")
        plane.start()
        parts.callback(plane.close)
        made = SeparateComponentsHarness(plane, Kubectl(plane.kubeconfig, "default", kubectl_home), parts)
        keys = plane.folder / "pki"
        whom = (f"--kubeconfig={plane.kubeconfig}", "--bind-address=127.0.0.1", "--leader-elect=false")
        signing = (f"--cluster-signing-cert-file={keys}/ca.crt", f"--cluster-signing-key-file={keys}/ca.key")
        ports = [f"--secure-port={free_port()}" for _ in range(2)]
        every = [
            made.start(
                "controller-manager", "manager", *whom, *signing, f"--secure-port={free_port()}", "--cert-dir=."
            ),
            made.start("scheduler", "scheduler", *whom, ports[1], "--cert-dir=."),
            made.nodes("fleet", f"--kubeconfig={plane.kubeconfig}", "--nodes=2", "--port=0"),
        ]
        for one in every:
            one.ready()
        eventually(lambda: made.kubectl.run("get", "serviceaccount", "default").code == 0)
        yield made


def started(harness: SeparateComponentsHarness, name: str, *words: str) -> str:
    harness.kubectl("run", name, "--image=nginx", "--port=80", *words)
    harness.kubectl("wait", "--for=condition=Ready", f"pod/{name}", WAIT)
    return name


@pytest.mark.parametrize("websockets", [True, False])
def test_pod_runs_and_supports_exec(harness: SeparateComponentsHarness, websockets: bool, tmp_path: Path) -> None:
    kubectl, speaks = harness.kubectl, protocols(websockets)
    pod = started(harness, f"web-{websockets}".lower(), "--command", "--", "sh", "-c", "echo hello; sleep 1000")
    assert kubectl("logs", pod) == "hello\n"
    assert kubectl("exec", "-i", pod, "--", "cat", stdin="and back" * 9999, **speaks).endswith("and back")
    assert kubectl.run("exec", pod, "--", "sh", "-c", "exit 3", **speaks).code == 3
    (tmp_path / "there").write_text("and back again")
    kubectl("cp", str(tmp_path / "there"), f"{pod}:/tmp/copy", **speaks)
    kubectl("cp", f"{pod}:/tmp/copy", str(tmp_path / "back"), **speaks)
    assert (tmp_path / "back").read_text() == "and back again"
    assert page_through_forwarding(kubectl, pod, speaks) == kubectl(
        "get", "--raw", f"/api/v1/namespaces/default/pods/{pod}:80/proxy/"
    )


def page_through_forwarding(kubectl: Kubectl, pod: str, speaks: dict[str, str]) -> str:
    port = free_ports(1)
    forwarding = subprocess.Popen(
        kubectl.command("port-forward", f"pod/{pod}", f"{port}:80"),
        env={**kubectl.environment(), **speaks},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert forwarding.stdout is not None
    try:
        assert forwarding.stdout.readline().startswith("Forwarding from 127.0.0.1")
        with urlopen(f"http://127.0.0.1:{port}/", timeout=GIVE_UP_SECONDS) as answer:
            page: str = answer.read().decode()
            return page
    finally:
        forwarding.terminate()
        forwarding.wait(GIVE_UP_SECONDS)
        forwarding.stdout.close()


def test_a_followed_log_ends_with_its_container(harness: SeparateComponentsHarness) -> None:
    words = ("--restart=Never", "--command", "--", "sh", "-c", "echo begin; sleep 1; echo end")
    harness.kubectl("run", "worker", "--image=busybox", *words)
    harness.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/worker", WAIT)
    assert harness.kubectl("logs", "--follow", "worker") == "begin\nend\n"


def test_node_bootstraps_its_certificates_with_its_own_permissions(harness: SeparateComponentsHarness) -> None:
    kubectl, plane = harness.kubectl, harness.plane
    flags = (f"--kubeconfig={plane.folder}/w1.conf", f"--bootstrap-kubeconfig={plane.kubeconfig}")
    more = ("--hostname-override=w1", "--port=0", f"--client-ca-file={plane.folder}/pki/ca.crt")
    node = harness.nodes("w1", *flags, *more, "--rotate-server-certificates", "--register-with-taints=own=x:NoSchedule")
    assert node.ready().strip().partition(": ")[2].startswith("node w1 at port ")
    overrides = '{"spec":{"nodeName":"w1","tolerations":[{"operator":"Exists"}]}}'
    pod = started(harness, "on-w1", f"--overrides={overrides}", "--command", "--", "sh", "-c", "echo here; sleep 999")
    assert kubectl("logs", pod) == "here\n"
    serving = eventually(lambda: requests_of(kubectl, "kubernetes.io/kubelet-serving"))
    kubectl("certificate", "approve", *serving)
    eventually(lambda: (plane.folder / "w1" / "w1-keys" / "kubelet-server-current.pem").exists())
    assert kubectl("exec", pod, "--", "echo", "still here") == "still here\n"
    assert node.stop() == 0
    assert "Traceback" not in node.errors.read_text()


def requests_of(kubectl: Kubectl, signer: str) -> list[str]:
    every = kubectl.json("get", "csr")["items"]
    return [one["metadata"]["name"] for one in every if one["spec"]["signerName"] == signer]


def test_nodes_survive_an_api_server_restart_and_a_missing_one_is_reported(harness: SeparateComponentsHarness) -> None:
    kubectl, whom = harness.kubectl, f"--kubeconfig={harness.plane.kubeconfig}"
    others = harness.nodes("others", whom, "--nodes=1", "--node-name-prefix=o", "--port=0")
    others.ready()
    for name in ("going", "staying"):
        started(harness, name, '--overrides={"spec":{"nodeName":"o1"}}')
    harness.plane.stop()
    harness.plane.start()
    kubectl("delete", "pod", "going", WAIT)
    assert others.stop() == 0
    said = kubectl.fails("logs", "staying")
    assert said.startswith('Error from server: Get "https://127.0.0.1:')
    assert said.rstrip().endswith("connect: connection refused")
    assert "connect: connection refused" in kubectl.fails("exec", "staying", "--", "true")
