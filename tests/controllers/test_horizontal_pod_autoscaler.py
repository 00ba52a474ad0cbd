# SPDX-License-Identifier: Apache-2.0
"""Autoscalers read metrics and resize what they target."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from kubeloop.api import errors
from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.api.generated.autoscaling_v2 import HorizontalPodAutoscaler
from kubeloop.api.generated.core_v1 import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.wire import Quantity
from kubeloop.controllers.horizontal_pod_autoscaler import wire
from kubeloop.testing import Cluster, deployment
from tests.controllers.deployments import NS, start
from tests.controllers.metrics_apis import Metrics

PERIOD = 15


@pytest.fixture
def metrics(cluster: Cluster) -> Metrics:
    """Deployment whose pods request 100m CPU, with its controllers."""
    start(cluster)
    found = Metrics(cluster)
    add_target(cluster, 2)
    cluster.advance(minutes=10)
    return found


def autoscale(cluster: Cluster, metrics: Metrics, account: str = "") -> None:
    context = metrics.context(account)
    cluster.start(lambda _: wire(context))


def add_target(cluster: Cluster, replicas: int, name: str = "app") -> None:
    requests = ResourceRequirements(requests={"cpu": Quantity("100m"), "memory": Quantity("100Mi")})
    pod = PodSpec(containers=(Container(name="app", image="x", resources=requests),))
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": name}), spec=pod)
    cluster.add(deployment(name, replicas=replicas, template=template))


def cpu(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def add(cluster: Cluster, *metrics: dict[str, Any], least: int = 1, most: int = 10, **spec: Any) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"}
    cluster.client.create(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "namespace": NS},
            "spec": {
                "scaleTargetRef": reference,
                "minReplicas": least,
                "maxReplicas": most,
                "metrics": list(metrics),
                **spec,
            },
        }
    )


def get(cluster: Cluster, name: str = "h") -> HorizontalPodAutoscaler:
    found: HorizontalPodAutoscaler = cluster.client.get(HorizontalPodAutoscaler, name, NS)
    return found


def size(cluster: Cluster) -> int | None:
    found: Deployment = cluster.client.get(Deployment, "app", NS)
    return found.spec.replicas


def condition_summary(cluster: Cluster, type: str) -> tuple[str, str, str] | None:
    found = find_condition(get(cluster).status.conditions, type)
    return None if found is None else (found.status, found.reason, found.message)


def warnings(cluster: Cluster, reason: str) -> set[str]:
    return {one.message for one in cluster.events(reason=reason)}


# Resources


def test_high_usage_scales_up_and_low_usage_scales_down_after_stabilization(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "100m"}
    autoscale(cluster, metrics)
    add(cluster, cpu(50))
    cluster.advance(1)
    assert size(cluster) == 4
    said = get(cluster).status
    assert (said.current_replicas, said.desired_replicas, said.observed_generation) == (2, 4, 1)
    assert said.last_scale_time is not None
    (current,) = said.current_metrics or ()
    assert current.resource is not None
    assert (current.resource.current.average_utilization, current.resource.current.average_value) == (100, "100m")
    assert condition_summary(cluster, "AbleToScale") == (
        "True", "SucceededRescale", "the HPA controller was able to update the target scale to 4"
    )  # fmt: skip
    name = "cpu resource utilization (percentage of request)"
    assert condition_summary(cluster, "ScalingActive") == (
        "True", "ValidMetricFound", f"the HPA was able to successfully calculate a replica count from {name}"
    )  # fmt: skip
    within = ("False", "DesiredWithinRange", "the desired count is within the acceptable range")
    assert condition_summary(cluster, "ScalingLimited") == within
    (event,) = cluster.events(reason="SuccessfulRescale")
    assert event.message == f"New size: 4; reason: {name} above target"
    assert event.source.component == "horizontal-pod-autoscaler"
    metrics.use = {"cpu": "10m"}
    cluster.advance(minutes=4)
    assert size(cluster) == 4
    assert condition_summary(cluster, "AbleToScale") == (
        "True",
        "ScaleDownStabilized",
        "recent recommendations were higher than current one, applying the highest recent recommendation",
    )
    cluster.advance(minutes=2)
    assert size(cluster) == 1
    assert warnings(cluster, "SuccessfulRescale") >= {"New size: 1; reason: All metrics below target"}


def test_usage_within_tolerance_changes_nothing(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "54m"}
    autoscale(cluster, metrics)
    add(cluster, cpu(50))
    cluster.advance(minutes=10)
    assert size(cluster) == 2
    ready = ("True", "ReadyForNewScale", "recommended size matches current size")
    assert condition_summary(cluster, "AbleToScale") == ready
    assert get(cluster).status.last_scale_time is None
    (event, *others) = cluster.events(reason="SuccessfulRescale") or [None]
    assert (event, others) == (None, [])


def test_tolerance_of_the_behavior_overrides_the_flag(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "54m"}
    autoscale(cluster, metrics)
    add(cluster, cpu(50), behavior={"scaleUp": {"tolerance": "0.05"}})
    cluster.advance(1)
    assert size(cluster) == 3


def test_scale_up_is_rate_limited(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "1000m"}
    autoscale(cluster, metrics)
    add(cluster, cpu(50), most=30)
    cluster.advance(1)
    assert size(cluster) == 4
    limited = ("True", "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
    assert condition_summary(cluster, "ScalingLimited") == limited
    cluster.advance(minutes=5)
    assert size(cluster) == 30
    limited = ("True", "TooManyReplicas", "the desired replica count is more than the maximum replica count")
    assert condition_summary(cluster, "ScalingLimited") == limited


def test_average_memory_value_uses_binary_units(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"memory": "200Mi"}
    autoscale(cluster, metrics)
    target = {"type": "AverageValue", "averageValue": "100Mi"}
    add(cluster, {"type": "Resource", "resource": {"name": "memory", "target": target}})
    cluster.advance(1)
    assert size(cluster) == 4
    (current,) = get(cluster).status.current_metrics or ()
    assert current.resource is not None
    assert current.resource.current.average_value == "200Mi"
    assert warnings(cluster, "SuccessfulRescale") == {"New size: 4; reason: memory resource above target"}


def test_container_resource_metric_uses_one_container(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "100m"}
    autoscale(cluster, metrics)
    target = {"type": "Utilization", "averageUtilization": 50}
    source = {"name": "cpu", "container": "app", "target": target}
    add(cluster, {"type": "ContainerResource", "containerResource": source})
    cluster.advance(1)
    assert size(cluster) == 4
    reason = "cpu container resource utilization (percentage of request) above target"
    assert warnings(cluster, "SuccessfulRescale") == {f"New size: 4; reason: {reason}"}


# Others


def test_pods_metric_is_averaged(cluster: Cluster, metrics: Metrics) -> None:
    metrics.custom = {"/pods/*/qps": "30"}
    autoscale(cluster, metrics)
    source = {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    add(cluster, {"type": "Pods", "pods": source})
    cluster.advance(1)
    assert size(cluster) == 4
    asked = next(one for one in metrics.asked if "qps" in one)
    assert urlsplit(asked).path == f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/{NS}/pods/*/qps"
    assert parse_qs(urlsplit(asked).query) == {"labelSelector": ["app=app"]}
    assert warnings(cluster, "SuccessfulRescale") == {"New size: 4; reason: pods metric qps above target"}


@pytest.mark.parametrize(
    ("target", "expected"),
    [({"type": "Value", "value": "10"}, 4), ({"type": "AverageValue", "averageValue": "5"}, 4)],
)
def test_object_metric(cluster: Cluster, metrics: Metrics, target: dict[str, str], expected: int) -> None:
    metrics.custom = {"/services/front/hits": "20"}
    autoscale(cluster, metrics)
    about = {"kind": "Service", "name": "front", "apiVersion": "v1"}
    add(cluster, {"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": about, "target": target}})
    cluster.advance(1)
    assert size(cluster) == expected
    (current,) = get(cluster).status.current_metrics or ()
    assert current.object is not None
    assert current.object.described_object.name == "front"


@pytest.mark.parametrize("target", [{"type": "Value", "value": "10"}, {"type": "AverageValue", "averageValue": "5"}])
def test_external_metric_is_summed(cluster: Cluster, metrics: Metrics, target: dict[str, str]) -> None:
    metrics.external = {"queue": ["15", "5"]}
    autoscale(cluster, metrics)
    chosen = {"matchLabels": {"name": "jobs"}}
    add(cluster, {"type": "External", "external": {"metric": {"name": "queue", "selector": chosen}, "target": target}})
    cluster.advance(1)
    assert size(cluster) == 4
    words = "&LabelSelector{MatchLabels:map[string]string{name: jobs,},MatchExpressions:[]LabelSelectorRequirement{},}"
    expected = {f"New size: 4; reason: external metric queue({words}) above target"}
    assert warnings(cluster, "SuccessfulRescale") == expected


def test_external_metrics_scale_to_and_from_zero(cluster: Cluster, metrics: Metrics) -> None:
    metrics.external = {"queue": ["0"]}
    autoscale(cluster, metrics)
    target = {"type": "AverageValue", "averageValue": "5"}
    add(cluster, {"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}, least=0)
    cluster.advance(minutes=6)
    assert size(cluster) == 0
    zero = ("True", "ScaledToZero", "the HPA controller scaled the workload to zero")
    assert condition_summary(cluster, "ScaledToZero") == zero
    metrics.external = {"queue": ["12"]}
    cluster.advance(minutes=1)
    assert size(cluster) == 3
    assert condition_summary(cluster, "ScaledToZero") == (
        "False", "NotScaledToZero", "the HPA controller did not scale the workload to zero"
    )  # fmt: skip


# Bounds


def test_replicas_outside_of_bounds_are_corrected_without_metrics(cluster: Cluster, metrics: Metrics) -> None:
    autoscale(cluster, metrics)
    add(cluster, cpu(50), least=3, most=5)
    cluster.advance(1)
    assert size(cluster) == 3
    assert condition_summary(cluster, "ScalingActive") is None
    said = get(cluster).status
    assert (said.current_metrics, said.current_replicas, said.desired_replicas) == (None, 2, 3)
    cluster.client.patch(Deployment, "app", {"spec": {"replicas": 9}}, NS)
    cluster.advance(PERIOD + 1)
    assert size(cluster) == 5
    assert warnings(cluster, "SuccessfulRescale") == {
        "New size: 3; reason: Current number of replicas below Spec.MinReplicas",
        "New size: 5; reason: Current number of replicas above Spec.MaxReplicas",
    }


def test_target_scaled_to_zero_is_not_autoscaled(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "100m"}
    cluster.client.patch(Deployment, "app", {"spec": {"replicas": 0}}, NS)
    autoscale(cluster, metrics)
    add(cluster, cpu(50))
    cluster.advance(minutes=2)
    assert size(cluster) == 0
    off = ("False", "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
    assert condition_summary(cluster, "ScalingActive") == off


def test_behavior_rates_are_honored(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "1000m"}
    autoscale(cluster, metrics)
    one_a_minute = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
    add(cluster, cpu(50), behavior={"scaleUp": one_a_minute, "scaleDown": {**one_a_minute, "selectPolicy": "Disabled"}})
    cluster.advance(1)
    assert size(cluster) == 3
    cluster.advance(45)
    assert size(cluster) == 3
    cluster.advance(20)
    assert size(cluster) == 4
    metrics.use = {"cpu": "0"}
    cluster.advance(minutes=30)
    assert size(cluster) >= 4  # type: ignore[operator]
    limited = ("True", "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
    assert condition_summary(cluster, "ScalingLimited") == limited


# Failures


def test_missing_metrics_set_a_condition(cluster: Cluster, metrics: Metrics) -> None:
    autoscale(cluster, metrics)
    add(cluster, cpu(50))
    cluster.advance(1)
    why = (
        "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource "
        "metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
    )
    assert warnings(cluster, "FailedGetResourceMetric") == {why}
    assert warnings(cluster, "FailedComputeMetricsReplicas") == {
        f"invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {why}"
    }
    assert condition_summary(cluster, "ScalingActive") == (
        "False", "FailedGetResourceMetric", f"the HPA was unable to compute the replica count: {why}"
    )  # fmt: skip
    assert condition_summary(cluster, "AbleToScale") == (
        "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale"
    )  # fmt: skip
    said = get(cluster).status
    assert (said.current_replicas, said.desired_replicas) == (2, 0)
    assert [one.type for one in said.current_metrics or ()] == [""]


def test_one_valid_metric_scales_up_but_not_down(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "100m"}
    autoscale(cluster, metrics)
    source = {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    add(cluster, {"type": "Pods", "pods": source}, cpu(50))
    cluster.advance(1)
    assert size(cluster) == 4
    why = "unable to get metric qps: unable to fetch metrics from custom metrics API: no custom metrics API "
    assert warnings(cluster, "FailedGetPodsMetric") == {why + "(custom.metrics.k8s.io) registered"}
    metrics.use = {"cpu": "1m"}
    cluster.advance(minutes=10)
    assert size(cluster) == 4
    said = condition_summary(cluster, "ScalingActive")
    assert said is not None
    assert said[:2] == ("False", "FailedGetPodsMetric")


def test_missing_target_sets_a_condition(cluster: Cluster, metrics: Metrics) -> None:
    autoscale(cluster, metrics)
    cluster.client.delete(Deployment, "app", NS)
    add(cluster, cpu(50))
    cluster.advance(1)
    why = 'deployments.apps "app" not found'
    assert warnings(cluster, "FailedGetScale") == {why}
    message = f"the HPA controller was unable to get the target's current scale: {why}"
    assert condition_summary(cluster, "AbleToScale") == ("False", "FailedGetScale", message)


def test_ambiguous_selector_disables_scaling(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "100m"}
    autoscale(cluster, metrics)
    add(cluster, cpu(50))
    document = {**_plain(get(cluster)), "metadata": {"name": "other", "namespace": NS}}
    cluster.client.create(document)
    cluster.advance(minutes=1)
    words = "pods by selector app=app are controlled by more than one HPA (e.g. [{h default} {other default}])"
    assert warnings(cluster, "AmbiguousSelector") == {words}
    said = condition_summary(cluster, "ScalingActive")
    assert said == ("False", "AmbiguousSelector", words)


def _plain(autoscaler: HorizontalPodAutoscaler) -> dict[str, Any]:
    from kubeloop.api import codec

    document: dict[str, Any] = codec.to_plain(autoscaler)
    document.pop("status", None)
    return document


def test_scale_conflict_is_retried(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "100m"}
    autoscale(cluster, metrics)
    cluster.faults.conflict("update", "deployments", times=2)
    add(cluster, cpu(50))
    cluster.advance(1)
    assert size(cluster) == 4


def test_controllers_role_is_sufficient(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "100m"}
    autoscale(cluster, metrics, "horizontal-pod-autoscaler")
    add(cluster, cpu(50))
    cluster.advance(1)
    assert size(cluster) == 4
    assert get(cluster).status.desired_replicas == 4


def test_metrics_are_read_once_per_sync_period(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "50m"}
    writes = cluster.faults.delay(0, "get", "deployments", times=None)
    autoscale(cluster, metrics)
    add(cluster, cpu(50))
    cluster.advance(1)
    before = writes.hits
    cluster.advance(timedelta(minutes=10).total_seconds())
    assert writes.hits - before == 40


# Targets of any kind


def test_custom_kind_with_a_scale_can_be_a_target(cluster: Cluster, metrics: Metrics) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    paths = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"scale": paths, "status": {}},
    }
    names = {"plural": "fleets", "singular": "fleet", "kind": "Fleet", "listKind": "FleetList"}
    cluster.client.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "fleets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
        }
    )
    cluster.advance(10)
    fleet = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "f", "namespace": NS}}
    cluster.client.create({**fleet, "spec": {"replicas": 2}})
    said = {"replicas": 2, "selector": "app=app"}
    cluster.client.patch("fleets.example.com/v1", "f", {"status": said}, NS, subresource="status")
    metrics.use = {"cpu": "100m"}
    autoscale(cluster, metrics)
    add(cluster, cpu(50), scaleTargetRef={"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f"})
    cluster.advance(1)
    assert cluster.client.get("fleets.example.com/v1", "f", NS)["spec"]["replicas"] == 4


def test_unknown_target_kind_sets_a_condition(cluster: Cluster, metrics: Metrics) -> None:
    autoscale(cluster, metrics)
    add(cluster, cpu(50), scaleTargetRef={"apiVersion": "example.com/v1", "kind": "Nothing", "name": "f"})
    cluster.advance(1)
    assert warnings(cluster, "FailedGetScale") == {'no matches for kind "Nothing" in group "example.com"'}


def test_failed_scale_update_sets_a_condition(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "100m"}
    autoscale(cluster, metrics)
    cluster.faults.fail("update", "deployments", errors.forbidden("apps", "deployments", "app", "no"), times=1)
    add(cluster, cpu(50))
    cluster.advance(1)
    assert size(cluster) == 2
    why = 'deployments.apps "app" is forbidden: no'
    reason = "cpu resource utilization (percentage of request) above target"
    assert warnings(cluster, "FailedRescale") == {f"New size: 4; reason: {reason}; error: {why}"}
    message = f"the HPA controller was unable to update the target scale: {why}"
    assert condition_summary(cluster, "AbleToScale") == ("False", "FailedUpdateScale", message)
    cluster.advance(PERIOD)
    assert size(cluster) == 4


# Instruments


def test_metrics_count_reconciliations(cluster: Cluster, metrics: Metrics) -> None:
    metrics.use = {"cpu": "100m"}
    autoscale(cluster, metrics)
    add(cluster, cpu(50))
    cluster.advance(1)
    prefix = "horizontal_pod_autoscaler_controller_"
    shown = set(cluster.context.telemetry.registry.render().splitlines())
    assert {
        f'{prefix}reconciliations_total{{action="scale_up",error="none"}} 1',
        f'{prefix}metric_computation_total{{action="scale_up",error="none",metric_type="Resource"}} 1',
        f'{prefix}desired_replicas{{hpa_name="h",namespace="default"}} 4',
        f"{prefix}num_horizontal_pod_autoscalers 1",
    } <= shown
    cluster.client.delete(HorizontalPodAutoscaler, "h", NS)
    cluster.advance(1)
    assert "desired_replicas{" not in cluster.context.telemetry.registry.render()


def test_metrics_count_failed_metric_computations(cluster: Cluster, metrics: Metrics) -> None:
    """The other metrics are sufficient (upstream: TestScaleUpOneMetricEmpty, TestNoScaleDownOneMetricEmpty)."""
    metrics.use = {"cpu": "100m"}
    autoscale(cluster, metrics)
    source = {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    add(cluster, {"type": "External", "external": source}, cpu(50))
    cluster.advance(1)
    metrics.use = {"cpu": "1m"}
    cluster.advance(PERIOD)
    prefix = "horizontal_pod_autoscaler_controller_reconciliations_total"
    shown = set(cluster.context.telemetry.registry.render().splitlines())
    assert {f'{prefix}{{action="{one}",error="internal"}} 1' for one in ("scale_up", "none")} <= shown
    assert size(cluster) == 4


def test_zero_replicas_disable_scaling_without_the_feature_gate(cluster: Cluster, metrics: Metrics) -> None:
    """Upstream: TestScaleToZeroBehavior, TestScaleUpCMObject."""
    metrics.external = {"queue": ["0"]}
    context = metrics.context()
    gates = ("HPAScaleToZero=false",)
    config = msgspec.structs.replace(context.config, feature_gates=gates)
    cluster.start(lambda _: wire(replace(context, config=config)))
    source = {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}}
    add(cluster, {"type": "External", "external": source}, least=0)
    cluster.advance(minutes=10)
    assert (size(cluster), condition_summary(cluster, "ScaledToZero")) == (0, None)
    metrics.external = {"queue": ["40"]}
    cluster.advance(minutes=1)
    assert size(cluster) == 0
    said = ("False", "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
    assert condition_summary(cluster, "ScalingActive") == said
