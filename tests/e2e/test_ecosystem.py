# SPDX-License-Identifier: Apache-2.0
"""kubectl and kopf on kinds in the shape of those that clusters in the wild have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.kopf_operator import run_operator
from tests.e2e.kubectl import Kubectl
from tests.e2e.plane import Plane, eventually
from tests.ecosystem.definitions import FILES, FOLDER, definitions, samples

OPERATOR = Path(__file__).with_name("errand_operator.py")
ERRANDS = "/apis/errands.example.org/v1/namespaces/{}/errands"


@pytest.fixture(scope="module")
def kinds(plane: Plane) -> Iterator[None]:
    for one in definitions():
        plane.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", one)
    yield
    for one in definitions():
        plane.call("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{one['metadata']['name']}")


def test_reapplied_definitions_have_no_diff(kubectl: Kubectl, kinds: None) -> None:
    files = [argument for name in FILES for argument in ("-f", str(FOLDER / f"{name}.yaml"))]
    first = kubectl("apply", "--server-side", *files)
    assert first.count("serverside-applied") == len(definitions())
    assert kubectl.run("diff", "--server-side", *files).code == 0


def test_kubectl_applies_shows_and_compares_objects_of_all_kinds(kubectl: Kubectl, kinds: None) -> None:
    text = (FOLDER / "samples.yaml").read_text()
    assert kubectl("apply", "-f", "-", stdin=text).count(" created") == len(samples())
    assert kubectl.run("diff", "-f", "-", stdin=text).code == 0
    shown = kubectl("get", "gt,towers,tides.tides.example.org,sealing")
    for row in ("main", "iron", "north", "queue", "workers", "front", "house"):
        assert row in shown
    changed = samples()["Gate"]
    changed["spec"]["doors"][0]["port"] = 8080
    differing = kubectl.run("diff", "-f", "-", stdin=yaml.safe_dump(changed))
    assert differing.code == 1
    assert "+  - allowed:" not in differing.out
    assert "port: 8080" in differing.out
    kubectl("delete", "-f", "-", stdin=text)


def test_kubectl_explains_the_deep_fields(kubectl: Kubectl, kinds: None) -> None:
    said = kubectl("explain", "gates.spec.doors.lock.mode")
    assert "<string>" in said
    assert "Terminate" in said
    deep = kubectl("explain", "towers.spec.containers.env.valueFrom.secretKeyRef", "--recursive")
    assert "optional" in deep
    old = kubectl("explain", "gates", "--api-version=gates.example.org/v1alpha2")
    assert "VERSION:    v1alpha2" in old


@pytest.fixture
def operator(plane: Plane, namespace: str, kinds: None, tmp_path: Path) -> Iterator[Path]:
    """The operator in its own process, and its log."""
    with run_operator(OPERATOR, plane, namespace, tmp_path) as log:
        yield log


def test_an_operator_runs_an_errand_step_by_step(plane: Plane, namespace: str, operator: Path) -> None:
    path = ERRANDS.format(namespace)
    plane.create(path, samples()["Errand"])
    eventually(lambda: plane.get(f"{path}/shopping").get("status", {}).get("phase") == "Succeeded")
    status = plane.get(f"{path}/shopping")["status"]
    assert status["done"] == 3
    assert [status["nodes"][name]["phase"] for name in ("go", "buy", "return")] == ["Succeeded"] * 3
