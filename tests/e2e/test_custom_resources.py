# SPDX-License-Identifier: Apache-2.0
"""Custom resources from the outside: kubectl and kopf take them for any other kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kopf_operator import run_operator
from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.plane import Plane, eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "gardens.gardening.example.com"
OPERATOR = Path(__file__).with_name("garden_operator.py")
MERGE = {"Content_Type": "application/merge-patch+json"}

STRING = {"type": "string"}
BED = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "plants": {"type": "integer", "minimum": 0, "default": 3},
        "soil": {"type": "string", "enum": ["clay", "loam", "sand"]},
    },
}
SPEC = {
    "type": "object",
    "description": "What shall grow.",
    "properties": {
        "beds": {
            "type": "array",
            "description": "Where it grows.",
            "items": BED,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "frozen": {"type": "boolean"},
        "size": {"type": "integer", "default": 1},
        # What OpenAPI v2 cannot describe, so that kubectl must accept anything there.
        "notes": {"type": "object", "nullable": True, "properties": {"a": {"type": "string"}}},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": STRING}},
        "gate": {"x-kubernetes-int-or-string": True},
    },
}
STATUS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}}
COLUMNS = [
    {"name": "Growing", "type": "integer", "jsonPath": ".status.growing"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": "gardening.example.com",
        "scope": "Namespaced",
        "names": {"plural": "gardens", "kind": "Garden", "shortNames": ["gd"], "categories": ["all"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": SCHEMA,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "additionalPrinterColumns": COLUMNS,
            },
            {"name": "v1beta1", "served": True, "storage": False, "deprecated": True, "schema": SCHEMA},
        ],
    },
}


def garden(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "gardening.example.com/v1", "kind": "Garden", "metadata": {"name": name}, "spec": spec}


def beds(**plants: int) -> list[dict[str, Any]]:
    return [{"name": name, "plants": count} for name, count in plants.items()]


@pytest.fixture
def gardens(plane: Plane, namespace: str) -> Iterator[str]:
    """Return the path of gardens; their definition is deleted after the test."""
    plane.create(DEFINITIONS, DEFINITION)
    yield f"/apis/gardening.example.com/v1/namespaces/{namespace}/gardens"
    plane.call("DELETE", f"{DEFINITIONS}/{NAME}")
    eventually(lambda: plane.call("GET", f"{DEFINITIONS}/{NAME}").status == 404)


def test_kubectl_installs_and_uses_a_definition(kubectl: Kubectl, plane: Plane) -> None:
    kubectl.apply(DEFINITION)
    try:
        kubectl.apply(garden("mine", beds=beds(roses=2)))
        kubectl("wait", "--for=condition=established", f"crd/{NAME}", WAIT)
        assert "mine" in kubectl("get", "gd")
        assert "garden.gardening.example.com/mine" in kubectl("get", "all")
    finally:
        kubectl("delete", "crd", NAME, WAIT)
    assert "NotFound" in kubectl.fails("get", "crd", NAME)


def test_kubectl_explains_a_custom_resource(kubectl: Kubectl, gardens: str) -> None:
    explained = kubectl("explain", "garden.spec.beds")
    assert "Where it grows." in explained
    assert "-required-" in explained
    assert "plants" in explained


def test_kubectl_applies_shows_differences_and_describes(kubectl: Kubectl, gardens: str) -> None:
    kubectl.apply(garden("mine", beds=beds(roses=2)))
    changed = garden("mine", beds=beds(roses=2, herbs=5))
    shown = kubectl.run("diff", "-f", "-", stdin=_yaml(changed))
    assert shown.code == 1
    assert "+  - name: herbs" in shown.out
    assert "configured" in kubectl.apply(changed)
    assert "unchanged" in kubectl.apply(changed)
    assert "Herbs" in kubectl("describe", "gd", "mine").title()


def test_kubectl_validates_a_list_of_custom_objects_itself(kubectl: Kubectl, gardens: str) -> None:
    free = [{"notes": None, "extra": {"b": {"c": 1}}, "gate": 80}, {"notes": {"a": "x"}, "extra": {}, "gate": "80%"}]
    items = [garden(f"g{number}", **spec) for number, spec in enumerate(free)]
    said = kubectl.apply({"apiVersion": "v1", "kind": "List", "items": items})
    assert said.count("created") == len(items)
    wrong = {"apiVersion": "v1", "kind": "List", "items": [garden("bad", colour="red")]}
    assert 'unknown field "colour"' in kubectl.fails("apply", "-f", "-", stdin=_yaml(wrong))


def test_kubectl_reports_validation_errors(kubectl: Kubectl, gardens: str) -> None:
    unknown = kubectl.fails("apply", "-f", "-", stdin=_yaml(garden("bad", colour="red")))
    assert 'unknown field "spec.colour"' in unknown
    invalid = kubectl.fails("apply", "-f", "-", stdin=_yaml(garden("bad", beds=[{"name": "a", "soil": "moon"}])))
    assert 'spec.beds[0].soil: Unsupported value: "moon": supported values: "clay", "loam", "sand"' in invalid


def test_kubectl_server_side_apply_respects_other_managers(kubectl: Kubectl, gardens: str) -> None:
    def applied(manager: str, **plants: int) -> str:
        return kubectl(
            "apply",
            "--server-side",
            f"--field-manager={manager}",
            "-f",
            "-",
            stdin=_yaml(garden("mine", beds=beds(**plants))),
        )

    applied("one", roses=2)
    applied("two", herbs=5)
    found = kubectl.json("get", "gd", "mine")["spec"]["beds"]
    assert {bed["name"]: bed["plants"] for bed in found} == {"roses": 2, "herbs": 5}


def test_kubectl_scales_patches_and_warns(kubectl: Kubectl, gardens: str) -> None:
    kubectl.apply(garden("mine"))
    kubectl("scale", "gd/mine", "--replicas=4")
    assert kubectl.json("get", "gd", "mine")["spec"]["size"] == 4
    kubectl("patch", "gd", "mine", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Up"}}')
    assert "Up" in kubectl("get", "gd", "mine")
    old = kubectl.run("get", "gardens.v1beta1.gardening.example.com", "mine")
    assert "gardening.example.com/v1beta1 Garden is deprecated" in old.err


@pytest.fixture
def operator(plane: Plane, gardens: str, namespace: str, tmp_path: Path) -> Iterator[Path]:
    """The operator in its own process, and its log."""
    with run_operator(OPERATOR, plane, namespace, tmp_path) as log:
        yield log


def test_operator_reconciles_its_custom_resource(plane: Plane, gardens: str, operator: Path) -> None:
    def growing() -> Any:
        return plane.get(f"{gardens}/mine").get("status", {}).get("growing")

    plane.create(gardens, garden("mine", beds=[{"name": "roses"}], frozen=True))
    eventually(lambda: growing() == 3)
    plane.call("PATCH", f"{gardens}/mine", {"spec": {"beds": beds(roses=2, herbs=5)}}, **MERGE)
    eventually(lambda: growing() == 7)

    assert plane.call("DELETE", f"{gardens}/mine").status == 200
    eventually(lambda: "the ground is frozen" in operator.read_text())
    plane.call("PATCH", f"{gardens}/mine", {"spec": {"frozen": False}}, **MERGE)
    eventually(lambda: plane.call("GET", f"{gardens}/mine").status == 404)
    assert "Traceback" not in operator.read_text()


def test_custom_resources_survive_a_restart(make_plane: Callable[..., Plane]) -> None:
    plane = make_plane()
    plane.start()
    gardens = "/apis/gardening.example.com/v1/namespaces/default/gardens"
    plane.create(DEFINITIONS, DEFINITION)
    plane.create(gardens, garden("mine", beds=beds(roses=2)))
    plane.stop()
    plane.start()
    assert plane.get(f"{gardens}/mine")["spec"] == {"beds": beds(roses=2), "size": 1}
    plane.create(gardens, garden("second"))
    assert [item["metadata"]["name"] for item in plane.get(gardens)["items"]] == ["mine", "second"]


def _yaml(document: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(document)
