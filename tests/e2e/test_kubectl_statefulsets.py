# SPDX-License-Identifier: Apache-2.0
"""Stateful and daemon sets through kubectl, on the real program with simulated nodes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import make_namespace
from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.plane import Plane, eventually
from tests.skips import needs_kubectl

NODES = 2

_numbers = itertools.count(1)

pytestmark = needs_kubectl()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane with nodes; a test keeps to its own namespace."""
    plane = Plane(tmp_path_factory.mktemp("nodes"), "--ephemeral", "--nodes", str(NODES))
    try:
        plane.start()
        yield plane
    finally:
        plane.close()


@pytest.fixture
def kubectl(nodes: Plane, kubectl_home: Path) -> Kubectl:
    return Kubectl(nodes.kubeconfig, make_namespace(nodes, f"stateful-{next(_numbers)}"), kubectl_home)


def manifest(kind: str, **spec: Any) -> str:
    labels = {"app": "web"}
    pod = {"containers": [{"name": "c", "image": "nginx:1"}], "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": labels}, "spec": pod}
    body = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return json.dumps({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": body})


def images(kubectl: Kubectl) -> list[str]:
    found = kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}")
    return sorted(found.split())


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("StatefulSet", "partitioned roll out complete: 2 new pods have been updated..."),
        ("DaemonSet", 'daemon set "web" successfully rolled out'),
    ],
)
def test_rollout_status_history_and_undo(kubectl: Kubectl, kind: str, said: str) -> None:
    spec: dict[str, Any] = {"replicas": 2, "serviceName": "web"} if kind == "StatefulSet" else {}
    what = f"{kind.lower()}/web"
    kubectl("create", "-f", "-", stdin=manifest(kind, **spec))
    kubectl("rollout", "status", what, WAIT)
    kubectl("set", "image", what, "c=nginx:2")
    kubectl("annotate", what, "kubernetes.io/change-cause=second")
    assert said in kubectl("rollout", "status", what, WAIT)
    assert images(kubectl) == ["nginx:2"] * 2
    history = kubectl("rollout", "history", what)
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    assert "nginx:1" in kubectl("rollout", "history", what, "--revision=1")
    assert "rolled back" in kubectl("rollout", "undo", what)
    kubectl("rollout", "status", what, WAIT)
    assert eventually(lambda: images(kubectl) == ["nginx:1"] * 2)
    history = kubectl("rollout", "history", what)
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["2", "3"]


@pytest.mark.parametrize(("kind", "spec"), [("StatefulSet", {"replicas": 2, "serviceName": "web"}), ("DaemonSet", {})])
def test_restart_replaces_every_pod(kubectl: Kubectl, kind: str, spec: dict[str, Any]) -> None:
    what = f"{kind.lower()}/web"
    kubectl("create", "-f", "-", stdin=manifest(kind, **spec))
    kubectl("rollout", "status", what, WAIT)
    before = kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}").split()
    kubectl("rollout", "restart", what)
    kubectl("rollout", "status", what, WAIT)
    after = kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}").split()
    assert len(after) == 2
    assert not set(before) & set(after)


def test_stateful_set_is_scaled_and_its_pods_keep_their_names(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=manifest("StatefulSet", replicas=1, serviceName="web"))
    kubectl("scale", "statefulset/web", "--replicas=3")
    kubectl("rollout", "status", "statefulset/web", WAIT)
    assert kubectl("get", "pods", "-o", "name").split() == ["pod/web-0", "pod/web-1", "pod/web-2"]
    assert kubectl("get", "statefulset", "web", "--no-headers").split()[:2] == ["web", "3/3"]
    kubectl("delete", "pod", "web-1")
    assert eventually(lambda: kubectl("get", "sts", "web", "--no-headers").split()[1] == "3/3")
    kubectl("scale", "statefulset/web", "--replicas=0")
    assert eventually(lambda: kubectl("get", "pods", "-o", "name") == "")


def test_daemon_set_leaves_a_node_that_no_longer_matches(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=manifest("DaemonSet"))
    kubectl("rollout", "status", "ds/web", WAIT)
    assert kubectl("get", "ds", "web", "--no-headers").split()[:6] == ["web", "2", "2", "2", "2", "2"]
    kubectl("patch", "ds", "web", "-p", '{"spec":{"template":{"spec":{"nodeSelector":{"only":"here"}}}}}')
    assert eventually(lambda: kubectl("get", "pods", "-o", "name") == "")
    kubectl("label", "node", "n1", "only=here")
    try:
        assert eventually(lambda: kubectl("get", "ds", "web", "--no-headers").split()[1:6] == ["1"] * 5)
    finally:
        kubectl("label", "node", "n1", "only-")


def test_orphaned_pods_are_adopted_by_a_recreated_set(kubectl: Kubectl) -> None:
    text = manifest("StatefulSet", replicas=1, serviceName="web")
    kubectl("create", "-f", "-", stdin=text)
    kubectl("rollout", "status", "statefulset/web", WAIT)
    uid = kubectl("get", "pod", "web-0", "-o", "jsonpath={.metadata.uid}")
    kubectl("delete", "statefulset", "web", "--cascade=orphan")
    kubectl("create", "-f", "-", stdin=text)
    kubectl("rollout", "status", "statefulset/web", WAIT)
    assert kubectl("get", "pod", "web-0", "-o", "jsonpath={.metadata.uid}") == uid
