# SPDX-License-Identifier: Apache-2.0
"""Ownership among kinds that come and go while the collector runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kubeloop.api.errors import InternalError, NotFound
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers import garbage_collector
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.testing import Cluster, config_map
from tests.controllers.custom_resources import define, named, widget
from tests.controllers.ownership import delete, find, owned, reference

WIDGETS = "widgets.example.com"


@pytest.fixture
def gc(cluster: Cluster) -> Cluster:
    cluster.start(garbage_collector.wire)
    return cluster


def custom(cluster: Cluster, name: str) -> Any:
    try:
        return cluster.client.get(WIDGETS, name, "default")
    except NotFound:
        return None


def child_of(owner: Any, name: str = "child") -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "ownerReferences": [named(owner, block=True)]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def test_custom_resources_are_collected_as_soon_as_their_kind_is_served(gc: Cluster) -> None:
    define(gc)
    top = gc.add(config_map("top"))
    middle = gc.client.create(widget("middle", "default", named(top)))
    gc.client.create(child_of(middle))
    gc.settle()
    assert find(gc, "child") is not None
    delete(gc, "top")
    assert custom(gc, "middle") is None
    assert find(gc, "child") is None


@pytest.mark.parametrize("policy", ["Foreground", "Orphan", "Background"])
def test_custom_resource_is_deleted_with_every_policy(gc: Cluster, policy: str) -> None:
    define(gc)
    owner = gc.client.create(widget("owner"))
    gc.client.create(child_of(owner))
    gc.client.create(widget("other", "default", named(owner, block=True)))
    gc.settle()
    gc.client.delete(WIDGETS, "owner", "default", propagation=policy)
    gc.settle()
    assert custom(gc, "owner") is None
    kept = policy == "Orphan"
    assert (find(gc, "child") is not None, custom(gc, "other") is not None) == (kept, kept)
    if kept:
        assert custom(gc, "other").metadata.owner_references == ()


def test_cluster_scoped_custom_resources_can_be_owners(gc: Cluster) -> None:
    define(gc, "gadgets", "Gadget", scope="Cluster")
    owner = gc.client.create(widget("owner", "", kind="Gadget"))
    gc.client.create(child_of(owner))
    gc.settle()
    assert find(gc, "child") is not None
    gc.client.delete("gadgets.example.com", "owner")
    gc.settle()
    assert find(gc, "child") is None


def test_objects_and_dependents_are_deleted_with_their_definition(gc: Cluster) -> None:
    define(gc)
    owner = gc.client.create(widget("owner"))
    gc.client.create(child_of(owner))
    gc.settle()
    gc.client.delete("customresourcedefinitions", WIDGETS)
    gc.advance(10)
    assert find(gc, "child") is None
    define(gc)
    again = gc.client.create(widget("owner"))
    gc.client.create(child_of(again))
    gc.advance(60)
    assert find(gc, "child") is not None


def test_new_owner_kind_is_discovered_immediately(gc: Cluster) -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": "1-2-3"}
    meta = {"name": "child", "namespace": "default", "ownerReferences": [unknown]}
    gc.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    gc.advance(minutes=5)
    assert find(gc, "child") is not None
    define(gc)
    assert find(gc, "child") is None


def test_owners_of_an_undiscoverable_group_are_not_absent(gc: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    define(gc)
    owner = gc.client.create(widget("owner"))
    gc.client.create(child_of(owner))
    gc.settle()
    document = gc.async_client.document

    async def failing(path: str) -> Any:
        if path == "/apis/example.com/v1":
            raise InternalError("no answer")
        return await document(path)

    monkeypatch.setattr(gc.async_client, "document", failing)
    gc.advance(minutes=5)
    assert find(gc, "child") is not None
    gc.client.delete(WIDGETS, "owner", "default")
    gc.settle()
    assert find(gc, "child") is None  # and its kind is still watched


def test_unserved_version_does_not_imply_absent_objects(gc: Cluster) -> None:
    define(gc)
    owner = gc.client.create(widget("owner"))
    gc.settle()
    version = {"name": "v2", "served": True, "storage": False}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": "v1", "served": False, "storage": True, "schema": schema}, version | {"schema": schema}]
    gc.client.patch("customresourcedefinitions", WIDGETS, {"spec": {"versions": versions}})
    gc.client.create(child_of(owner))
    gc.advance(minutes=5)
    assert find(gc, "child") is not None


def test_unlistable_kind_does_not_block_others(cluster: Cluster) -> None:
    """Upstream: TestCascadingDeleteOnCRDConversionFailure."""
    define(cluster)
    cluster.client.create(widget("one"))
    nobody = {"service": {"name": "nobody", "namespace": "default"}}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": nobody, "conversionReviewVersions": ["v1"]}}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v2", "schema": schema} for name in ("v2", "v1")]
    change = {"spec": {"conversion": conversion, "versions": versions}}
    cluster.client.patch(CustomResourceDefinition, "widgets.example.com", change)
    cluster.start(garbage_collector.wire)
    cluster.advance(minutes=1)
    owner = cluster.add(config_map("owner"))
    cluster.client.create(child_of(owner))
    cluster.settle()
    delete(cluster, "owner")
    cluster.advance(1)
    assert find(cluster, "child") is None


def test_objects_are_tracked_across_version_changes(gc: Cluster) -> None:
    define(gc)
    top = gc.add(config_map("top"))
    middle = gc.client.create(widget("middle", "default", named(top)))
    gc.client.create(child_of(middle))
    gc.client.create(widget("leaf", "default", named(top, block=True)))
    gc.settle()
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")]
    gc.client.patch("customresourcedefinitions", WIDGETS, {"spec": {"versions": versions}})
    gc.advance(60)
    watched = [one.selection.resource.version for one in gc.context.informers if one.resource.plural == "widgets"]
    assert watched == ["v2"]
    assert find(gc, "child") is not None
    delete(gc, "top", "Foreground")
    gc.advance(1)
    assert (find(gc, "top"), custom(gc, "middle"), custom(gc, "leaf"), find(gc, "child")) == (None,) * 4


def test_collector_without_discovery_is_unhealthy(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(_: str) -> Any:
        raise InternalError("no answer")

    monkeypatch.setattr(cluster.async_client, "document", failing)
    loop = cluster.start(garbage_collector.wire)
    assert (loop.status().phase, loop.health().ok) == ("waiting for caches", True)
    cluster.advance(150)
    assert loop.health() == (False, "waiting for 150 s for discovery")


def test_collector_can_be_disabled(cluster: Cluster) -> None:
    cluster.context = replace(cluster.context, config=ManagerConfig(enable_garbage_collector=False))
    loop = cluster.start(garbage_collector.wire)
    cluster.add(owned("child", reference(config_map("none"), uid="0-0")))
    cluster.advance(60)
    assert find(cluster, "child") is not None
    assert (loop.status().phase, loop.health().ok) == ("running", True)


def test_failed_discovery_is_counted_and_retried(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    document, broken = cluster.async_client.document, {"everything"}

    async def failing(path: str) -> Any:
        if broken:
            raise InternalError("no answer")
        return await document(path)

    monkeypatch.setattr(cluster.async_client, "document", failing)
    cluster.start(garbage_collector.wire)
    cluster.add(owned("child", reference(config_map("none"), uid="0-0")))
    cluster.advance(20)
    assert find(cluster, "child") is not None
    told = cluster.context.telemetry.registry.render()
    assert "garbagecollector_controller_resources_sync_error_total 1\n" in told
    broken.clear()
    cluster.advance(20)
    assert find(cluster, "child") is None


def test_events_are_not_owners_and_not_watched(gc: Cluster) -> None:
    watched = {one.selection.resource.plural for one in gc.context.informers}
    assert "configmaps" in watched
    assert "events" not in watched


def test_shared_informers_are_reused(cluster: Cluster) -> None:
    cluster.context.informers.for_resource(resource_of_class(ConfigMap))
    cluster.start(garbage_collector.wire)
    found = [one for one in cluster.context.informers if one.selection.resource.plural == "configmaps"]
    assert [one.selection.metadata_only for one in found] == [False]
