# SPDX-License-Identifier: Apache-2.0
"""Clusters in the background: `up --detach`, `status`, `stop` and `delete` as a user runs them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.plane import NO_PORTS, environment
from tests.skips import skip_without_kubectl


class Shell:
    """Runs the program with a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {**environment(), "XDG_STATE_HOME": str(folder)}

    def run(self, *arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "kubeloop", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, env=self._environment, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def up(self, *arguments: str, code: int = 0) -> str:
        return self.run("up", "--detach", "--port", "0", *NO_PORTS, *arguments, code=code)

    def clusters(self, *names: str, code: int = 0) -> dict[str, Any]:
        found = json.loads(self.run("status", "-o", "json", *names, code=code))["clusters"]
        return {one["name"]: one for one in found}


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.run("delete", "--all")


def contexts(path: Path) -> tuple[list[str], str]:
    document = yaml.safe_load(path.read_text())
    return [one["name"] for one in document["contexts"]], document["current-context"]


def test_cluster_in_the_background_is_shown_stopped_restarted_and_deleted(shell: Shell) -> None:
    assert "No clusters" in shell.run("status")
    assert "cluster 'kubeloop' is ready at https://127.0.0.1:" in shell.up()
    found = shell.clusters()["kubeloop"]
    assert (found["status"], found["nodes"], found["readyNodes"]) == ("Ready", 1, 1)
    assert found["components"][0]["name"] == "apiserver"
    assert "'kubeloop' is running already" in shell.up(code=1)
    assert shell.run("stop") == "cluster 'kubeloop' stopped\n"
    assert shell.clusters("kubeloop", code=1)["kubeloop"]["status"] == "Stopped"
    assert "'kubeloop' is not running" in shell.run("stop", code=1)
    record = json.loads(shell.up("-o", "json"))
    assert (record["name"], record["dataDir"]) == ("kubeloop", str(shell.folder / "kubeloop" / "clusters" / "kubeloop"))
    assert "is ready at" in Path(record["log"]).read_text()
    assert set(components_of(record["kubeconfig"]).values()) == {
        "Healthy"
    }  # they have no ports, and are asked directly
    assert shell.run("status", "-o", "name") == "kubeloop\n"
    assert shell.run("delete") == "cluster 'kubeloop' deleted\n"
    assert shell.clusters() == {}
    assert [path.name for path in shell.folder.rglob("*") if path.is_file()] == []


def test_ephemeral_cluster_leaves_nothing_behind(shell: Shell) -> None:
    config = shell.folder / "config"
    shell.up("--ephemeral", "--kubeconfig", str(config))
    assert contexts(config) == (["kubeloop"], "kubeloop")
    shell.run("stop")
    assert [path.name for path in shell.folder.rglob("*") if path.is_file()] == []


def test_contexts_are_named_after_clusters_and_the_current_one_stays(shell: Shell) -> None:
    config = shell.folder / "config"
    for name in ("a", "b"):
        shell.up("--name", name, "--kubeconfig", str(config))
    assert contexts(config) == (["a", "b"], "a")
    shell.run("stop", "b")
    shell.up("--name", "b", "--kubeconfig", str(config), "--switch-context")
    assert contexts(config) == (["a", "b"], "b")
    assert yaml.safe_load(shell.run("delete", "b", "-o", "yaml"))["results"][0]["result"] == "deleted"
    assert contexts(config) == (["a"], "")
    assert "which cluster" not in shell.run("stop")  # the only one that is left


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def test_second_cluster_names_the_ports_that_are_taken_and_is_found_by_its_own(shell: Shell) -> None:
    manager, scheduler = free_port(), free_port()
    ports = ("--controller-manager-port", manager, "--scheduler-port", scheduler)
    for name in ("a", "b"):
        shell.up("--name", name, *ports)
    found = shell.clusters()
    own = {name: {one["name"]: one["port"] for one in found[name]["components"]} for name in found}
    assert (own["a"]["controller-manager"], own["a"]["scheduler"]) == (int(manager), int(scheduler))
    assert not set(own["a"].values()) & set(own["b"].values())
    assert all(one["healthy"] for name in found for one in found[name]["components"])
    assert found["b"]["controllers"] == found["b"]["healthyControllers"] > 0
    log = Path(found["b"]["log"]).read_text()
    for component, taken in (("controller-manager", manager), ("scheduler", scheduler)):
        line = next(line for line in log.splitlines() if f"127.0.0.1:{own['b'][component]}" in line)
        assert f"127.0.0.1:{taken}" in line
        assert "address already in use" in line.lower()
    for name in found:
        assert components_of(found[name]["kubeconfig"]) == {
            "controller-manager": "Healthy",
            "etcd-0": "Healthy",
            "scheduler": "Healthy",
        }


def components_of(kubeconfig: str) -> dict[str, str]:
    """Return what `kubectl get componentstatuses` shows."""
    skip_without_kubectl()
    command = ["kubectl", "--kubeconfig", kubeconfig, "get", "componentstatuses", "--no-headers"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, check=True)
    return {name: status for name, status, *_ in map(str.split, done.stdout.splitlines())}


def test_failed_start_in_the_background_shows_why(shell: Shell) -> None:
    said = shell.up("--kubelet-port", "1", "--node-stages", "/nonexistent", code=1)
    assert "did not start" in said
    assert "/nonexistent" in said
