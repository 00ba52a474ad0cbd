# SPDX-License-Identifier: Apache-2.0
"""Rules of HorizontalPodAutoscalers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL

AUTOSCALER = {
    "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
}
VALUE = {"type": "Value", "value": "1"}
AVERAGE = {"type": "AverageValue", "averageValue": "1"}
TARGET = "spec.scaleTargetRef."
OBJECT = {"describedObject": {"apiVersion": "v1", "kind": "K", "name": "n"}, "metric": {"name": "m"}, "target": VALUE}
POLICY = {"type": "Pods", "value": 1, "periodSeconds": 1}


def metric(kind: str, **sources: Any) -> dict[str, Any]:
    return {"spec.metrics": [{"type": kind, **sources}]}


def obj(**fields: Any) -> dict[str, Any]:
    return metric("Object", object={**OBJECT, **fields})


def external(**target: Any) -> dict[str, Any]:
    return metric("External", external={"metric": {"name": "m"}, "target": target})


def resource(**target: Any) -> dict[str, Any]:
    return metric("Resource", resource={"name": "cpu", "target": target})


def container(**fields: Any) -> dict[str, Any]:
    return metric("ContainerResource", containerResource={
        "name": "cpu", "container": "c", "target": AVERAGE, **fields})  # fmt: skip


def rules(**fields: Any) -> dict[str, Any]:
    return {"spec.behavior": {"scaleUp": {"policies": [POLICY], **fields}}}


CASES = [
    *creates("horizontalpodautoscalers.autoscaling", AUTOSCALER, [
        ({"spec.minReplicas": -1}, ["spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.minReplicas": 0},
            ["spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling "
             "to zero replicas"]),
        ({"spec.maxReplicas": 0},
            ["spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
             "spec.maxReplicas: Required value"]),
        ({"spec.maxReplicas": -1},
            ["spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
             "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1"]),
        ({"spec.minReplicas": 4},
            ["spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"]),
        ({TARGET + "kind": ""}, ["spec.scaleTargetRef.kind: Required value"]),
        ({TARGET + "name": ""}, ["spec.scaleTargetRef.name: Required value"]),
        ({TARGET + "name": "a/b"}, ["spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'"]),
        ({TARGET + "apiVersion": "a/b/c"},
            ['spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
        ({TARGET + "apiVersion": "v1"},
            ['spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group']),
        (metric("", resource={"name": "cpu", "target": AVERAGE}),
            ["spec.metrics[0].type: Required value: must specify a metric source type",
             ('spec.metrics[0].type: Unsupported value: "": supported values: "ContainerResource", "External", '
             '"Object", "Pods", "Resource"')]),
        (metric("M", resource={"name": "cpu", "target": AVERAGE}),
            ['spec.metrics[0].type: Unsupported value: "M": supported values: "ContainerResource", "External", '
             '"Object", "Pods", "Resource"']),
        (metric("Resource"),
            ["spec.metrics[0].resource: Required value: must populate information for the given metric source"]),
        (metric("Resource", resource={"name": "cpu", "target": AVERAGE}, object=OBJECT),
            ["spec.metrics[0].object: Forbidden: must populate the given metric source only"]),
        (obj(describedObject={"apiVersion": "a/b/c", "kind": "K", "name": "n"}),
            ['spec.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected '
             "GroupVersion string: a/b/c"]),
        (obj(describedObject={"apiVersion": "v1", "kind": "", "name": "n"}),
            ["spec.metrics[0].object.describedObject.kind: Required value"]),
        (obj(metric={"name": ""}),
            ["spec.metrics[0].object.metric.name: Required value: must specify a metric name"]),
        (obj(metric={"name": "a/b"}),
            ["spec.metrics[0].object.metric.name: Invalid value: \"a/b\": may not contain '/'"]),
        (obj(target={"type": "T", "value": "1"}),
            ['spec.metrics[0].object.target.type: Invalid value: "T": must be either Utilization, Value, or '
             "AverageValue"]),
        (obj(target={"type": "", "value": "1"}),
            ["spec.metrics[0].object.target.type: Required value: must specify a metric target type",
             ('spec.metrics[0].object.target.type: Invalid value: "": must be either Utilization, Value, or '
             "AverageValue")]),
        (obj(target={"type": "Value"}),
            ["spec.metrics[0].object.target.averageValue: Required value: must set either a target value or "
             "averageValue"]),
        (obj(target={"type": "Value", "value": "0"}),
            ['spec.metrics[0].object.target.value: Invalid value: "0": must be positive']),
        (external(type="Value"),
            ["spec.metrics[0].external.target.averageValue: Required value: must set either a target value for "
             "metric or a per-pod target"]),
        (external(type="Value", value="1", averageValue="1"),
            ["spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and "
             "a per-pod target"]),
        (external(type="Value", value="-1"),
            ['spec.metrics[0].external.target.value: Invalid value: "-1": must be positive']),
        (metric("External", external={"metric": {"name": ""}, "target": VALUE}),
            ["spec.metrics[0].external.metric.name: Required value: must specify a metric name"]),
        (metric("Pods", pods={"metric": {"name": ""}, "target": AVERAGE}),
            ["spec.metrics[0].pods.metric.name: Required value: must specify a metric name"]),
        (metric("Pods", pods={"metric": {"name": "m"}, "target": VALUE}),
            ["spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target "
             "averageValue"]),
        (metric("Pods", pods={"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "0"}}),
            ['spec.metrics[0].pods.target.averageValue: Invalid value: "0": must be positive']),
        (metric("Resource", resource={"name": "", "target": AVERAGE}),
            ["spec.metrics[0].resource.name: Required value: must specify a resource name"]),
        (resource(type="Utilization"),
            ["spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw "
             "value or a target utilization"]),
        (resource(type="Utilization", averageUtilization=0),
            ["spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"]),
        (resource(type="Utilization", averageUtilization=1, averageValue="1"),
            ["spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and "
             "a target utilization"]),
        (container(name=""),
            ["spec.metrics[0].containerResource.name: Required value: must specify a resource name"]),
        (container(name="disk"),
            [('spec.metrics[0].containerResource.name: Invalid value: "disk": must be a standard resource type '
             "or fully qualified"),
             ('spec.metrics[0].containerResource.name: Invalid value: "disk": must be a standard resource for '
             "containers")]),
        (container(container=""),
            ["spec.metrics[0].containerResource.container: Required value: must specify a container"]),
        (container(container="C_"),
            ['spec.metrics[0].containerResource.container: Invalid value: "C_": ' + DNS_LABEL]),
        (container(target={"type": "Utilization"}),
            ["spec.metrics[0].containerResource.target.averageUtilization: Required value: must set either a "
             "target raw value or a target utilization"]),
        (rules(stabilizationWindowSeconds=-1),
            ["spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or "
             "equal to zero"]),
        (rules(stabilizationWindowSeconds=3601),
            ["spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal "
             "to 3600"]),
        (rules(selectPolicy="S"),
            ['spec.behavior.scaleUp.selectPolicy: Unsupported value: "S": supported values: "Disabled", "Max", '
             '"Min"']),
        (rules(policies=[]), ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"]),
        (rules(policies=[{**POLICY, "type": "T"}]),
            ['spec.behavior.scaleUp.policies[0].type: Unsupported value: "T": supported values: "Percent", "Pods"']),
        (rules(policies=[{**POLICY, "value": 0}]),
            ["spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero"]),
        (rules(policies=[{**POLICY, "periodSeconds": 0}]),
            ["spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 0: must be greater than zero"]),
        (rules(policies=[{**POLICY, "periodSeconds": 1801}]),
            ["spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal "
             "to 1800"]),
        (rules(tolerance="-1"),
            ['spec.behavior.scaleUp.tolerance: Invalid value: "-1": must be greater than or equal to 0']),
    ]),
    *updates("horizontalpodautoscalers.autoscaling", AUTOSCALER, [
        ({}, {"spec.maxReplicas": -1},
            ["spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
             "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1"]),
        ({}, {TARGET + "apiVersion": "v1"},
            ['spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group']),
    ]),
    *updates("horizontalpodautoscalers.autoscaling", AUTOSCALER, [
        ({}, {"status.currentReplicas": -1},
            ["status.currentReplicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"status.desiredReplicas": -1},
            ["status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"status.conditions": [{"type": "T", "status": "True", "observedGeneration": -1}]},
            ["status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to 0"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_autoscalers_are_reported(case: Case) -> None:
    assert case.found() == case.errors
