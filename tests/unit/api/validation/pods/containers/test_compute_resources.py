# SPDX-License-Identifier: Apache-2.0
"""Rules of requests, limits and claims of containers, and of pod-level resources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates
from tests.unit.api.validation.messages import DNS_LABEL, QUALIFIED_NAME

POD = {"spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [
    {"name": "a", "resourceClaimName": "a"}]}}  # fmt: skip
LARGE = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}


def limits(**amounts: str) -> dict[str, Any]:
    return {"spec.containers.0.resources": {"limits": amounts}}


def claims(*claims: dict[str, str]) -> dict[str, Any]:
    return {"spec.containers.0.resources": {"claims": list(claims)}}


def requests(requested: dict[str, str], limit: dict[str, str]) -> dict[str, Any]:
    return {"spec.containers.0.resources": {"requests": requested, "limits": limit}}


def of_pod(**resources: Any) -> dict[str, Any]:
    return {"spec.resources": resources}


CASES = [
    *creates("pods", POD, [
        (limits(**{"a b": "1"}),
            ['spec.containers[0].resources.limits[a b]: Invalid value: "a b": ' + QUALIFIED_NAME,
             ('spec.containers[0].resources.limits[a b]: Invalid value: "a b": must be a standard resource for '
             "containers"),
             'spec.containers[0].resources.requests[a b]: Invalid value: "a b": ' + QUALIFIED_NAME,
             ('spec.containers[0].resources.requests[a b]: Invalid value: "a b": must be a standard resource for '
             "containers")]),
        (limits(disk="1"),
            [('spec.containers[0].resources.limits[disk]: Invalid value: "disk": must be a standard resource '
             "type or fully qualified"),
             ('spec.containers[0].resources.limits[disk]: Invalid value: "disk": must be a standard resource for '
             "containers"),
             ('spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource '
             "type or fully qualified"),
             ('spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource '
             "for containers")]),
        (limits(pods="1"),
            [('spec.containers[0].resources.limits[pods]: Invalid value: "pods": must be a standard resource for '
             "containers"),
             ('spec.containers[0].resources.requests[pods]: Invalid value: "pods": must be a standard resource '
             "for containers")]),
        (limits(**{"requests.example.com/gpu": "1"}),
            [("spec.containers[0].resources.limits[requests.example.com/gpu]: Invalid value: "
             "\"requests.example.com/gpu\": doesn't follow extended resource name standard"),
             ("spec.containers[0].resources.requests[requests.example.com/gpu]: Invalid value: "
             "\"requests.example.com/gpu\": doesn't follow extended resource name standard")]),
        (limits(cpu="-1"),
            ['spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
             ('spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to '
             "0")]),
        (limits(**{"example.com/gpu": "0.5"}),
            ['spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer',
             'spec.containers[0].resources.requests[example.com/gpu]: Invalid value: "500m": must be an integer']),
        (limits(**{"cpu": "1", "hugepages-2Mi": "3Mi"}),
            [('spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive '
             "integer multiple of hugepages-2Mi"),
             ('spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive '
             "integer multiple of hugepages-2Mi")]),
        (limits(**{"cpu": "1", "hugepages-x": "3Mi"}),
            [('spec.containers[0].resources.limits[hugepages-x]: Invalid value: "3Mi": 3Mi is not positive '
             "integer multiple of hugepages-x"),
             ('spec.containers[0].resources.requests[hugepages-x]: Invalid value: "3Mi": 3Mi is not positive '
             "integer multiple of hugepages-x")]),
        (limits(**{"hugepages-2Mi": "2Mi"}),
            ["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"]),
        (requests({"cpu": "2"}, {"cpu": "1"}),
            ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu '
             "limit of 1"]),
        (requests({"memory": "-1"}, {}),
            ['spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal '
             "to 0"]),
        (requests({"example.com/gpu": "1"}, {"example.com/gpu": "2"}),
            ['spec.containers[0].resources.requests: Invalid value: "1": must be equal to example.com/gpu limit '
             "of 2"]),
        (requests({"example.com/gpu": "1"}, {}),
            ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable "
             "resources"]),
        (claims({"name": ""}), ["spec.containers[0].resources.claims[0]: Required value"]),
        (claims({"name": "b"}),
            ['spec.containers[0].resources.claims[0]: Not found: "b": must be one of the names in '
             "pod.spec.resourceClaims: a"]),
        (claims({"name": "a"}, {"name": "a"}), ['spec.containers[0].resources.claims[1]: Duplicate value: "a"']),
        (claims({"name": "a", "request": "R_"}),
            ['spec.containers[0].resources.claims[0].request: Invalid value: "R_": ' + DNS_LABEL]),
        (claims({"name": "a", "request": "r"}, {"name": "a", "request": "r"}),
            ['spec.containers[0].resources.claims[1]: Duplicate value: "a/r"']),
        (claims({"name": "a", "request": "r"}, {"name": "a"}),
            ['spec.containers[0].resources.claims[1]: Duplicate value: "a"']),
        (claims({"name": "a"}, {"name": "a", "request": "r"}),
            ['spec.containers[0].resources.claims[1]: Duplicate value: "a"']),
        ({**of_pod(limits={"cpu": "1"}), "spec.os": {"name": "windows"}},
            ["spec.resources: Forbidden: may not be set for a windows pod"]),
        (of_pod(claims=[{"name": "a"}], requests={"cpu": "1"}),
            ["spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level"]),
        (of_pod(limits={"ephemeral-storage": "1"}),
            ['spec.resources.limits[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported '
             'values: "cpu", "hugepages-", "memory"']),
        (of_pod(limits={"disk": "1"}),
            ['spec.resources.limits[disk]: Invalid value: "disk": must be a standard resource type or fully '
             "qualified"]),
        ({**of_pod(requests={"cpu": "1"}), "spec.containers.0.resources": LARGE},
            ['spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate '
             "container requests of 2"]),
        ({**of_pod(limits={"cpu": "1"}), "spec.containers.0.resources": {"limits": {"cpu": "2"}}},
            ['spec.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
             ('spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod '
             "limits of 1")]),
        ({**of_pod(limits={"cpu": "1", "hugepages-2Mi": "2Mi"}), "spec.containers.0.resources": {
            "limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}}},
            [('spec.resources.requests[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to '
             "aggregate container requests of 4Mi"),
             ('spec.resources.limits[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to '
             "aggregate container limits of 4Mi"),
             ('spec.resources.containers[0][hugepages-2Mi].limits: Invalid value: "4Mi": must be less than or '
             "equal to pod limits of 2Mi")]),
        ({**of_pod(requests={"cpu": "1"}), "spec.initContainers": [
            {"name": "i", "image": "i", "resources": LARGE}]},
            ['spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate '
             "container requests of 2"]),
        ({**of_pod(requests={"cpu": "2"}), "spec.initContainers": [
            {"name": "i", "image": "i", "restartPolicy": "Always", "resources": LARGE},
            {"name": "j", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
            ['spec.resources.requests[cpu]: Invalid value: "2": must be greater than or equal to aggregate '
             "container requests of 3"]),
        ({**of_pod(requests={"cpu": "3"}), "spec.containers.0.resources": LARGE, "spec.initContainers": [
            {"name": "i", "image": "i", "restartPolicy": "Always", "resources": LARGE}]},
            ['spec.resources.requests[cpu]: Invalid value: "3": must be greater than or equal to aggregate '
             "container requests of 4"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_resources_are_reported(case: Case) -> None:
    assert case.found() == case.errors
