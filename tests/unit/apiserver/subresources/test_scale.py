# SPDX-License-Identifier: Apache-2.0
"""The number of replicas of a workload, seen and set without the workload."""

from __future__ import annotations

import pytest

DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"
SCALE = f"{DEPLOYMENTS}/web/scale"
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}


def scale(replicas, **metadata):
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web", **metadata},
        "spec": {"replicas": replicas},
    }


@pytest.fixture
def web(api):
    return api.made(DEPLOYMENTS, WEB)


def owners(api, field="f:replicas"):
    """Return the owners of a field of the deployment's spec: (manager, operation, subresource, has a time)."""
    entries = api.get(f"{DEPLOYMENTS}/web").body["metadata"]["managedFields"]
    return [
        (entry["manager"], entry["operation"], entry.get("subresource", ""), "time" in entry)
        for entry in entries
        if field in entry["fieldsV1"].get("f:spec", {})
    ]


def test_scale_has_replicas_selector_and_identity(api, web):
    meta = web["metadata"]
    shown = api.get(SCALE).body
    assert shown["spec"] == {"replicas": 2}
    assert shown["status"] == {"replicas": 0, "selector": "app=web"}
    assert shown["metadata"] == {
        name: meta[name] for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }


@pytest.mark.parametrize(
    ("collection", "kind", "selector"),
    [
        ("/apis/apps/v1/namespaces/shop/replicasets", "ReplicaSet", {"matchLabels": {"app": "web"}}),
        ("/apis/apps/v1/namespaces/shop/statefulsets", "StatefulSet", {"matchLabels": {"app": "web"}}),
        ("/api/v1/namespaces/shop/replicationcontrollers", "ReplicationController", {"app": "web"}),
    ],
)
def test_every_workload_with_replicas_scales(api, collection, kind, selector):
    spec = {"selector": selector, "template": TEMPLATE}
    api.made(collection, {"metadata": {"name": "web"}, "spec": spec})
    assert api.patch("merge", f"{collection}/web/scale", {"spec": {"replicas": 3}}).body["spec"] == {"replicas": 3}
    assert api.get(f"{collection}/web/scale").body["status"]["selector"] == "app=web"
    assert api.get(f"{collection}/web").body["spec"]["replicas"] == 3


def test_updated_scale_increases_the_generation(api, web):
    answer = api.put(SCALE, scale(5, namespace="shop"))
    assert (answer.status, answer.body["spec"]["replicas"]) == (200, 5)
    deployment = api.get(f"{DEPLOYMENTS}/web").body
    assert (deployment["spec"]["replicas"], deployment["metadata"]["generation"]) == (5, 2)
    assert deployment["metadata"]["resourceVersion"] == answer.body["metadata"]["resourceVersion"]


def test_scale_without_replicas_is_zero(api, web):
    assert api.put(SCALE, {"metadata": {"name": "web"}}).body["spec"] == {}
    assert api.get(f"{DEPLOYMENTS}/web").body["spec"]["replicas"] == 0


def test_scale_status_cannot_be_set(api, web):
    answer = api.put(SCALE, {**scale(4), "status": {"replicas": 9, "selector": "x=y"}})
    assert answer.body["status"] == {"replicas": 0, "selector": "app=web"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", {"spec": {"replicas": 7}}),
        ("strategic", {"spec": {"replicas": 7}}),
        ("json", [{"op": "replace", "path": "/spec/replicas", "value": 7}]),
    ],
)
def test_every_kind_of_patch_scales(api, web, kind, patch):
    assert api.patch(kind, SCALE, patch).body["spec"] == {"replicas": 7}


def test_failed_patch_test_is_rejected(api, web):
    answer = api.patch("json", SCALE, [{"op": "test", "path": "/spec/replicas", "value": 9}])
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


