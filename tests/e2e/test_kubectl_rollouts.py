# SPDX-License-Identifier: Apache-2.0
"""Deployments and autoscalers through kubectl, on the real program with simulated nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import make_namespace
from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.plane import Plane, eventually
from tests.skips import needs_kubectl

_numbers = itertools.count(1)

pytestmark = needs_kubectl()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane with nodes; a test keeps to its own namespace."""
    plane = Plane(tmp_path_factory.mktemp("nodes"), "--ephemeral", "--nodes", "3")
    try:
        plane.start()
        yield plane
    finally:
        plane.close()


@pytest.fixture
def kubectl(nodes: Plane, kubectl_home: Path) -> Kubectl:
    return Kubectl(nodes.kubeconfig, make_namespace(nodes, f"rollouts-{next(_numbers)}"), kubectl_home)


@pytest.fixture
def web(kubectl: Kubectl) -> Kubectl:
    """A deployment of three pods, rolled out."""
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=3")
    followed(kubectl)
    return kubectl


def followed(kubectl: Kubectl) -> str:
    return kubectl("rollout", "status", "deployment/web", WAIT)


def field(kubectl: Kubectl, path: str, what: str = "deployment/web") -> str:
    return kubectl("get", what, "-o", f"jsonpath={{{path}}}")


def images(kubectl: Kubectl) -> list[str]:
    """Return pods that are not terminating."""
    rows = kubectl(
        "get", "pods", "--no-headers", "-o=custom-columns=I:.spec.containers[0].image,D:.metadata.deletionTimestamp"
    )
    return sorted(row.split()[0] for row in rows.splitlines() if row.split()[1] == "<none>")


def revisions(kubectl: Kubectl) -> list[str]:
    rows = kubectl("rollout", "history", "deployment/web").splitlines()
    return [row.split()[0] for row in rows[2:] if row]


def test_image_is_rolled_out_and_back(web: Kubectl) -> None:
    web("set", "image", "deployment/web", "nginx=nginx:2")
    web("annotate", "deployment/web", "kubernetes.io/change-cause=second")
    assert 'deployment "web" successfully rolled out' in followed(web)
    assert images(web) == ["nginx:2"] * 3
    assert revisions(web) == ["1", "2"]
    assert "second" in web("rollout", "history", "deployment/web")
    assert "nginx:1" in web("rollout", "history", "deployment/web", "--revision=1")
    assert "rolled back" in web("rollout", "undo", "deployment/web")
    followed(web)
    assert images(web) == ["nginx:1"] * 3
    assert revisions(web) == ["2", "3"]
    web("rollout", "undo", "deployment/web", "--to-revision=2")
    followed(web)
    assert images(web) == ["nginx:2"] * 3
    assert revisions(web) == ["3", "4"]


def test_restart_replaces_all_pods(web: Kubectl) -> None:
    before = set(field(web, ".items[*].metadata.uid", "pods").split())
    web("rollout", "restart", "deployment/web")
    followed(web)
    gone = eventually(lambda: not before.intersection(field(web, ".items[*].metadata.uid", "pods").split()))
    assert gone


def test_paused_rollout_waits_for_resume(web: Kubectl) -> None:
    web("rollout", "pause", "deployment/web")
    web("set", "image", "deployment/web", "nginx=nginx:2")
    paused = '.status.conditions[?(@.type=="Progressing")].reason'
    assert eventually(lambda: field(web, paused) == "DeploymentPaused")
    assert images(web) == ["nginx:1"] * 3
    web("rollout", "resume", "deployment/web")
    followed(web)
    assert images(web) == ["nginx:2"] * 3


def test_scale_changes_replicas(web: Kubectl) -> None:
    web("scale", "deployment/web", "--replicas=5")
    followed(web)
    assert field(web, ".status.availableReplicas") == "5"
    web("scale", "deployment/web", "--replicas=0")
    assert eventually(lambda: images(web) == [])


def test_wait_supports_conditions(web: Kubectl) -> None:
    assert "condition met" in web("wait", "--for=condition=Available", "deployment/web", WAIT)
    described = web("describe", "deployment/web")
    assert "NewReplicaSet:   web-" in described
    assert "ScalingReplicaSet" in described
    assert "(3/3 replicas created)" in described


def test_stuck_rollout_ends_the_wait(web: Kubectl) -> None:
    deadline = '{"spec":{"progressDeadlineSeconds":2,"template":{"spec":{"nodeSelector":{"no":"such"}}}}}'
    web("patch", "deployment/web", "-p", deadline)
    ended = web.run("rollout", "status", "deployment/web", WAIT)
    assert ended.code != 0
    assert 'deployment "web" exceeded its progress deadline' in ended.err
    assert images(web).count("nginx:1") == 4


def test_autoscaler_respects_its_bounds(web: Kubectl) -> None:
    web("autoscale", "deployment/web", "--min=4", "--max=6")
    assert eventually(lambda: field(web, ".status.availableReplicas") == "4")
    assert "SuccessfulRescale" in web("describe", "hpa/web")


def test_autoscaler_follows_node_metrics(web: Kubectl) -> None:
    target = {"type": "AverageValue", "averageValue": "1"}  # byte, which every pod exceeds
    web.apply(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 5,
                "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": target}}],
            },
        }
    )
    assert eventually(lambda: field(web, ".status.availableReplicas") == "5")
    assert "memory resource above target" in web("describe", "hpa/web")


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_deletion_follows_the_propagation_policy(web: Kubectl, cascade: str) -> None:
    web("delete", "deployment/web", f"--cascade={cascade}")
    if cascade == "orphan":
        assert len(web("get", "rs", "-o", "name").split()) == 1
        assert images(web) == ["nginx:1"] * 3
    else:
        assert eventually(lambda: not web("get", "rs,pods", "-o", "name").split())
