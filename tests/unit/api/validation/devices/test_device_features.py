# SPDX-License-Identifier: Apache-2.0
"""Rules of device features behind gates: derived attributes of claims, compatibility groups of slices."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.features.gates import parse_feature_gates
from tests.unit.api.validation.manifests import create_problems

DERIVED = "DRADerivedAttributes=true"
LISTS = f"{DERIVED},DRAListTypeAttributes=true"
NAME = "gpu.example.com/zone"
AT = "spec.devices.requests[0].exactly.derivedAttributes"
UNUSED = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"


def claim(*derived: dict[str, str], **constraint: Any) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": "c", "derivedAttributes": list(derived)}}
    other = {"name": "other", "exactly": {"deviceClassName": "c"}}
    return {
        "spec": {
            "devices": {
                "requests": [request, other],
                "constraints": [{"matchAttribute": NAME, **constraint}],
            }
        }
    }


def problems(manifest: dict[str, Any], gates: str = DERIVED) -> list[str]:
    return create_problems("resourceclaims.resource.k8s.io", manifest, parse_feature_gates([gates]))


@pytest.mark.parametrize(
    "expression", ["1", "'a'", "true", "semver('1.0.0')", 'device.attributes["gpu.example.com"].index']
)
def test_a_derived_attribute_is_a_scalar(expression: str) -> None:
    assert problems(claim({"name": NAME, "expression": expression})) == []


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        ({"name": "", "expression": "1"}, f"{AT}[0].name: Required value"),
        ({"name": NAME, "expression": ""}, f"{AT}[0].expression: Required value"),
        (
            {"name": "gpu.example.com/other", "expression": "1"},
            f'{AT}[0].name: Invalid value: "gpu.example.com/other": {UNUSED}',
        ),
        (
            {"name": NAME, "expression": "['a']"},
            f"{AT}[0].expression: Invalid value: \"['a']\": must evaluate to a primitive scalar "
            "(string, integer, boolean, semver), not list(string)",
        ),
        ({"name": NAME, "expression": "x" * 10_241}, f"{AT}[0].expression: Too long: may not be more than 10240 bytes"),
    ],
)
def test_an_invalid_derived_attribute_is_reported(attribute: dict[str, str], problem: str) -> None:
    assert problems(claim(attribute)) == [problem]


def test_lists_may_be_derived_with_their_feature() -> None:
    assert problems(claim({"name": NAME, "expression": "['a']"}), LISTS) == []
    (problem,) = problems(claim({"name": NAME, "expression": "{'a': 1}"}), LISTS)
    assert "semver) or a list of these scalars, not map(string, int)" in problem


def test_the_names_of_derived_attributes_are_few_and_unique() -> None:
    one = {"name": NAME, "expression": "1"}
    assert problems(claim(one, one)) == [f'{AT}[1]: Duplicate value: "{NAME}"']
    assert problems(claim(*[one] * 33)) == [f"{AT}: Too many: 33: must have at most 32 items"]


@pytest.mark.parametrize(("requests", "is_used"), [(["r"], True), (["other"], False), (["r/s"], False)])
def test_a_constraint_has_to_target_the_request(requests: list[str], is_used: bool) -> None:
    found = problems(claim({"name": NAME, "expression": "1"}, requests=requests))
    assert any(UNUSED in one for one in found) is not is_used


@pytest.mark.parametrize(("requests", "is_used"), [(["r"], True), (["r/s"], True), (["r/t"], False)])
def test_a_constraint_may_target_a_subrequest(requests: list[str], is_used: bool) -> None:
    derived = [{"name": NAME, "expression": "1"}]
    parts = [
        {"name": "s", "deviceClassName": "c", "derivedAttributes": derived},
        {"name": "t", "deviceClassName": "c"},
    ]
    constraint = {"distinctAttribute": NAME, "requests": requests}
    devices = {"requests": [{"name": "r", "firstAvailable": parts}], "constraints": [constraint]}
    found = problems({"spec": {"devices": devices}})
    at = "spec.devices.requests[0].firstAvailable[0].derivedAttributes[0].name"
    assert found == ([] if is_used else [f'{at}: Invalid value: "{NAME}": {UNUSED}'])


def test_templates_are_validated_likewise() -> None:
    template = {"spec": {"metadata": {}, **claim({"name": NAME, "expression": ""})}}
    found = create_problems("resourceclaimtemplates.resource.k8s.io", template, parse_feature_gates([DERIVED]))
    assert found == ["spec.spec.devices.requests[0].exactly.derivedAttributes[0].expression: Required value"]


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        (["a", "b"], ""),
        (["a", "a"], '[1]: Duplicate value: "a"'),
        (["a", "b", "c"], ": Too many: 3: must have at most 2 items"),
    ],
)
def test_compatibility_groups_are_few_and_unique(groups: list[str], problem: str) -> None:
    consumed = {"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": groups}
    pool = {"name": "p", "resourceSliceCount": 1, "generation": 1}
    devices = [{"name": "e", "consumesCounters": [consumed]}]
    manifest = {"spec": {"driver": "d", "pool": pool, "nodeName": "n", "devices": devices}}
    features = parse_feature_gates(["DRADeviceCompatibilityGroups=true"])
    found = create_problems("resourceslices.resource.k8s.io", manifest, features)
    at = "spec.devices[0].consumesCounters[0].compatibilityGroups"
    assert found == ([f"{at}{problem}"] if problem else [])
