# SPDX-License-Identifier: Apache-2.0
"""Tests of rollouts and scaling by a controller manager whose controllers use their own accounts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import MakePlane
from tests.e2e.manager_process import ManagerProcess
from tests.e2e.plane import Plane, eventually

DEPLOYMENT = "/apis/apps/v1/namespaces/a/deployments/web"
PODS = "/api/v1/namespaces/a/pods"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
def server(make_plane: MakePlane, tmp_path: Path) -> Iterator[Plane]:
    flags = ("--store", "memory", "--bind-address", "127.0.0.1", "--cert-dir", str(tmp_path / "pki"))
    one = make_plane(*flags, command="apiserver")
    one.start()
    manager = ManagerProcess(one, tmp_path / "manager", "--use-service-account-credentials")
    try:
        manager.start()
        yield one
        failed = [loop for loop in manager.get("/loops").json["loops"] if loop["errors"]]
        assert failed == []
    finally:
        manager.close()


def workload(image: str) -> dict[str, Any]:
    labels = {"app": "web"}
    containers = [{"name": "c", "image": image}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def make_ready(server: Plane) -> None:
    """Set a pod status like a node."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for pod in server.get(PODS)["items"]:
        if pod["status"].get("phase") != "Running":
            server.call("PATCH", f"{PODS}/{pod['metadata']['name']}/status", {"status": status}, **MERGE)


def is_rolled_out(server: Plane, revision: str, replicas: int) -> bool:
    make_ready(server)
    found = server.get(DEPLOYMENT)
    status = found["status"]
    seen = (status.get("updatedReplicas"), status.get("availableReplicas"), status.get("replicas"))
    return (
        seen == (replicas,) * 3
        and found["metadata"].get("annotations", {}).get("deployment.kubernetes.io/revision") == revision
        and status["observedGeneration"] == found["metadata"]["generation"]
    )


def test_deployment_is_rolled_out_updated_and_autoscaled(server: Plane) -> None:
    server.create("/api/v1/namespaces", {"metadata": {"name": "a"}})
    eventually(lambda: server.call("GET", "/api/v1/namespaces/a/serviceaccounts/default").status == 200)
    server.create("/apis/apps/v1/namespaces/a/deployments", workload("one"))
    eventually(lambda: is_rolled_out(server, "1", 2))
    server.call("PATCH", DEPLOYMENT, {"spec": {"template": workload("two")["spec"]["template"]}}, **MERGE)
    eventually(lambda: is_rolled_out(server, "2", 2))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    bounds = {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5}
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}
    server.create("/apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers", {**scaler, "spec": bounds})
    eventually(lambda: is_rolled_out(server, "2", 3))
