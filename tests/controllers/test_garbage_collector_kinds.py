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
from tests.controllers.custom_kinds import define, named, widget
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


def test_custom_resource_owns_and_is_owned_as_soon_as_its_kind_is_there(gc: Cluster) -> None:
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


def test_custom_resources_without_a_namespace_own_too(gc: Cluster) -> None:
    define(gc, "gadgets", "Gadget", scope="Cluster")
    owner = gc.client.create(widget("owner", "", kind="Gadget"))
    gc.client.create(child_of(owner))
    gc.settle()
    assert find(gc, "child") is not None
    gc.client.delete("gadgets.example.com", "owner")
    gc.settle()
    assert find(gc, "child") is None


def test_objects_go_with_a_definition_and_their_dependents_with_them(gc: Cluster) -> None:
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


def test_kind_of_an_owner_that_comes_later_is_looked_up_at_once(gc: Cluster) -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": "1-2-3"}
    meta = {"name": "child", "namespace": "default", "ownerReferences": [unknown]}
    gc.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    gc.advance(minutes=5)
    assert find(gc, "child") is not None
    define(gc)
    assert find(gc, "child") is None


def test_owners_of_a_group_that_cannot_be_discovered_are_not_absent(
    gc: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_server_that_does_not_serve_a_version_any_more_says_nothing_about_its_objects(gc: Cluster) -> None:
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


def test_kind_that_cannot_be_listed_holds_nobody_else_up(cluster: Cluster) -> None:
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


def test_objects_are_followed_from_one_version_of_their_kind_to_the_next(gc: Cluster) -> None:
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


def test_collector_that_never_learns_the_kinds_is_ill(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(_: str) -> Any:
        raise InternalError("no answer")

    monkeypatch.setattr(cluster.async_client, "document", failing)
    loop = cluster.start(garbage_collector.wire)
    assert (loop.status().phase, loop.health().ok) == ("waiting for caches", True)
    cluster.advance(150)
    assert loop.health() == (False, "waiting for 150 s for the server to tell its kinds")


def test_collector_may_be_turned_off(cluster: Cluster) -> None:
    cluster.context = replace(cluster.context, config=ManagerConfig(enable_garbage_collector=False))
    loop = cluster.start(garbage_collector.wire)
    cluster.add(owned("child", reference(config_map("none"), uid="0-0")))
    cluster.advance(60)
    assert find(cluster, "child") is not None
    assert (loop.status().phase, loop.health().ok) == ("running", True)


def test_failed_discovery_is_counted_and_tried_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_events_own_nothing_and_are_not_watched(gc: Cluster) -> None:
    watched = {one.selection.resource.plural for one in gc.context.informers}
    assert "configmaps" in watched
    assert "events" not in watched


def test_whole_objects_that_another_loop_watches_are_not_watched_twice(cluster: Cluster) -> None:
    cluster.context.informers.of(resource_of_class(ConfigMap))
    cluster.start(garbage_collector.wire)
    found = [one for one in cluster.context.informers if one.selection.resource.plural == "configmaps"]
    assert [one.selection.metadata_only for one in found] == [False]
