# SPDX-License-Identifier: Apache-2.0
"""The targets column of autoscalers, in both versions, and scales."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.autoscaling_v1 import Scale
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.response.tables import cells_of

V2 = "horizontalpodautoscalers.autoscaling/v2"
V1 = "horizontalpodautoscalers.autoscaling/v1"


def resource(target: dict[str, Any], name: str = "cpu") -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def resource_now(current: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", "current": current}}


@pytest.mark.parametrize(
    ("metric", "measured", "shown"),
    [
        (resource({"averageUtilization": 80}), None, "cpu: <unknown>/80%"),
        (resource({"averageUtilization": 80}), resource_now({"averageUtilization": 12}), "cpu: 12%/80%"),
        (resource({"averageUtilization": 80}), resource_now({"averageValue": "1"}), "cpu: <unknown>/80%"),
        (resource({"averageValue": "200m"}), resource_now({"averageValue": "50m"}), "cpu: 50m/200m"),
        (resource({}), None, "cpu: <unknown>/<auto>"),
        (
            {"type": "ContainerResource", "containerResource": {"name": "memory", "target": {"averageUtilization": 5}}},
            {"type": "ContainerResource", "containerResource": {"current": {"averageUtilization": 3}}},
            "memory: 3%/5%",
        ),
        (
            {"type": "Pods", "pods": {"target": {"averageValue": "1k"}}},
            {"type": "Pods", "pods": {"current": {"averageValue": "900"}}},
            "900/1k",
        ),
        ({"type": "Pods", "pods": {"target": {"averageValue": "1k"}}}, None, "<unknown>/1k"),
        (
            {"type": "Object", "object": {"target": {"value": "10"}}},
            {"type": "Object", "object": {"current": {"value": "4"}}},
            "4/10",
        ),
        ({"type": "Object", "object": {"target": {"averageValue": "10"}}}, None, "<unknown>/10 (avg)"),
        (
            {"type": "External", "external": {"target": {"averageValue": "10"}}},
            {"type": "External", "external": {"current": {"averageValue": "6"}}},
            "6/10 (avg)",
        ),
        ({"type": "External", "external": {"target": {"value": "10"}}}, None, "<unknown>/10"),
        ({"type": "Moon"}, None, "<unknown type>"),
    ],
)
def test_each_metric_type_shows_current_and_target(show: Any, metric: Any, measured: Any, shown: str) -> None:
    status = {"currentMetrics": [measured] if measured else None}
    assert show(V2, spec={"metrics": [metric]}, status=status)["Targets"] == shown


def test_metrics_beyond_the_second_are_counted(show: Any) -> None:
    metrics = [resource({"averageUtilization": percent}) for percent in (1, 2, 3, 4)]
    shown = show(V2, spec={"metrics": metrics})["Targets"]
    assert shown == "cpu: <unknown>/1%, cpu: <unknown>/2% + 2 more..."


def test_autoscaler_shows_target_and_bounds(show: Any) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    row = show(V2, spec={"scaleTargetRef": reference, "maxReplicas": 9}, status={"currentReplicas": 3})
    assert list(row.values()) == ["x", "Deployment/d", "<none>", "<unset>", 9, 3, "5m"]


@pytest.mark.parametrize(
    ("percent", "measured", "shown"),
    [(60, 12, "cpu: 12%/60%"), (60, None, "cpu: <unknown>/60%"), (None, None, "cpu: <unknown>/80%")],
)
def test_v1_has_a_cpu_target(show: Any, percent: Any, measured: Any, shown: str) -> None:
    spec, status = {"targetCPUUtilizationPercentage": percent}, {"currentCPUUtilizationPercentage": measured}
    assert show(V1, spec=spec, status=status)["Targets"] == shown


def test_v1_has_other_metrics_in_annotations(show: Any) -> None:
    metrics = [
        {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}},
        {"type": "Object", "object": {"metricName": "m", "targetValue": "7", "target": {"kind": "Service"}}},
    ]
    current = [{"type": "Pods", "pods": {"metricName": "m", "currentAverageValue": "4"}}]
    annotations = {
        "autoscaling.alpha.kubernetes.io/metrics": json.dumps(metrics),
        "autoscaling.alpha.kubernetes.io/current-metrics": json.dumps(current),
    }
    assert show(V1, {"annotations": annotations})["Targets"] == "4/5, <unknown>/7"


@pytest.mark.parametrize("text", ["{", "3", '[{"type": "Pods", "pods": {"targetAverageValue": []}}]'])
def test_invalid_annotation_is_ignored(show: Any, text: str) -> None:
    shown = show(V1, {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": text}})["Targets"]
    assert shown in ("cpu: <unknown>/80%", "<unknown>")


def test_scale_shows_desired_and_available(now: datetime) -> None:
    scale = from_plain({"metadata": {"name": "d"}, "spec": {"replicas": 3}, "status": {"replicas": 2}}, Scale)
    assert cells_of(Resource("autoscaling", "v1", "scales", "Scale"), scale, now) == ["d", 3, 2, "<unknown>"]
