# SPDX-License-Identifier: Apache-2.0
"""Gets and lists: versions, pages, selectors and the forms an answer can take."""

from __future__ import annotations

import pytest

CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
PODS = "/api/v1/namespaces/shop/pods"


@pytest.fixture
def three(api):
    """Config maps a, b and c; their answers."""
    return [api.made(CONFIG_MAPS, {"metadata": {"name": name, "labels": {"is": name}}}) for name in "abc"]


def names(answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [one["metadata"]["name"] for one in answer.body["items"]]


def test_list_items_have_no_kind(api, three):
    listed = api.get(CONFIG_MAPS).body
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in listed["items"][0]
    assert listed["items"][0]["metadata"] == three[0]["metadata"]


def test_a_list_across_namespaces_is_sorted_by_namespace_and_name(api, three):
    api.made("/api/v1/namespaces/attic/configmaps", {"metadata": {"name": "z"}})
    assert names(api.get("/api/v1/configmaps")) == ["z", "a", "b", "c"]


def test_pages_continue_at_the_revision_of_the_first(api, three):
    first = api.get(f"{CONFIG_MAPS}?limit=2")
    assert names(first) == ["a", "b"]
    assert first.body["metadata"]["remainingItemCount"] == 1
    token = first.body["metadata"]["continue"]
    api.ask("DELETE", f"{CONFIG_MAPS}/c")
    api.made(CONFIG_MAPS, {"metadata": {"name": "d"}})
    rest = api.get(f"{CONFIG_MAPS}?limit=2&continue={token}")
    assert names(rest) == ["c"]
    assert "continue" not in rest.body["metadata"]


def test_compacted_continue_token_expires_with_an_inconsistent_one(api, three):
    token = api.get(f"{CONFIG_MAPS}?limit=1").body["metadata"]["continue"]
    api.made(CONFIG_MAPS, {"metadata": {"name": "d"}})
    api.store.compact(api.store.revision)
    gone = api.get(f"{CONFIG_MAPS}?continue={token}")
    assert (gone.status, gone.body["reason"]) == (410, "Expired")
    assert names(api.get(f"{CONFIG_MAPS}?continue={gone.body['metadata']['continue']}")) == ["b", "c", "d"]


def test_an_exact_version_shows_the_past(api, three):
    version = three[1]["metadata"]["resourceVersion"]
    past = api.get(f"{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert names(past) == ["a", "b"]
    assert past.body["metadata"]["resourceVersion"] == version
    assert names(api.get(f"{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=NotOlderThan")) == list("abc")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("resourceVersion=abc", 400),
        ("resourceVersion=99999999", 504),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Sometime", 422),
        ("sendInitialEvents=true", 422),
        ("limit=many", 400),
        ("continue=nonsense", 400),
        ("labelSelector=a+b", 400),
        ("fieldSelector=data.x%3D1", 400),
    ],
)
def test_rejected_lists(api, three, query, status):
    answer = api.get(f"{CONFIG_MAPS}?{query}")
    assert (answer.status, answer.body["kind"]) == (status, "Status")


@pytest.mark.parametrize(
    ("selector", "found"),
    [("is=a", "a"), ("is!=a", "bc"), ("is+in+(a,b)", "ab"), ("is+notin+(a,b)", "c"), ("is", "abc"), ("!is", "")],
)
def test_label_selectors_filter(api, three, selector, found):
    assert names(api.get(f"{CONFIG_MAPS}?labelSelector={selector}")) == list(found)


def test_selector_sees_current_labels(api, three):
    assert names(api.get(f"{CONFIG_MAPS}?labelSelector=is%3Dnew")) == []
    api.patch("merge", f"{CONFIG_MAPS}/b", {"metadata": {"labels": {"is": "new"}}})
    assert names(api.get(f"{CONFIG_MAPS}?labelSelector=is%3Dnew")) == ["b"]


def test_pods_are_selected_by_their_fields(api, pods):
    pods("free")
    pods("bound", nodeName="n", restartPolicy="Never")
    assert names(api.get(f"{PODS}?fieldSelector=spec.nodeName%3Dn")) == ["bound"]
    assert names(api.get(f"{PODS}?fieldSelector=spec.nodeName%3D")) == ["free"]
    assert names(api.get(f"{PODS}?fieldSelector=spec.restartPolicy!%3DNever,status.phase%3DPending")) == ["free"]
    assert names(api.get("/api/v1/pods?fieldSelector=metadata.namespace%3Dshop,metadata.name%3Dfree")) == ["free"]
    unknown = api.get(f"{PODS}?fieldSelector=spec.containers%3Dx")
    assert unknown.body["message"] == "field label not supported: spec.containers"


def test_metadata_only_can_be_requested(api, three):
    one = api.get(f"{CONFIG_MAPS}/a", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").body
    assert (one["kind"], one["metadata"]) == ("PartialObjectMetadata", three[0]["metadata"])
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    many = api.get(CONFIG_MAPS, accept=accept).body
    assert [item["kind"] for item in many["items"]] == ["PartialObjectMetadata"] * 3
    assert api.get(f"{CONFIG_MAPS}/a", accept=accept).status == 406


def test_table_has_a_row_per_object(api, three):
    table = api.get(CONFIG_MAPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][0] for row in table["rows"]] == ["a", "b", "c"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_yaml_is_returned_on_request(api, three):
    answer = api.get(f"{CONFIG_MAPS}/a", accept="application/yaml")
    assert b"kind: ConfigMap" in answer.body


def test_unknown_media_type_is_not_acceptable(api, three):
    assert api.get(CONFIG_MAPS, accept="text/html").status == 406


def test_two_versions_of_a_kind_show_the_same_object(api):
    target = {"type": "Utilization", "averageUtilization": 60}
    scaler = {
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }
    made = api.made("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers", scaler)
    seen = api.get("/apis/autoscaling/v1/namespaces/shop/horizontalpodautoscalers/h").body
    assert seen["apiVersion"] == "autoscaling/v1"
    assert seen["spec"]["targetCPUUtilizationPercentage"] == 60
    assert seen["metadata"]["uid"] == made["metadata"]["uid"]
    listed = api.get("/apis/autoscaling/v1/namespaces/shop/horizontalpodautoscalers").body
    assert listed["items"][0]["metadata"]["name"] == "h"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/namespaces/shop/nosuch", 404),
        ("GET", "/api/v1/namespaces/shop/configmaps/a/status", 404),
        ("POST", "/api/v1/configmaps", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("POST", "/api/v1/namespaces/shop/configmaps/a", 405),
        ("GET", "/apis/apps/v9/namespaces/shop/deployments", 404),
        ("GET", "/api/v1/namespaces/shop/configmaps/%2e%2e", 400),
    ],
)
def test_unknown_paths_return_404(api, method, path, status):
    answer = api.ask(method, path)
    assert (answer.status, answer.body["kind"], answer.body["code"]) == (status, "Status", status)


def test_unknown_group_is_not_found(api):
    assert api.get("/apis/nosuch.example.org/v1/things").body == b"404 page not found\n"


def test_unprivileged_user_is_forbidden(api, three):
    answer = api.get(CONFIG_MAPS, token="nobody")
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    why = 'User "nobody" cannot list resource "configmaps" in API group "" in the namespace "shop"'
    assert answer.body["message"] == f"configmaps is forbidden: {why}"
    assert api.get(CONFIG_MAPS, token="forged").status == 401
