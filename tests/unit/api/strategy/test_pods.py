# SPDX-License-Identifier: Apache-2.0
"""Tests of the pod strategy: creation, updates and deletion."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.generated.core_v1 import Binding, Pod, PodSpec
from kubeloop.api.strategy.pods.binding import bind_pod, binding_error
from kubeloop.api.strategy.pods.pod import POD, grace_period_of
from kubeloop.api.strategy.pods.qos import qos_class_of

NOW = "2026-01-31T09:30:00Z"


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    spec = {"containers": [{"name": "c", "image": "app:1"}], **(spec or {})}
    obj = codec.from_plain({"metadata": {"name": "p", **metadata}, "spec": spec, "status": status or {}}, Pod)
    apply_defaults(obj)
    return obj


def created(spec: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    obj = pod(spec, **metadata)
    POD.prepare_create(obj, DEFAULT_FEATURES)
    return obj


def with_resources(*resources: dict[str, Any]) -> PodSpec:
    containers = [{"name": f"c{index}", "resources": each} for index, each in enumerate(resources)]
    return pod({"containers": containers}).spec


def test_new_pod_is_pending() -> None:
    obj = pod(status={"phase": "Running", "podIP": "10.0.0.1"})
    POD.prepare_create(obj, DEFAULT_FEATURES)
    assert codec.to_plain(obj)["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert obj.metadata.generation == 1


SAME = {"limits": {"cpu": "1", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"limits": {"example.com/gpu": "1"}}], "BestEffort"),
        ([SAME], "Guaranteed"),
        ([{"limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1024Mi"}}], "Guaranteed"),
        ([{"limits": {"memory": "1Gi"}, "requests": {"memory": "1073741824"}}], "Burstable"),
        ([SAME, {}], "Burstable"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "0", "memory": "0"}}], "BestEffort"),
    ],
)
def test_qos_class_follows_from_resources(resources: list[dict[str, Any]], expected: str) -> None:
    assert qos_class_of(with_resources(*resources)) == expected


def test_pod_level_resources_decide_the_qos_class() -> None:
    assert created({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}).status.qos_class == "Guaranteed"


def test_pod_level_requests_default_from_containers_then_limits() -> None:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "200m"}}}
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    spec = created(
        {
            "containers": [container],
            "initContainers": [sidecar],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        }
    ).spec
    assert spec.resources is not None
    assert spec.resources.requests == {"cpu": "300m", "memory": "1Gi"}


def test_pod_level_limits_default_if_all_containers_have_limits() -> None:
    containers = [{"name": name, "resources": {"limits": {"cpu": "1"}}} for name in ("a", "b")]
    spec = created({"containers": containers, "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}).spec
    assert spec.resources is not None
    assert spec.resources.limits == {"cpu": "3"}


def test_gated_pod_has_a_condition_with_time() -> None:
    obj = created({"schedulingGates": [{"name": "wait"}]})
    assert POD.set_timestamps is not None
    POD.set_timestamps(obj, None, NOW)
    assert codec.to_plain(obj)["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": None,
            "lastTransitionTime": NOW,
        }
    ]


def test_label_keys_become_requirements() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["app", "absent"],
    }
    spec = codec.to_plain(created({"topologySpreadConstraints": [constraint]}, labels={"app": "a"}))["spec"]
    assert spec["topologySpreadConstraints"][0]["labelSelector"] == {
        "matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]
    }


@pytest.mark.parametrize(
    ("annotation", "profile"),
    [
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("unconfined", {"type": "Unconfined"}),
        ("localhost/mine", {"type": "Localhost", "localhostProfile": "mine"}),
        ("localhost/", None),
        ("nonsense", None),
    ],
)
def test_app_armor_annotations_become_fields(annotation: str, profile: dict[str, str] | None) -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    container = codec.to_plain(created(annotations={key: annotation}))["spec"]["containers"][0]
    assert container.get("securityContext", {}).get("appArmorProfile") == profile


def test_fields_of_disabled_features_are_dropped() -> None:
    container = {
        "name": "c",
        "image": "app:1",
        "lifecycle": {"stopSignal": "SIGTERM"},
        "livenessProbe": {"httpGet": {"port": 1, "protocol": "HTTP2"}},
        "volumeMounts": [{"name": "v", "mountPath": "/", "bindMountOptions": ["x"]}],
    }
    volume = {"name": "v", "emptyDir": {"mode": 1}}
    secret = {"name": "s", "secret": {"secretName": "s", "defaultUser": 7}}
    spec = codec.to_plain(
        created({"containers": [container], "volumes": [volume, secret], "evictionResponders": [{"name": "x.y/z"}]})
    )["spec"]
    assert "lifecycle" not in spec["containers"][0]
    assert "protocol" not in spec["containers"][0]["livenessProbe"]["httpGet"]
    assert "bindMountOptions" not in spec["containers"][0]["volumeMounts"][0]
    assert spec["volumes"][0]["emptyDir"] == {}
    assert "defaultUser" not in spec["volumes"][1]["secret"]
    assert "evictionResponders" not in spec


def test_disabled_field_in_use_is_kept() -> None:
    volumes = {"volumes": [{"name": "v", "emptyDir": {"mode": 1}}]}
    old, new = pod(volumes), pod({**volumes, "activeDeadlineSeconds": 5})
    POD.prepare_update(new, old, DEFAULT_FEATURES)
    assert new.spec.volumes == old.spec.volumes


def test_update_with_an_equal_spec_shares_it() -> None:
    old, same, changed = created(), pod(), pod({"activeDeadlineSeconds": 5})
    POD.prepare_update(same, old, DEFAULT_FEATURES)
    POD.prepare_update(changed, old, DEFAULT_FEATURES)
    assert same.spec is old.spec
    assert changed.spec is not old.spec
    assert changed.spec.active_deadline_seconds == 5


def test_update_drops_annotations_of_init_containers() -> None:
    annotations = {"pod.beta.kubernetes.io/init-containers": "[]", "kept": "yes"}
    new = pod(annotations=annotations)
    POD.prepare_update(new, created(), DEFAULT_FEATURES)
    assert new.metadata.annotations == {"kept": "yes"}


def test_update_keeps_status_and_increases_generation_on_spec_changes() -> None:
    old = created()
    same, changed = pod(status={"phase": "Running"}), pod({"activeDeadlineSeconds": 5})
    POD.prepare_update(same, old, DEFAULT_FEATURES)
    POD.prepare_update(changed, old, DEFAULT_FEATURES)
    assert same.status is old.status
    assert (same.metadata.generation, changed.metadata.generation) == (1, 2)


def test_status_update_keeps_owners_and_qos_class() -> None:
    owner = {"apiVersion": "v1", "kind": "X", "name": "o", "uid": "1"}
    old = created(ownerReferences=[owner])
    new = pod({"activeDeadlineSeconds": 5}, status={"phase": "Running"})
    POD.prepare_status_update(new, old, DEFAULT_FEATURES)
    assert (new.status.phase, new.status.qos_class) == ("Running", "BestEffort")
    assert new.metadata.owner_references == old.metadata.owner_references
    assert new.spec is old.spec


def test_status_update_keeps_unknown_observed_generations() -> None:
    old = pod(
        status={"observedGeneration": 4, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 4}]}
    )
    new = pod(status={"conditions": [{"type": "Ready", "status": "False"}]})
    POD.prepare_status_update(new, old, DEFAULT_FEATURES)
    assert new.status.observed_generation == 4
    assert new.status.conditions[0].observed_generation == 4


def test_ephemeral_containers_change_nothing_else() -> None:
    old = created()
    new = pod({"ephemeralContainers": [{"name": "e", "image": "app:1"}], "nodeName": "n"}, labels={"x": "y"})
    POD.subresource_updates["ephemeralcontainers"](new, old, DEFAULT_FEATURES)
    assert [container.name for container in new.spec.ephemeral_containers] == ["e"]
    assert (new.spec.node_name, dict(new.metadata.labels), new.metadata.generation) == ("", {}, 2)
    assert old.spec.ephemeral_containers == ()


def test_resize_changes_resources_only() -> None:
    old = created()
    bigger = {"name": "c", "image": "other:1", "resources": {"requests": {"cpu": "1"}}}
    new = pod({"containers": [bigger]})
    POD.subresource_updates["resize"](new, old, DEFAULT_FEATURES)
    container = codec.to_plain(new)["spec"]["containers"][0]
    assert (container["image"], container["resources"]) == ("app:1", {"requests": {"cpu": "1"}})
    assert new.metadata.generation == 2


def test_resize_with_renamed_containers_is_left_to_validation() -> None:
    new = pod({"containers": [{"name": "other", "image": "app:1"}]})
    POD.subresource_updates["resize"](new, created(), DEFAULT_FEATURES)
    assert codec.to_plain(new)["spec"]["containers"][0]["name"] == "other"


@pytest.mark.parametrize(
    ("spec", "phase", "requested", "seconds"),
    [
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 5}, "Running", None, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n"}, "Running", -1, 1),
        ({}, "Pending", None, 0),
        ({"nodeName": "n"}, "Succeeded", None, 0),
        ({"nodeName": "n"}, "Failed", 10, 0),
    ],
)
def test_the_grace_period(spec: dict[str, Any], phase: str, requested: int | None, seconds: int) -> None:
    assert grace_period_of(pod(spec, status={"phase": phase}), requested) == seconds


def test_a_bound_pod_has_its_node_and_a_condition() -> None:
    binding = codec.from_plain({"metadata": {"labels": {"zone": "a"}}, "target": {"name": "n"}}, Binding)
    before = created()
    assert binding_error(before) is None
    after = bind_pod(before, binding, NOW)
    assert (after.spec.node_name, after.metadata.labels["zone"]) == ("n", "a")
    assert [(each.type, each.status, each.last_transition_time) for each in after.status.conditions] == [
        ("PodScheduled", "True", NOW)
    ]
    assert binding_error(after) == 'pod p is already assigned to node "n"'
    assert before.spec.node_name == ""


def test_a_gated_pod_is_not_bound() -> None:
    assert binding_error(created({"schedulingGates": [{"name": "wait"}]})) == (
        "pod p has non-empty .spec.schedulingGates"
    )
