# SPDX-License-Identifier: Apache-2.0
"""Tests of discovery documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubeloop.api.kinds import RESOURCES, SCALE, STATUS, Resource
from kubeloop.apiserver.nonresource.discovery import AGGREGATED_MEDIA_TYPE, DiscoveryDocuments, wants_aggregated
from kubeloop.apiserver.request.etag import etag_of, is_not_modified


def discovery(*resources: Resource) -> DiscoveryDocuments:
    return DiscoveryDocuments(resources or RESOURCES, lambda: "192.0.2.1:6443")


def decoded(document: bytes | None) -> Any:
    assert document is not None
    return json.loads(document)


def rows(group: str, version: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in decoded(discovery().resources(group, version))["resources"]}


def test_core_group_has_versions_and_server_address() -> None:
    assert decoded(discovery().core_versions()) == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "192.0.2.1:6443"}],
    }


def test_server_address_is_evaluated_per_request() -> None:
    addresses = iter(["a:1", "b:2"])
    changing = DiscoveryDocuments(RESOURCES, lambda: next(addresses))
    first, second = (decoded(changing.core_versions())["serverAddressByClientCIDRs"][0] for _ in range(2))
    assert (first["serverAddress"], second["serverAddress"]) == ("a:1", "b:2")


def test_groups_are_in_table_order_without_core() -> None:
    names = [group["name"] for group in decoded(discovery().groups())["groups"]]
    assert names == list(dict.fromkeys(resource.group for resource in RESOURCES if resource.group))


def test_the_first_version_of_a_group_is_its_preferred_one() -> None:
    group = decoded(discovery().group("autoscaling"))
    assert [version["version"] for version in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}
    assert discovery().versions_of("autoscaling") == ("v2", "v1")


@pytest.mark.parametrize("group", ["", "nosuch.example.org"])
def test_core_and_unknown_groups_have_no_group_document(group: str) -> None:
    assert discovery().group(group) is None


def test_an_unknown_version_has_no_resources() -> None:
    assert discovery().resources("apps", "v2") is None
    assert discovery().resources("nosuch.example.org", "v1") is None


def test_every_resource_and_subresource_has_a_row() -> None:
    for resource in RESOURCES:
        found = rows(resource.group, resource.version)
        assert found[resource.plural]["kind"] == resource.kind
        for subresource in resource.subresources:
            assert found[f"{resource.plural}/{subresource.name}"]["verbs"] == list(subresource.verbs)


def test_rows_are_sorted_by_name() -> None:
    names = list(rows("", "v1"))
    assert names == sorted(names)


def test_only_stored_resources_have_a_storage_version_hash() -> None:
    core = rows("", "v1")
    assert "storageVersionHash" in core["pods"]
    assert not any("storageVersionHash" in core[name] for name in ("bindings", "componentstatuses", "pods/status"))
    assert (
        rows("autoscaling", "v1")["horizontalpodautoscalers"]["storageVersionHash"]
        == (rows("autoscaling", "v2")["horizontalpodautoscalers"]["storageVersionHash"])
    )


def test_subresource_has_a_group_only_if_it_differs() -> None:
    core = rows("", "v1")
    assert core["pods/eviction"] | {"verbs": []} == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": [],
    }
    assert core["pods/status"] == {
        "name": "pods/status",
        "singularName": "",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get", "patch", "update"],
    }


def test_only_named_groups_have_the_api_version_of_the_list() -> None:
    assert "apiVersion" not in decoded(discovery().resources("", "v1"))
    assert decoded(discovery().resources("apps", "v1"))["apiVersion"] == "v1"


def test_empty_short_names_are_omitted() -> None:
    assert not {"shortNames", "categories"} & rows("", "v1")["secrets"].keys()
    assert rows("apps", "v1")["deployments"]["shortNames"] == ["deploy"]
    assert rows("apps", "v1")["deployments"]["categories"] == ["all"]


def test_subresources_keep_the_order_they_are_declared_in() -> None:
    thing = Resource("example.org", "v1", "things", "Thing", subresources=(STATUS, SCALE))
    listed = decoded(discovery(thing).resources("example.org", "v1"))["resources"]
    assert [row["name"] for row in listed] == ["things", "things/status", "things/scale"]


def test_aggregated_discovery_equals_the_legacy_form() -> None:
    for item in decoded(discovery().aggregated_groups())["items"] + decoded(discovery().aggregated_core())["items"]:
        group = item["metadata"].get("name", "")
        for version in item["versions"]:
            assert version["freshness"] == "Current"
            plain = rows(group, version["version"])
            told = {entry["resource"]: entry["verbs"] for entry in version["resources"]}
            for entry in version["resources"]:
                for sub in entry.get("subresources", []):
                    told[f"{entry['resource']}/{sub['subresource']}"] = sub["verbs"]
            assert told == {name: row["verbs"] for name, row in plain.items()}


def test_aggregated_entries_name_scope_and_foreign_kinds() -> None:
    (core,) = decoded(discovery().aggregated_core())["items"]
    entries = {entry["resource"]: entry for entry in core["versions"][0]["resources"]}
    assert entries["nodes"]["scope"] == "Cluster"
    assert entries["pods"]["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    kinds = {sub["subresource"]: sub["responseKind"] for sub in entries["pods"]["subresources"]}
    assert kinds["eviction"] == {"group": "policy", "version": "v1", "kind": "Eviction"}


def test_aggregated_etags_follow_the_content() -> None:
    assert discovery().aggregated_groups_etag() == etag_of(discovery().aggregated_groups())
    assert discovery().aggregated_core_etag() == discovery().aggregated_core_etag()
    assert discovery(*RESOURCES[:-1]).aggregated_groups_etag() != discovery().aggregated_groups_etag()


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (AGGREGATED_MEDIA_TYPE, True),
        (AGGREGATED_MEDIA_TYPE + ";profile=nopeer", True),
        (AGGREGATED_MEDIA_TYPE + ",application/json", True),
        ("application/json," + AGGREGATED_MEDIA_TYPE, False),
        (AGGREGATED_MEDIA_TYPE.replace("v2", "v2beta1"), False),
        (AGGREGATED_MEDIA_TYPE.replace("v2", "v2beta1") + "," + AGGREGATED_MEDIA_TYPE, True),
        (AGGREGATED_MEDIA_TYPE.replace("v2", "v2beta1") + ",application/json", False),
        ("application/vnd.kubernetes.protobuf," + AGGREGATED_MEDIA_TYPE, True),
        ("", False),
    ],
)
def test_aggregated_form_is_returned_if_preferred(accept: str, wanted: bool) -> None:
    assert wants_aggregated(accept) is wanted


@pytest.mark.parametrize(
    ("header", "known"),
    [('"A"', True), ('W/"A"', True), ('"B", "A"', True), ("*", True), ('"B"', False), ("A", False), ("", False)],
)
def test_matching_etag_returns_304(header: str, known: bool) -> None:
    assert is_not_modified('"A"', header) is known


@pytest.mark.parametrize(
    ("group", "version", "plural", "hashed"),
    [
        ("", "v1", "pods", "xPOwRZ+Yhw8="),
        ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "jfWCUB31mvA="),
        ("certificates.k8s.io", "v1", "clustertrustbundles", "v5yhuVertL4="),
        ("certificates.k8s.io", "v1", "podcertificaterequests", "wYA9yXQH8fg="),
        ("resource.k8s.io", "v1", "devicetaintrules", "i+85+TcIKpA="),
        ("storagemigration.k8s.io", "v1", "storageversionmigrations", "pCjmmKOkLy4="),
    ],
)
def test_hashes_of_storage_versions_are_upstreams(group: str, version: str, plural: str, hashed: str) -> None:
    assert rows(group, version)[plural]["storageVersionHash"] == hashed
