# SPDX-License-Identifier: Apache-2.0
"""Validation tests of pod groups, composite pod groups and workloads, with disabled features."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES, parse_feature_gates
from kubeloop.api.strategy import strategy_of
from tests.unit.api.validation.manifests import RESOURCES, altered, create_problems, decoded, update_problems

GROUPS = "podgroups.scheduling.k8s.io"
COMPOSITES = "compositepodgroups.scheduling.k8s.io"
WORKLOADS = "workloads.scheduling.k8s.io"
ALL = parse_feature_gates(
    [
        "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true",
        "DRAWorkloadResourceClaims=true,PodGroupPreemptionPolicy=true",
    ]
)
GROUP: Any = {
    "spec": {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
        "resourceClaims": [{"name": "c", "resourceClaimName": "claim"}],
        "priorityClassName": "high",
        "priority": 5,
        "preemptionPolicy": "Never",
    }
}
TEMPLATE: Any = {"name": "t", "schedulingPolicy": {"basic": {}}}
WORKLOAD: Any = {"spec": {"controllerRef": {"kind": "Job", "name": "j"}, "podGroupTemplates": [TEMPLATE]}}
COMPOSITE: Any = {
    "spec": {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minGroupCount": 1}},
    }
}


gated_create_problems = partial(create_problems, features=ALL)
gated_update_problems = partial(update_problems, features=ALL)


@pytest.mark.parametrize(
    ("path", "value", "problems"),
    [
        (
            "spec.schedulingPolicy",
            {},
            ['spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'],
        ),
        (
            "spec.schedulingPolicy.basic",
            {},
            ['spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'],
        ),
        ("spec.schedulingPolicy.gang.minCount", 0, ["spec.schedulingPolicy.gang.minCount: Required value"]),
        (
            "spec.schedulingPolicy.gang.minCount",
            -1,
            ["spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"],
        ),
        ("spec.workloadRef.workloadName", "", ["spec.workloadRef.workloadName: Required value"]),
        (
            "spec.workloadRef.templateName",
            "a.b",
            ['spec.workloadRef.templateName: Invalid value: "a.b": must not contain dots'],
        ),
        (
            "spec.schedulingConstraints.topology",
            [{"key": "a"}, {"key": "b"}],
            ["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
        ),
        (
            "spec.resourceClaims",
            [{"name": "c"}],
            [
                'spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`, '
                "`resourceClaimTemplateName`"
            ],
        ),
        (
            "spec.resourceClaims",
            [{"name": "c", "resourceClaimName": "a"}, {"name": "c", "resourceClaimName": "a"}],
            ['spec.resourceClaims[1]: Duplicate value: {"name":"c","resourceClaimName":"a"}'],
        ),
        (
            "spec.priority",
            1_000_000_001,
            ["spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000"],
        ),
        (
            "spec.preemptionPolicy",
            "Maybe",
            ['spec.preemptionPolicy: Unsupported value: "Maybe": supported values: "Never", "PreemptLowerPriority"'],
        ),
        (
            "spec.disruptionMode",
            {"single": {}, "all": {}},
            ['spec.disruptionMode: Invalid value: "{single, all}": must specify exactly one of: `single`, `all`'],
        ),
    ],
)
def test_a_pod_group_with_one_bad_field(path: str, value: Any, problems: list[str]) -> None:
    assert gated_create_problems(GROUPS, GROUP) == []
    assert gated_create_problems(GROUPS, altered(GROUP, {path: value})) == problems


def test_nested_group_needs_its_workload() -> None:
    alone: Any = {"spec": {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": "c"}}
    assert gated_create_problems(GROUPS, alone) == [
        "spec.workloadRef: Required value: must be set when parentCompositePodGroupName is set"
    ]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("spec.priority", 6, "spec.priority"),
        ("spec.priorityClassName", "low", "spec.priorityClassName"),
        ("spec.workloadRef.templateName", "u", "spec.workloadRef"),
        ("spec.schedulingConstraints.topology", [], "spec.schedulingConstraints"),
        ("spec.resourceClaims", [], "spec.resourceClaims"),
        ("spec.disruptionMode", {"all": {}}, "spec.disruptionMode"),
        ("spec.preemptionPolicy", "PreemptLowerPriority", "spec.preemptionPolicy"),
    ],
)
def test_group_spec_is_mostly_immutable(path: str, value: Any, field: str) -> None:
    told = f"{field}: Invalid value: null: field is immutable"
    assert gated_update_problems(GROUPS, GROUP, altered(GROUP, {path: value})) == [told]


def test_gang_size_is_mutable_but_the_policy_is_not() -> None:
    assert gated_update_problems(GROUPS, GROUP, altered(GROUP, {"spec.schedulingPolicy.gang.minCount": 3})) == []
    assert gated_update_problems(GROUPS, GROUP, altered(GROUP, {"spec.schedulingPolicy": {"basic": {}}})) == [
        "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
        "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
    ]


def test_group_status_references_existing_claims() -> None:
    status = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}
    assert gated_update_problems(GROUPS, GROUP, {**GROUP, "status": status}, "status") == []
    status = {"resourceClaimStatuses": [{"name": "other"}]}
    assert gated_update_problems(GROUPS, GROUP, {**GROUP, "status": status}, "status") == [
        'status.resourceClaimStatuses[0].name: Invalid value: "other": must match the name of an entry in '
        "`spec.resourceClaims`"
    ]


def test_fields_of_disabled_features_are_dropped_unless_in_use() -> None:
    strategy = strategy_of(RESOURCES[GROUPS])
    new, old = decoded(GROUPS, GROUP), decoded(GROUPS, GROUP)
    strategy.prepare_create(new, DEFAULT_FEATURES)
    spec = new.spec
    assert (spec.scheduling_constraints, spec.resource_claims, spec.preemption_policy) == (None, (), None)
    again = decoded(GROUPS, GROUP)
    strategy.prepare_update(again, old, DEFAULT_FEATURES)
    assert again.spec == old.spec
    assert update_problems(GROUPS, GROUP, altered(GROUP, {"spec.preemptionPolicy": "PreemptLowerPriority"})) == [
        "spec.preemptionPolicy: Forbidden",
        "spec.preemptionPolicy: Invalid value: null: field is immutable",
    ]


# Workloads


def composite(name: str, *groups: str, below: Any = (), **facts: Any) -> dict[str, Any]:
    templates = [{**TEMPLATE, "name": one} for one in groups]
    policy: Any = {"schedulingPolicy": {"basic": {}}}
    return {"name": name, **policy, "podGroupTemplates": templates, "compositePodGroupTemplates": list(below), **facts}


def tree(*composites: Any) -> dict[str, Any]:
    return {"spec": {"compositePodGroupTemplates": list(composites)}}


def test_workload_has_one_kind_of_templates() -> None:
    assert create_problems(WORKLOADS, WORKLOAD) == []
    told = "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"
    assert create_problems(WORKLOADS, {"spec": {}}) == [f'spec: Invalid value: "": {told}']


@pytest.mark.parametrize(
    ("workload", "problems"),
    [
        (tree(composite("c", "a", "b")), []),
        (
            tree(composite("c", "a", below=[composite("d", "a")])),
            [
                "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].podGroupTemplates[0].name: "
                'Duplicate value: "a"'
            ],
        ),
        (
            tree(composite("c")),
            [
                'spec.compositePodGroupTemplates[0]: Invalid value: "c": must have at least one child PodGroupTemplate '
                "or CompositePodGroupTemplate"
            ],
        ),
        (
            tree(composite("c", "a"), composite("d", "b", priorityClassName="x")),
            [
                "spec: Invalid value: null: all priority and priorityClassName values must be identical, detected "
                "multiple values"
            ],
        ),
    ],
)
def test_template_tree(workload: Any, problems: list[str]) -> None:
    assert gated_create_problems(WORKLOADS, workload) == problems


def test_template_tree_depth_is_limited() -> None:
    def nested(depth: int) -> Any:
        below = [nested(depth - 1)] if depth else []
        return composite(f"c{depth}", f"g{depth}", below=below)

    assert gated_create_problems(WORKLOADS, tree(nested(2))) == []
    (problem,) = gated_create_problems(WORKLOADS, tree(nested(3)))
    assert problem.endswith("maximum template hierarchy depth is 4")


def test_templates_with_different_priorities() -> None:
    templates = [TEMPLATE, {**TEMPLATE, "name": "u", "priority": 3}]
    assert create_problems(WORKLOADS, {"spec": {"podGroupTemplates": templates}}) == [
        "spec: Invalid value: null: detected multiple priority configurations"
    ]


def test_templates_are_neither_added_nor_removed() -> None:
    other = altered(WORKLOAD, {"spec.podGroupTemplates": [{**TEMPLATE, "name": "u"}]})
    assert update_problems(WORKLOADS, WORKLOAD, other) == [
        "spec.podGroupTemplates: Forbidden: item may not be removed",
        "spec.podGroupTemplates[0]: Forbidden: item may not be added",
    ]


def test_composite_templates_are_dropped_without_the_feature() -> None:
    both = altered(WORKLOAD, {"spec.compositePodGroupTemplates": [composite("c", "x")]})
    assert create_problems(WORKLOADS, both) == []


# Groups of groups


def test_composite_group_needs_its_workload_and_is_immutable() -> None:
    assert gated_create_problems(COMPOSITES, COMPOSITE) == []
    bare: Any = {"spec": {"schedulingPolicy": {"basic": {}}}}
    assert gated_create_problems(COMPOSITES, bare) == ["spec.workloadRef: Required value"]
    changed = altered(COMPOSITE, {"spec.schedulingPolicy.gang.minGroupCount": 2})
    assert gated_update_problems(COMPOSITES, COMPOSITE, changed) == [
        "spec.schedulingPolicy: Invalid value: null: field is immutable"
    ]
