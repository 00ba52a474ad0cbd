# SPDX-License-Identifier: Apache-2.0
"""Tests of `kubeloop up --runtime`: this host as a real node, beside simulated ones."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.realnode.containerd import Containerd
from tests.realnode.images import BUSYBOX
from tests.realnode.node import RealNode
from tests.realnode.test_pods import pod, serve

pytestmark = pytest.mark.realnode
NAME = "host"
HOST_NETWORK = ("--node-network", "none")
ON_HOST = {"nodeSelector": {"kubernetes.io/hostname": NAME}}


@pytest.fixture
def host(own_containerd: Containerd) -> Iterator[RealNode]:
    folder = own_containerd.folder / "node"
    folder.mkdir()
    node = RealNode(own_containerd, folder)
    yield node
    node.run_program("stop", "--all")


def up(node: RealNode, *flags: str) -> subprocess.CompletedProcess[str]:
    """Start a cluster in the background."""
    kubelet = (
        *("hostname-override=host", f"cgroup-root={node.cgroup_root}"),
        *("eviction-hard=memory.available<1Mi", "image-gc-high-threshold=100"),
    )
    ports = ("--controller-manager-port", "0", "--scheduler-port", "0", "--port", "0")
    arguments = (one for flag in kubelet for one in ("--kubelet-arg", flag))
    files = ("--name", "c", "--detach", "--kubeconfig", str(node.kubeconfig))
    return node.run_program("up", *files, *ports, "--cloud-provider", "none", *arguments, *flags)


def deployment(name: str) -> dict[str, Any]:
    template = pod(name, serve(), **ON_HOST)
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def test_host_is_a_node_beside_simulated_ones(host: RealNode) -> None:
    started = up(host, "--runtime", host.runtime.endpoint, *HOST_NETWORK, "--nodes", "2")
    assert started.returncode == 0, started.stderr
    nodes = host.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert sorted(nodes) == [NAME, "n1", "n2"]
    host.apply(deployment("web"))
    host.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert host.kubectl("exec", "deploy/web", "--", "cat", "/data/page") == "hi\n"
    assert host.kubectl("logs", "deploy/web") == ""
    assert forwarded_page(host, "deploy/web") == "hi\n"
    shown = json.loads(host.run_program("status", "c", "-o", "json").stdout)["clusters"][0]
    assert shown["realNode"]["name"] == NAME
    assert shown["realNode"]["runtime"].startswith("containerd://")
    assert shown["realNode"]["ready"] is True
    requests = host.kubectl("get", "csr", "-o", "jsonpath={.items[*].spec.signerName}")
    assert requests == "kubernetes.io/kube-apiserver-client-kubelet"  # it has a node's rights only
    containers_run_on_after_stop(host)
    removed = host.run_program("delete", "c")
    assert removed.returncode == 0, removed.stderr
    assert host.runtime.list_containers() == []
    assert mounts_below(host.folder) == []


def containers_run_on_after_stop(host: RealNode) -> None:
    """Stop the cluster and start it again: the same containers run."""
    status = ".items[*].status.containerStatuses[0]"
    path = f"jsonpath={{{status}.containerID}} {{{status}.restartCount}}"
    before, running = host.kubectl("get", "pods", "-l", "app=web", "-o", path), host.runtime.list_containers()
    assert host.run_program("stop", "c").returncode == 0
    refused = up(host, "--runtime", host.runtime.endpoint, *HOST_NETWORK, "--data-dir", str(host.folder / "other"))
    assert refused.returncode != 0
    assert "has pods of another cluster (default/web-" in refused.stderr
    assert host.runtime.list_containers() == running
    again = up(host, "--runtime", host.runtime.endpoint, *HOST_NETWORK, "--nodes", "2")
    assert again.returncode == 0, again.stderr
    host.kubectl("run", "after", f"--image={BUSYBOX}", "--overrides", json.dumps({"spec": ON_HOST}), "--", "sleep", "9")
    host.wait_ready("after")
    assert host.kubectl("get", "pods", "-l", "app=web", "-o", path) == before


def test_ephemeral_cluster_removes_its_containers(host: RealNode) -> None:
    started = up(host, "--runtime", host.runtime.endpoint, *HOST_NETWORK, "--ephemeral")
    assert started.returncode == 0, started.stderr
    assert host.kubectl("get", "nodes", "-o", "name") == f"node/{NAME}\n"  # instead of simulated nodes
    host.apply(pod("web", serve()))
    host.wait_ready("web")
    assert host.run_program("stop", "c").returncode == 0
    assert host.runtime.list_containers() == []


def forwarded_page(node: RealNode, target: str) -> str:
    forward = ("kubectl", "--kubeconfig", str(node.kubeconfig), "port-forward", target, ":8080")
    with subprocess.Popen(node.runtime.enter(*forward), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().split(":")[1].split()[0]
        command = node.runtime.enter("/bin/busybox", "wget", "-qO-", f"http://127.0.0.1:{port}/page")
        page = subprocess.run(command, capture_output=True, text=True).stdout
        process.terminate()
    return page


def mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if f"{folder}/" in line.split()[1]]
