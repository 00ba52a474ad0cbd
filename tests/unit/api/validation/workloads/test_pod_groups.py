# SPDX-License-Identifier: Apache-2.0
"""Rules of the trees of templates in Workloads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates

TEMPLATE = {"name": "t", "schedulingPolicy": {"basic": {}}}
COMPOSITE = {"name": "c", "schedulingPolicy": {"basic": {}}}
WORKLOAD: dict[str, Any] = {"spec": {}}


def composite(name: str, groups: list[Any], composites: list[Any]) -> dict[str, Any]:
    parts = {"podGroupTemplates": groups or None, "compositePodGroupTemplates": composites or None}
    return {**COMPOSITE, "name": name, **parts}


def workload(*composites: dict[str, Any]) -> dict[str, Any]:
    return {"spec.compositePodGroupTemplates": list(composites)}


CASES = [
    *creates("workloads.scheduling.k8s.io", WORKLOAD, [
        ({}, ['spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`']),
        (workload(COMPOSITE),
            ['spec.compositePodGroupTemplates[0]: Invalid value: "c": must have at least one child '
             "PodGroupTemplate or CompositePodGroupTemplate"]),
        (workload(composite("c", [], [composite("d", [], [])])),
            ['spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0]: Invalid value: "d": must have '
             "at least one child PodGroupTemplate or CompositePodGroupTemplate"]),
        (workload(composite("c", [TEMPLATE, {**TEMPLATE, "name": "c"}], [])),
            ['spec.compositePodGroupTemplates[0].podGroupTemplates[1].name: Duplicate value: "c"']),
        (workload(composite("c", [{**TEMPLATE, "priorityClassName": "p"}], [])),
            ["spec: Invalid value: null: all priority and priorityClassName values must be identical, detected "
             "multiple values"]),
        (workload(composite("c", [], [{**composite("d", [TEMPLATE], []), "priorityClassName": "p"}])),
            ["spec: Invalid value: null: all priority and priorityClassName values must be identical, detected "
             "multiple values"]),
        (workload(composite("c", [], [composite("d", [{**TEMPLATE, "priorityClassName": "p"}], [])])),
            ["spec: Invalid value: null: all priority and priorityClassName values must be identical, detected "
             "multiple values"]),
        (workload(composite("c", [TEMPLATE, TEMPLATE], [])),
            ["spec.compositePodGroupTemplates[0].podGroupTemplates[1]: Duplicate value: "
             '{"name":"t","schedulingPolicy":{"basic":{}},"schedulingConstraints":null}']),
        ({"spec.podGroupTemplates": [TEMPLATE], **workload(composite("c", [{**TEMPLATE, "name": "u"}], []))},
            ['spec: Invalid value: "{podGroupTemplates, compositePodGroupTemplates}": must specify exactly one '
             "of: `podGroupTemplates`, `compositePodGroupTemplates`"]),
    ], ALL_FEATURES),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_workloads_are_reported(case: Case) -> None:
    assert case.found() == case.errors
