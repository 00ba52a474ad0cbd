# SPDX-License-Identifier: Apache-2.0
"""autoscaling/v1 shows what it can of a v2 autoscaler and carries the rest in annotations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.conversions.autoscaling import BEHAVIOR, CONDITIONS, CURRENT_METRICS, METRICS, to_v1, to_v2
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.generated import autoscaling_v1 as v1
from kubeloop.api.generated import autoscaling_v2 as v2


def autoscaler(annotations: dict[str, str] | None = None, **spec: Any) -> v2.HorizontalPodAutoscaler:
    return codec.from_plain(
        {"metadata": {"name": "h", "annotations": annotations or {}}, "spec": {"maxReplicas": 5, **spec}},
        v2.HorizontalPodAutoscaler,
    )


def old(annotations: dict[str, str] | None = None, **spec: Any) -> v1.HorizontalPodAutoscaler:
    return codec.from_plain(
        {"metadata": {"name": "h", "annotations": annotations or {}}, "spec": {"maxReplicas": 5, **spec}},
        v1.HorizontalPodAutoscaler,
    )


def cpu(percentage: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percentage}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def test_the_first_cpu_utilization_is_a_field_of_v1() -> None:
    shown = to_v1(autoscaler(metrics=[cpu(60), cpu(70)]))
    assert shown.spec.target_cpu_utilization_percentage == 60
    assert shown.metadata.annotations == {}


def test_other_metrics_are_annotations_in_v2beta1_form() -> None:
    metrics = [
        {
            "type": "Pods",
            "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "1500m"}},
        },
        {
            "type": "Object",
            "object": {
                "describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"},
                "metric": {"name": "hits"},
                "target": {"type": "Value", "value": "2k"},
            },
        },
    ]
    assert to_v1(autoscaler(metrics=metrics)).metadata.annotations[METRICS] == (
        '[{"type":"Pods","pods":{"metricName":"q","targetAverageValue":"1500m"}},'
        '{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},'
        '"metricName":"hits","targetValue":"2k"}}]'
    )


def test_behavior_round_trips() -> None:
    behavior = {"scaleUp": {"selectPolicy": "Min", "policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}]}}
    assert to_v1(autoscaler(behavior=behavior)).metadata.annotations[BEHAVIOR] == (
        '{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":"Min",'
        '"Policies":[{"Type":"Pods","Value":2,"PeriodSeconds":30}],"Tolerance":null},"ScaleDown":null}'
    )


def test_conditions_and_current_metrics_round_trip() -> None:
    status = {
        "conditions": [{"type": "AbleToScale", "status": "True", "message": "a<b"}],
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}],
    }
    source = codec.from_plain({"status": status}, v2.HorizontalPodAutoscaler)
    shown = to_v1(source)
    assert shown.status.current_cpu_utilization_percentage == 7
    assert shown.metadata.annotations[CONDITIONS] == (
        '[{"type":"AbleToScale","status":"True","lastTransitionTime":null,"message":"a\\u003cb"}]'
    )
    assert json.loads(shown.metadata.annotations[CURRENT_METRICS]) == [
        {"type": "Resource", "resource": {"name": "cpu", "currentAverageUtilization": 7, "currentAverageValue": "0"}}
    ]


def test_annotations_of_v1_become_fields_of_v2_and_are_completed() -> None:
    carried = {
        METRICS: '[{"type":"Pods","pods":{"metricName":"q","targetAverageValue":"5"}}]',
        BEHAVIOR: '{"ScaleUp":{"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":15}]}}',
        "own": "x",
    }
    stored = to_v2(old(carried))
    assert stored.metadata.annotations == {"own": "x"}
    assert [metric.type for metric in stored.spec.metrics] == ["Pods"]
    assert stored.spec.behavior is not None
    assert stored.spec.behavior.scale_down is not None


def test_missing_metrics_default_to_cpu_at_eighty_percent() -> None:
    metric = to_v2(old()).spec.metrics[0]
    assert metric.resource is not None
    assert metric.resource.target.average_utilization == 80


@pytest.mark.parametrize("text", ["", "{", "5", '[{"type":5}]', "[" * 100_000])
def test_invalid_annotations_are_dropped(text: str) -> None:
    stored = to_v2(
        old(dict.fromkeys((METRICS, BEHAVIOR, CURRENT_METRICS, CONDITIONS), text), targetCPUUtilizationPercentage=3)
    )
    assert stored.metadata.annotations == {}
    assert len(stored.spec.metrics) == 1
    assert stored.spec.behavior is None


def test_v1_hides_manual_conversion_annotations() -> None:
    assert to_v1(autoscaler({METRICS: "mine", "own": "x"}, metrics=[cpu(5)])).metadata.annotations == {"own": "x"}


QUANTITIES = st.sampled_from(["1", "1500m", "2k", "3Gi"])
NAMES = st.sampled_from(["a", "b<c", "memory"])
SELECTORS = st.none() | st.just({"matchLabels": {"a": "b"}})
NUMBERS = st.integers(0, 100)


def _identified(**inner: Any) -> st.SearchStrategy[dict[str, Any]]:
    metric = st.builds(
        lambda name, selector: {"name": name} | ({"selector": selector} if selector else {}), NAMES, SELECTORS
    )
    return st.fixed_dictionaries({"metric": metric, **inner})


def _target(kind: str, field: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda value: {"type": kind, field: value}, values)


AVERAGE = _target("AverageValue", "averageValue", QUANTITIES)
VALUE = _target("Value", "value", QUANTITIES)
UTILIZATION = _target("Utilization", "averageUtilization", NUMBERS)
DESCRIBED = st.just({"kind": "Service", "name": "s"})
METRIC_SPECS = st.one_of(
    st.builds(lambda one: {"type": "Pods", "pods": one}, _identified(target=AVERAGE)),
    st.builds(
        lambda one: {"type": "Object", "object": one}, _identified(target=AVERAGE | VALUE, describedObject=DESCRIBED)
    ),
    st.builds(lambda one: {"type": "External", "external": one}, _identified(target=AVERAGE | VALUE)),
    st.builds(
        lambda target: {"type": "Resource", "resource": {"name": "memory", "target": target}}, AVERAGE | UTILIZATION
    ),
    st.builds(
        lambda target: {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "container": "c", "target": target},
        },
        AVERAGE | UTILIZATION,
    ),
)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "stabilizationWindowSeconds": NUMBERS,
        "selectPolicy": st.sampled_from(["Max", "Min"]),
        "tolerance": QUANTITIES,
        "policies": st.just([{"type": "Pods", "value": 1, "periodSeconds": 15}]),
    },
)
BEHAVIORS = st.fixed_dictionaries({"scaleUp": RULES}, optional={"scaleDown": RULES})


@settings(max_examples=60)
@given(st.lists(METRIC_SPECS, max_size=4), st.none() | BEHAVIORS, st.none() | NUMBERS)
def test_v2_round_trips_through_v1(
    metrics: list[dict[str, Any]], behavior: dict[str, Any] | None, percentage: int | None
) -> None:
    spec = {"metrics": metrics + ([cpu(percentage)] if percentage is not None else [])}
    source = autoscaler({"own": "x"}, **spec, **({"behavior": behavior} if behavior else {}))
    apply_defaults(source)
    before = codec.encode(source)
    assert to_v2(to_v1(source)) == source
    assert codec.encode(source) == before


@settings(max_examples=30)
@given(st.none() | NUMBERS)
def test_v1_round_trips_through_v2(target: int | None) -> None:
    spec = {} if target is None else {"targetCPUUtilizationPercentage": target}
    source = old({"own": "x"}, minReplicas=1, **spec)
    before = codec.encode(source)
    back = to_v1(to_v2(source))
    assert back.spec.target_cpu_utilization_percentage == (80 if target is None else target)
    assert back.metadata == source.metadata
    assert codec.encode(source) == before
