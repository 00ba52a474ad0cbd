# SPDX-License-Identifier: Apache-2.0
"""Validation tests of autoscalers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
QUEUE = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "3"}}}
AUTOSCALER = {
    "spec": {
        "minReplicas": 1,
        "maxReplicas": 5,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [CPU],
        "behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}},
    }
}
POLICY = "spec.behavior.scaleDown.policies.0"
TARGET = "spec.metrics.0.resource.target"
AT = "spec.metrics[0].resource.target"


def test_a_full_autoscaler_passes() -> None:
    assert create_problems(AUTOSCALERS, AUTOSCALER) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.minReplicas", -1, "spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"),
        ("spec.minReplicas", 6, "spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"),
        ("spec.minReplicas", 0, "spec.metrics: Forbidden: must specify at least one Object or External metric to "
         "support scaling to zero replicas"),
        ("spec.scaleTargetRef.kind", "", "spec.scaleTargetRef.kind: Required value"),
        ("spec.scaleTargetRef.name", "a/b", "spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'"),
        ("spec.scaleTargetRef.apiVersion", "v1", 'spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion '
         'must specify API group'),
        ("spec.scaleTargetRef.apiVersion", "a/b/c", 'spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": '
         'unexpected GroupVersion string: a/b/c'),
        ("spec.metrics.0.resource", None, "spec.metrics[0].resource: Required value: must populate information for "
         "the given metric source"),
        ("spec.metrics.0.containerResource", {}, "spec.metrics[0].containerResource: Forbidden: must populate the "
         "given metric source only"),
        (f"{TARGET}.averageUtilization", 0, f"{AT}.averageUtilization: Invalid value: 0: must be greater than 0"),
        (f"{TARGET}.averageValue", "1", f"{AT}.averageValue: Forbidden: may not set both a target raw value and a "
         "target utilization"),
        (f"{TARGET}.averageUtilization", None, f"{AT}.averageUtilization: Required value: must set either a target "
         "raw value or a target utilization"),
        (f"{TARGET}.type", "Guess", f'{AT}.type: Invalid value: "Guess": must be either Utilization, Value, or '
         'AverageValue'),
        (f"{POLICY}.type", "Nodes", 'spec.behavior.scaleDown.policies[0].type: Unsupported value: "Nodes": supported '
         'values: "Percent", "Pods"'),
        (f"{POLICY}.value", 0, "spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than "
         "zero"),
        (f"{POLICY}.periodSeconds", 1801, "spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: "
         "must be less than or equal to 1800"),
        ("spec.behavior.scaleDown.stabilizationWindowSeconds", 3601,
         "spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600"),
        ("spec.behavior.scaleDown.selectPolicy", "Mean", 'spec.behavior.scaleDown.selectPolicy: Unsupported value: '
         '"Mean": supported values: "Disabled", "Max", "Min"'),
        ("spec.behavior.scaleDown.tolerance", "-1", 'spec.behavior.scaleDown.tolerance: Invalid value: "-1": must be '
         'greater than or equal to 0'),
    ],
)  # fmt: skip
def test_an_autoscaler_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(AUTOSCALERS, altered(AUTOSCALER, {path: value})) == [problem]


def test_maximum_is_required() -> None:
    assert create_problems(AUTOSCALERS, altered(AUTOSCALER, {"spec.maxReplicas": 0})) == [
        "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
        "spec.maxReplicas: Required value",
    ]


def test_zero_replicas_need_an_object_or_external_metric() -> None:
    manifest = altered(AUTOSCALER, {"spec.minReplicas": 0, "spec.metrics": [QUEUE]})
    assert create_problems(AUTOSCALERS, manifest) == []


def test_core_group_targets_are_replication_controllers_only() -> None:
    target = {"apiVersion": "v1", "kind": "ReplicationController", "name": "rc"}
    assert create_problems(AUTOSCALERS, altered(AUTOSCALER, {"spec.scaleTargetRef": target})) == []


def test_update_keeps_the_api_version_of_an_unchanged_target() -> None:
    old = altered(AUTOSCALER, {"spec.scaleTargetRef.apiVersion": "v1"})
    assert update_problems(AUTOSCALERS, old, altered(old, {"spec.scaleTargetRef.name": "other"})) == []
    assert len(update_problems(AUTOSCALERS, AUTOSCALER, old)) == 1


METRIC = "spec.metrics[0]"


@pytest.mark.parametrize(
    ("metric", "problems"),
    [
        (
            {"type": "Pods", "pods": {"target": {"type": "AverageValue"}}},
            [
                f"{METRIC}.pods.metric.name: Required value: must specify a metric name",
                f"{METRIC}.pods.target.averageValue: Required value: must specify a positive target averageValue",
            ],
        ),
        (
            {"type": "External", "external": {"metric": {"name": "a/b"}, "target": {"type": "Value"}}},
            [
                f"{METRIC}.external.metric.name: Invalid value: \"a/b\": may not contain '/'",
                f"{METRIC}.external.target.averageValue: Required value: "
                "must set either a target value for metric or a per-pod target",
            ],
        ),
        (
            altered(QUEUE, {"external.target.averageValue": "0"}),
            [
                f'{METRIC}.external.target.averageValue: Invalid value: "0": must be positive',
                f"{METRIC}.external.target.value: Forbidden: "
                "may not set both a target value for metric and a per-pod target",
            ],
        ),
        (
            {"type": "ContainerResource", "containerResource": {"target": {"type": "Value", "averageValue": "1"}}},
            [
                f"{METRIC}.containerResource.container: Required value: must specify a container",
                f"{METRIC}.containerResource.name: Required value: must specify a resource name",
            ],
        ),
        (
            {"type": "Object", "object": {"metric": {"name": "m"}, "target": {"type": "Value"}}},
            [
                f"{METRIC}.object.describedObject.kind: Required value",
                f"{METRIC}.object.describedObject.name: Required value",
                f"{METRIC}.object.target.averageValue: Required value: must set either a target value or averageValue",
            ],
        ),
    ],
)
def test_metric_needs_source_and_target(metric: dict[str, Any], problems: list[str]) -> None:
    assert create_problems(AUTOSCALERS, altered(AUTOSCALER, {"spec.metrics": [metric]})) == problems


def test_counts_in_status_are_not_negative() -> None:
    new = altered(AUTOSCALER, {"status": {"currentReplicas": -1, "desiredReplicas": -2}})
    assert update_problems(AUTOSCALERS, AUTOSCALER, new, "status") == [
        "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
        "status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0",
    ]
