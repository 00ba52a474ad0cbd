# SPDX-License-Identifier: Apache-2.0
"""Documents of several servers made one."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.aggregator.discovery_cache import RemoteVersion, to_aggregated_resources
from kubeloop.apiserver.aggregator.merged_discovery import MergedDiscovery
from kubeloop.apiserver.aggregator.merged_openapi import add_specification
from kubeloop.apiserver.nonresource.discovery import DiscoveryDocuments


def address() -> str:
    return "127.0.0.1:6443"


def names(body: bytes) -> list[str]:
    return [group["name"] for group in msgspec.json.decode(body)["groups"]]


def test_merged_discovery_without_extensions_is_local() -> None:
    alone, merged = DiscoveryDocuments(RESOURCES, address), MergedDiscovery(RESOURCES, address, ())
    assert names(merged.groups()) == names(alone.groups())
    assert msgspec.json.decode(merged.groups()) == msgspec.json.decode(alone.groups())
    assert msgspec.json.decode(merged.aggregated_groups()) == msgspec.json.decode(alone.aggregated_groups())


def test_groups_and_versions_are_sorted_by_priority() -> None:
    remote = [
        RemoteVersion("high.example.com", "v1", 17850, 1),
        RemoteVersion("low.example.com", "v1beta1", 10, 20),
        RemoteVersion("low.example.com", "v1", 10, 5),
        RemoteVersion("low.example.com", "v2", 10, 5),
        RemoteVersion("apps", "v9", 1, 99),
    ]
    merged = MergedDiscovery(RESOURCES, address, remote)
    order = names(merged.groups())
    assert order[:3] == ["apiregistration.k8s.io", "high.example.com", "apps"]
    assert order[-1] == "low.example.com"
    assert merged.versions_of("low.example.com") == ("v1beta1", "v2", "v1")
    assert merged.versions_of("apps") == ("v9", "v1")
    assert merged.group("nobody.example.com") is None


def test_resource_list_becomes_aggregated_discovery() -> None:
    rows = [
        {"name": "gardens/status", "singularName": "", "namespaced": True, "kind": "Garden", "verbs": ["get"]},
        {"name": "gardens", "singularName": "garden", "namespaced": True, "kind": "Garden", "verbs": ["list"]},
        {"name": "arks", "singularName": "ark", "namespaced": False, "kind": "Ark", "verbs": ["get"]},
    ]
    ark, gardens = to_aggregated_resources(rows)
    assert (ark["resource"], ark["scope"]) == ("arks", "Cluster")
    assert gardens["verbs"] == ["list"]
    assert [one["subresource"] for one in gardens["subresources"]] == ["status"]


def test_equal_definitions_are_shared_and_others_renamed() -> None:
    meta = {"type": "object"}
    tree: dict[str, Any] = {"paths": {"/a": {}}, "definitions": {"Meta": meta, "Thing": {"type": "string"}}}
    definitions = {
        "Meta": dict(meta),
        "Thing": {"properties": {"meta": {"$ref": "#/definitions/Meta"}}},
        "Unused": {},
    }
    add_specification(tree, {"/b": {"get": {"schema": {"$ref": "#/definitions/Thing"}}}}, definitions)
    assert sorted(tree["definitions"]) == ["Meta", "Thing", "Thing_v2"]
    assert tree["definitions"]["Thing"] == {"type": "string"}
    assert tree["paths"]["/b"]["get"]["schema"] == {"$ref": "#/definitions/Thing_v2"}