def test_an_old_resource_version_conflicts(api, web):
    old = web["metadata"]["resourceVersion"]
    assert api.put(SCALE, scale(3, resourceVersion=old)).status == 200
    answer = api.put(SCALE, scale(4, resourceVersion=old))
    assert answer.status == 409
    assert 'cannot be fulfilled on deployments.apps "web": the object has been modified' in answer.body["message"]


def test_the_scale_of_another_object_conflicts(api, web):
    answer = api.put(SCALE, scale(3, uid="other"))
    assert answer.status == 409
    assert "Precondition failed: UID in precondition: other, UID in object meta: " in answer.body["message"]
    assert "Key: /registry/deployments/shop/web, " in answer.body["message"]


def test_negative_replicas_are_invalid_as_a_scale(api, web):
    answer = api.put(SCALE, scale(-1))
    expected = (
        'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )
    assert (answer.status, answer.body["message"]) == (422, expected)


def test_scale_name_must_match_the_path(api, web):
    answer = api.put(SCALE, scale(1, name="other"))
    assert (answer.status, answer.body["message"]) == (
        400,
        "the name of the object (other) does not match the name on the URL (web)",
    )


@pytest.mark.parametrize(
    ("method", "body", "media"),
    [
        ("GET", None, ""),
        ("PUT", scale(1, name="none"), "application/json"),
        ("PATCH", {}, "application/merge-patch+json"),
    ],
)
def test_scale_of_a_missing_workload_is_not_found(api, method, body, media):
    answer = api.ask(method, f"{DEPLOYMENTS}/none/scale", body, content_type=media)
    assert (answer.status, answer.body["message"]) == (404, 'deployments.apps "none" not found')


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_scales_are_neither_created_nor_deleted(api, web, method):
    assert api.ask(method, SCALE, scale(1)).status == 405


def test_dry_run_of_a_scale_changes_nothing(api, web):
    assert api.put(f"{SCALE}?dryRun=All", scale(9)).body["spec"]["replicas"] == 9
    assert api.get(SCALE).body["spec"]["replicas"] == 2


def test_scaling_moves_ownership_of_replicas_without_a_time(api, web):
    assert owners(api) == [("unknown", "Update", "", True)]
    api.patch("merge", f"{SCALE}?fieldManager=autoscaler", {"spec": {"replicas": 6}})
    assert owners(api) == [("autoscaler", "Update", "scale", False)]
    assert owners(api, "f:template") == [("unknown", "Update", "", True)]


def test_no_op_scaling_keeps_the_owner(api, web):
    api.patch("merge", f"{SCALE}?fieldManager=autoscaler", {"spec": {"replicas": 2}})
    assert owners(api) == [("unknown", "Update", "", True)]


def test_zero_replicas_have_no_owner(api, web):
    api.patch("merge", SCALE, {"spec": {"replicas": 0}})
    assert owners(api) == []


def test_applying_a_scale_conflicts_with_the_owner_of_the_replicas_unless_forced(api, web):
    api.patch("merge", f"{SCALE}?fieldManager=autoscaler", {"spec": {"replicas": 6}})
    refused = api.patch("apply", f"{SCALE}?fieldManager=me", scale(4))
    assert refused.status == 409
    assert refused.body["message"] == (
        "Apply failed with 1 conflict: "
        'conflict with "autoscaler" with subresource "scale" using apps/v1: .spec.replicas'
    )
    forced = api.patch("apply", f"{SCALE}?fieldManager=me&force=true", scale(4))
    assert forced.body["spec"] == {"replicas": 4}
    assert owners(api) == [("me", "Apply", "scale", False)]


def test_scale_can_be_read_as_metadata_only(api, web):
    shown = api.get(SCALE, accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").body
    assert (shown["kind"], shown["metadata"]["name"]) == ("PartialObjectMetadata", "web")
    assert "spec" not in shown


def test_scale_can_be_read_as_a_table(api, web):
    table = api.get(SCALE, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    assert table["rows"][0]["cells"][:3] == ["web", 2, 0]
    assert table["rows"][0]["object"]["metadata"]["name"] == "web"
