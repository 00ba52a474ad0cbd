# SPDX-License-Identifier: Apache-2.0
"""Tests of kopf, an operator framework with its own client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kopf_operator import run_operator
from tests.e2e.plane import Plane, config_map, eventually
from tests.e2e.workloads import deployment

OPERATOR = Path(__file__).with_name("config_map_operator.py")


@pytest.fixture
def operator(plane: Plane, namespace: str, tmp_path: Path) -> Iterator[Path]:
    """The operator in its own process, and its log."""
    with run_operator(OPERATOR, plane, namespace, tmp_path) as log:
        yield log


def operated(document: dict[str, Any]) -> dict[str, Any]:
    document["metadata"]["labels"] = {**document["metadata"].get("labels", {}), "operated": "yes"}
    return document


def test_operator_watches_patches_and_uses_finalizers(plane: Plane, namespace: str, operator: Path) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    def found() -> Any:
        return plane.get(f"{path}/one")

    def notes() -> dict[str, str]:
        return dict(found()["metadata"].get("annotations", {}))

    plane.create(path, operated(config_map("one", colour="blue", hold="yes")))
    eventually(lambda: notes().get("example.com/created") == "blue")
    assert found()["metadata"]["finalizers"] == ["example.com/operator"]

    merge = {"Content_Type": "application/merge-patch+json"}
    plane.call("PATCH", f"{path}/one", {"data": {"colour": "green"}}, **merge)
    eventually(lambda: notes().get("example.com/updated") == "blue to green")

    assert plane.call("DELETE", f"{path}/one").status == 200
    eventually(lambda: "still held" in operator.read_text())
    assert found()["metadata"]["deletionTimestamp"], "the deletion waits for the operator"
    plane.call("PATCH", f"{path}/one", {"data": {"hold": "no"}}, **merge)
    eventually(lambda: plane.call("GET", f"{path}/one").status == 404)


def test_an_operator_changes_a_deployment_and_posts_events(plane: Plane, namespace: str, operator: Path) -> None:
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    plane.create(deployments, operated(deployment("web")))
    eventually(lambda: plane.get(f"{deployments}/web")["spec"]["replicas"] == 7)
    plane.create(f"/api/v1/namespaces/{namespace}/configmaps", operated(config_map("one", colour="blue")))

    def reasons() -> set[str]:
        return {item["reason"] for item in plane.get(f"/api/v1/namespaces/{namespace}/events")["items"]}

    eventually(lambda: "Seen" in reasons())
    assert "Traceback" not in operator.read_text()
