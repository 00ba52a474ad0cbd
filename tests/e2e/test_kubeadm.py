# SPDX-License-Identifier: Apache-2.0
"""Tests of a control plane that kubeadm set up, with our programs in the place of upstream's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kubeloop.chaos.plane import etcd_program, free_ports
from tests.e2e.kubeadm import COMMANDS, KubeadmFolder
from tests.e2e.kubectl import Kubectl
from tests.e2e.plane import eventually
from tests.e2e.test_separate_components import Component
from tests.skips import needs_kubectl

pytestmark = needs_kubectl(1, 31)
_NODE = """
apiVersion: v1
kind: Node
metadata:
  name: worker
"""
_READY = {
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
    }
}


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory, kubectl_home: Path) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("kubeadm")
    names = ("etcd", "peer", "metrics", "apiserver", "controller-manager", "scheduler")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    etc = folder / "etc"
    KubeadmFolder(etc, ports["apiserver"])
    commands = {program: command.format(etc=etc, var=folder, **ports).split() for program, command in COMMANDS.items()}
    with ExitStack() as running:
        etcd = subprocess.Popen(
            [etcd_program(), *commands.pop("etcd"), "--unsafe-no-fsync", "--log-level=error"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        running.callback(etcd.wait)
        running.callback(etcd.kill)
        for program, command in commands.items():
            # kubeadm leaves the ports of these two at their defaults.
            port = [] if program == "apiserver" else [f"--secure-port={ports[program]}"]
            component = Component(folder / program, program, *command, *port)
            running.callback(component.stop)
            component.ready()
        yield Kubectl(etc / "super-admin.conf", "default", kubectl_home)


def test_a_deployment_is_scheduled_to_a_node(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=_NODE)
    kubectl("patch", "node", "worker", "--subresource=status", "--type=merge", "-p", json.dumps(_READY))
    # As `kubeadm init` does with super-admin.conf, so that admin.conf has permissions.
    kubectl("create", "clusterrolebinding", "admins", "--clusterrole=cluster-admin", "--group=kubeadm:cluster-admins")
    admin = Kubectl(kubectl.kubeconfig.with_name("admin.conf"), "default", kubectl.home)
    eventually(lambda: admin.run("auth", "can-i", "create", "deployments").code == 0)
    admin("create", "deployment", "web", "--image=nginx", "--replicas=3")
    eventually(lambda: _nodes_of_pods(admin) == ["worker"] * 3)


def _nodes_of_pods(kubectl: Kubectl) -> list[str]:
    """Return the node of each pod."""
    listed = json.loads(kubectl("get", "pods", "-l", "app=web", "-o", "json"))
    return [pod["spec"].get("nodeName", "") for pod in listed["items"]]


def test_nodes_get_addresses_for_pods_and_accounts_get_tokens(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=_NODE)
    eventually(lambda: kubectl("get", "node", "worker", "-o", "jsonpath={.spec.podCIDR}") == "10.244.0.0/24")
    eventually(lambda: kubectl.run("create", "token", "default").code == 0)


@pytest.mark.parametrize("lease", ["kube-controller-manager", "kube-scheduler"])
def test_leaders_are_elected(kubectl: Kubectl, lease: str) -> None:
    path = "jsonpath={.spec.holderIdentity}"
    assert eventually(lambda: kubectl("get", "lease", lease, "-n", "kube-system", "-o", path))
