# SPDX-License-Identifier: Apache-2.0
"""Tests of managedFields for fields that are empty, emptied, or added by the server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.conftest import Api

NAMESPACE = "/api/v1/namespaces/default"


def fields_of(body: Any) -> list[Any]:
    return [entry["fieldsV1"] for entry in body["metadata"].get("managedFields", [])]


def test_zero_values_of_an_event_have_no_owner(api: Api) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    created = api.post(f"{NAMESPACE}/events", event).body
    assert created["eventTime"] is None
    assert fields_of(created) == [{"f:involvedObject": {}}]
    patched = api.ask("PATCH", f"{NAMESPACE}/events/e", [], content_type="application/json-patch+json").body
    assert fields_of(patched) == [{"f:involvedObject": {}}]


def test_empty_scalars_have_no_owner_after_a_patch(api: Api) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(path, {"metadata": {"name": "p"}})
    patch = {"apiVersion": "scheduling.k8s.io/v1"}
    patched = api.ask("PATCH", f"{path}/p", patch, content_type="application/strategic-merge-patch+json").body
    assert fields_of(patched) == [{"f:preemptionPolicy": {}}]


@pytest.mark.parametrize("automount", [False, True])
def test_an_optional_scalar_that_is_set_has_an_owner(api: Api, automount: bool) -> None:
    document = {"metadata": {"name": "s"}, "imagePullSecrets": [{"name": "x"}]}
    api.post(f"{NAMESPACE}/serviceaccounts", document)
    updated = api.put(f"{NAMESPACE}/serviceaccounts/s", document | {"automountServiceAccountToken": automount}).body
    assert "f:automountServiceAccountToken" in fields_of(updated)[0]


def test_an_emptied_map_has_no_owner(api: Api) -> None:
    meta = {"name": "c", "labels": {"a": "b"}}
    api.post(f"{NAMESPACE}/configmaps", {"metadata": meta, "data": {"k": "v"}})
    updated = api.ask("PUT", f"{NAMESPACE}/configmaps/c", {"metadata": meta, "data": {}}).body
    assert fields_of(updated) == [{"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}]


def test_the_creator_of_a_daemon_set_owns_its_template_generation(api: Api) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    document = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    created = api.post("/apis/apps/v1/namespaces/default/daemonsets", document).body
    assert created["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
    owned = fields_of(created)[0]["f:metadata"]["f:annotations"]
    assert owned == {".": {}, "f:deprecated.daemonset.template.generation": {}}


def test_an_object_with_a_list_item_without_keys_keeps_its_owners(api: Api) -> None:
    broken = {"metadata": {"name": "s"}, "secrets": [{"name": "s"}, {"kind": "K"}]}
    assert fields_of(api.post(f"{NAMESPACE}/serviceaccounts", broken).body) == []
    created = api.post(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "t"}, "secrets": [{"name": "s"}]}).body
    broken["metadata"] = {"name": "t"}
    assert fields_of(api.ask("PUT", f"{NAMESPACE}/serviceaccounts/t", broken).body) == fields_of(created) != []


def test_a_limit_range_without_a_name_gets_one(api: Api) -> None:
    created = api.post(f"{NAMESPACE}/limitranges", {"spec": {"limits": []}})
    assert created.status == 201
    assert len(created.body["metadata"]["name"]) == 36


def test_an_empty_list_of_metadata_has_no_items(api: Api) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert api.get(f"{NAMESPACE}/configmaps?fieldSelector=metadata.name%3Dmissing", accept=accept).body["items"] is None


@pytest.mark.parametrize("kind", ["PartialObjectMetadata", "Table"])
def test_metadata_of_a_daemon_set_has_no_template_generation(api: Api, kind: str) -> None:
    """As upstream, whose internal type has a field for it; the object itself has the annotation."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    meta = {"name": "d", "annotations": {"kept": "1"}}
    document = {"metadata": meta, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    sets = "/apis/apps/v1/namespaces/default/daemonsets"
    api.made(sets, document)
    body = api.get(f"{sets}/d", accept=f"application/json;as={kind};g=meta.k8s.io;v=v1").body
    shown = body["rows"][0]["object"]["metadata"] if kind == "Table" else body["metadata"]
    assert (shown["name"], shown["annotations"]) == ("d", {"kept": "1"})
    assert len(api.get(f"{sets}/d").body["metadata"]["annotations"]) == 2


def test_a_dry_run_returns_the_resource_version_that_was_sent(api: Api) -> None:
    created = api.post(f"{NAMESPACE}/configmaps?dryRun=All", {"metadata": {"name": "c", "resourceVersion": "-1"}})
    assert (created.status, created.body["metadata"]["resourceVersion"]) == (201, "-1")


@pytest.mark.parametrize("spec", [{}, {"devices": {}}, {"devices": {"requests": None}}])
def test_a_claim_without_requests_has_no_owners(api: Api, spec: dict[str, object]) -> None:
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    assert fields_of(api.made(path, {"metadata": {"name": "c"}, "spec": spec})) == []
