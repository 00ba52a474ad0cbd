# SPDX-License-Identifier: Apache-2.0
"""Validation tests of device claims, classes, slices and taint rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

GROUP = "resource.k8s.io"
CLAIMS, TEMPLATES, CLASSES = f"resourceclaims.{GROUP}", f"resourceclaimtemplates.{GROUP}", f"deviceclasses.{GROUP}"
SLICES, TAINT_RULES = f"resourceslices.{GROUP}", f"devicetaintrules.{GROUP}"
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
CLAIM = {
    "spec": {
        "devices": {
            "requests": [REQUEST],
            "constraints": [{"requests": ["r"], "matchAttribute": "example.com/numa"}],
            "config": [{"opaque": {"driver": "example.com", "parameters": {"a": 1}}}],
        }
    }
}
DEVICES, AT = "spec.devices", "spec.devices.requests[0]"
EXACTLY = f"{DEVICES}.requests.0.exactly"
REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def test_a_full_claim_passes() -> None:
    assert create_problems(CLAIMS, CLAIM) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("requests", [{"name": "r"}], f"{AT}: Required value: exactly one of `exactly` or `firstAvailable` is "
         "required"),
        ("requests", [REQUEST, REQUEST], 'spec.devices.requests[1]: Duplicate value: '
         '{"name":"r","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":1}}'),
        ("requests.0.exactly.deviceClassName", "", f"{AT}.exactly.deviceClassName: Required value"),
        ("requests.0.exactly.allocationMode", "Some", f'{AT}.exactly.allocationMode: Unsupported value: "Some": '
         'supported values: "All", "ExactCount"'),
        ("requests.0.exactly.count", -1, f"{AT}.exactly.count: Invalid value: -1: must be greater than zero"),
        ("requests.0.exactly.selectors", [{}], f"{AT}.exactly.selectors[0].cel: Required value"),
        ("requests.0.exactly.selectors", [{"cel": {"expression": "1 + 1"}}], f"{AT}.exactly.selectors[0].cel."
         'expression: Invalid value: "1 + 1": must evaluate to bool or the unknown type, not int'),
        ("requests.0.exactly.selectors", [{"cel": {"expression": "noSuchVar"}}], f"{AT}.exactly.selectors[0].cel."
         'expression: Invalid value: "noSuchVar": compilation failed: ERROR: <input>:1:1: undeclared reference to '
         "'noSuchVar' (in container '')\n | noSuchVar\n | ^"),
        ("requests.0.exactly.tolerations", [{"operator": "Exists", "value": "v"}], f'{AT}.exactly.tolerations['
         '0].value: Invalid value: "v": must be empty for operator `Exists`'),
        ("constraints.0.requests", ["x"], f'spec.devices.constraints[0].requests[0]: Invalid value: "x": {REFERENCE}'),
        ("constraints.0.matchAttribute", "numa", 'spec.devices.constraints[0].matchAttribute: Invalid value: "numa": '
         'a fully qualified name must be a domain and a name separated by a slash'),
        ("config.0.opaque", None, "spec.devices.config[0].opaque: Required value"),
        ("config.0.opaque.parameters", [1], 'spec.devices.config[0].opaque.parameters: Invalid value: "<value '
         'omitted>": must be a valid JSON object'),
        ("config.0.opaque.driver", "d" * 64, "spec.devices.config[0].opaque.driver: Too long: may not be more than 63 "
         "characters"),
    ],
)  # fmt: skip
def test_a_claim_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(CLAIMS, altered(CLAIM, {f"{DEVICES}.{path}": value})) == [problem]


def test_excess_requests_are_not_validated() -> None:
    problem = "spec.devices.requests: Too many: 33: must have at most 32 items"
    assert create_problems(CLAIMS, {"spec": {"devices": {"requests": [{}] * 33}}}) == [problem]


def test_a_request_may_have_alternatives() -> None:
    request = {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}
    claim = altered(CLAIM, {f"{DEVICES}.requests": [request], f"{DEVICES}.constraints.0.requests": ["r/a"]})
    assert create_problems(CLAIMS, claim) == []


def test_claim_spec_is_immutable() -> None:
    new = altered(CLAIM, {f"{EXACTLY}.count": 2})
    assert update_problems(CLAIMS, CLAIM, new) == ["spec: Invalid value: null: field is immutable"]


RESULT = {"request": "r", "driver": "example.com", "pool": "p", "device": "d"}
ALLOCATED = altered(CLAIM, {"status": {"allocation": {"devices": {"results": [RESULT]}}}})
CONSUMER = {"resource": "pods", "name": "p", "uid": "u"}


@pytest.mark.parametrize(
    ("old", "changes", "problem"),
    [
        (CLAIM, {"status.reservedFor": [CONSUMER]}, "status.reservedFor: Forbidden: may not be specified when "
         "`allocated` is not set"),
        (ALLOCATED, {"status.reservedFor": [CONSUMER, {**CONSUMER, "name": "q"}]}, 'status.reservedFor[1]: Duplicate '
         'value: {"resource":"pods","name":"q","uid":"u"}'),
        (ALLOCATED, {"status.allocation.devices.results.0.device": "e"}, "status.allocation: Invalid value: null: "
         "field cannot be modified once set"),
        (ALLOCATED, {"status.devices": [{"driver": "example.com", "pool": "p", "device": "e"}]},
         'status.devices[0]: Invalid value: {"Driver":"example.com","Pool":"p","Device":"e","ShareID":""}: must be an '
         'allocated device in the claim'),
        (CLAIM, {"status.allocation": {"devices": {"results": [{**RESULT, "request": "x"}]}}},
         f'status.allocation.devices.results[0].request: Invalid value: "x": {REFERENCE}'),
        (CLAIM, {"status.allocation": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": {}}}]}}},
         "status.allocation.devices.config[0].source: Required value"),
    ],
)  # fmt: skip
def test_a_claim_status_with_one_bad_field(old: dict[str, Any], changes: dict[str, Any], problem: str) -> None:
    assert update_problems(CLAIMS, old, altered(old, changes), "status") == [problem]


def test_allocation_passes_and_may_be_reserved() -> None:
    assert update_problems(CLAIMS, CLAIM, ALLOCATED, "status") == []
    assert update_problems(CLAIMS, ALLOCATED, altered(ALLOCATED, {"status.reservedFor": [CONSUMER]}), "status") == []


def test_template_is_immutable() -> None:
    old = {"spec": {"spec": {"devices": {"requests": [REQUEST]}}}}
    (problem,) = update_problems(TEMPLATES, old, altered(old, {"spec.metadata": {"labels": {"a": "c"}}}))
    assert problem.startswith('spec: Invalid value: {"labels":{"a":"c"},"Spec":{"Devices":{"Requests":[{"Name":"r",')


def test_class_may_map_an_extended_resource() -> None:
    assert create_problems(CLASSES, {"spec": {"extendedResourceName": "example.com/gpu"}}) == []
    assert create_problems(CLASSES, {"spec": {"extendedResourceName": "cpu"}}) == [
        'spec.extendedResourceName: Invalid value: "cpu": a name must be a domain-prefixed path, '
        "such as 'example.com/my-prop'"
    ]
    assert create_problems(CLASSES, {"spec": {"extendedResourceName": "requests.kubernetes.io/a"}}) == [
        'spec.extendedResourceName: Invalid value: "requests.kubernetes.io/a": must not have "kubernetes.io/" domain',
        'spec.extendedResourceName: Invalid value: "requests.kubernetes.io/a": must not have "requests." prefix',
    ]


SLICE = {
    "spec": {
        "driver": "example.com",
        "nodeName": "n",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "devices": [{"name": "d", "attributes": {"numa": {"int": 1}}, "capacity": {"memory": {"value": "1Gi"}}}],
    }
}
DEVICE = "spec.devices.0"
KINDS = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.driver", "", "spec.driver: Required value"),
        ("spec.pool.name", "", "spec.pool.name: Required value"),
        ("spec.pool.resourceSliceCount", 0, "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than "
         "zero"),
        ("spec.nodeName", None, f"spec: Required value: {PLACE}"),
        ("spec.allNodes", True, f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {PLACE}, but multiple fields are '
         'set'),
        ("spec.allNodes", False, "spec.allNodes: Invalid value: false: must be either unset or set to true"),
        ("spec.devices", [{"name": "d"}, {"name": "d"}], 'spec.devices[1]: Duplicate value: "d"'),
        (f"{DEVICE}.attributes.numa", {}, f'spec.devices[0].attributes[numa]: Invalid value: "": must specify one of: '
         f'{KINDS}'),
        (f"{DEVICE}.attributes.numa.bool", True, f'spec.devices[0].attributes[numa]: Invalid value: "{{int, bool}}": '
         f'must specify exactly one of: {KINDS}'),
        (f"{DEVICE}.attributes.numa", {"version": "1"}, 'spec.devices[0].attributes[numa].version: Invalid value: '
         '"1": must be a string compatible with semver.org spec 2.0.0'),
        (f"{DEVICE}.attributes.numa", {"string": "s" * 65}, "spec.devices[0].attributes[numa].string: Too long: may "
         "not be more than 64 bytes"),
        (f"{DEVICE}.taints", [{"key": "k"}], "spec.devices[0].taints[0].effect: Required value"),
        (f"{DEVICE}.capacity.memory.requestPolicy", {"default": "1"}, "spec.devices[0].capacity[memory].requestPolicy:"
         " Forbidden: allowMultipleAllocations must be true"),
    ],
)  # fmt: skip
def test_a_slice_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(SLICES, SLICE) == []
    assert create_problems(SLICES, altered(SLICE, {path: value})) == [problem]


def test_slice_driver_and_pool_are_immutable() -> None:
    new = altered(SLICE, {"spec.driver": "other.com", "spec.pool.name": "q"})
    assert update_problems(SLICES, SLICE, new) == [
        'spec.driver: Invalid value: "other.com": field is immutable',
        'spec.pool.name: Invalid value: "q": field is immutable',
    ]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"taint": {"key": "k"}}, "spec.taint.effect: Required value"),
        ({"taint": {"key": "k", "effect": "Never"}}, 'spec.taint.effect: Unsupported value: "Never": supported '
         'values: "NoExecute", "NoSchedule", "None"'),
        ({"taint": {"key": "k", "effect": "None"}, "deviceSelector": {"pool": ""}}, "spec.deviceSelector.pool: "
         "Required value"),
    ],
)  # fmt: skip
def test_a_taint_rule_with_one_bad_field(spec: dict[str, Any], problem: str) -> None:
    assert create_problems(TAINT_RULES, {"spec": spec}) == [problem]
