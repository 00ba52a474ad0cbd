# SPDX-License-Identifier: Apache-2.0
"""Contract tests of the client: every scenario runs over HTTP with TLS and in process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeloop.api import errors
from kubeloop.api.generated.apps_v1 import Deployment, DeploymentSpec
from kubeloop.api.generated.autoscaling_v1 import Scale
from kubeloop.api.generated.core_v1 import (
    ConfigMap,
    Container,
    Node,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Secret,
    ServiceAccount,
)
from kubeloop.api.generated.meta_v1 import LabelSelector, ObjectMeta, Preconditions
from kubeloop.api.requests import JSON_PATCH, STRATEGIC_PATCH
from kubeloop.api.unstructured import PartialObjectMetadata
from kubeloop.cli.pki.files import Pki
from kubeloop.client.errors import NoKindMatchError, UsageError
from tests.contract.planes import NAMESPACE, PLAYERS, Plane, on_both


def names(objects: Any) -> list[str]:
    return [one.metadata.name for one in objects]


def deployment(name: str, replicas: int = 1) -> Deployment:
    labels = {"app": name}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=(Container(name="c", image="i"),))
    )
    spec = DeploymentSpec(replicas=replicas, selector=LabelSelector(match_labels=labels), template=template)
    return Deployment(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec)


def pod(name: str) -> Pod:
    spec = PodSpec(containers=(Container(name="c", image="i"),))
    return Pod(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec)


# Objects: made, read, changed, deleted.


@on_both
async def test_created_object_is_read_back(plane: Plane) -> None:
    made = await plane.config_map("a", {"key": "wärt"})
    assert made.metadata.uid
    assert await plane.client.get(ConfigMap, "a", NAMESPACE) == made
    assert made.data == {"key": "wärt"}


@on_both
async def test_resource_can_be_given_in_many_forms(plane: Plane) -> None:
    await plane.client.create(deployment("web"))
    for what in (Deployment, "deployments", "deploy", "Deployment", "deployments.apps", "deployments.apps/v1"):
        found = await plane.client.get(what, "web", NAMESPACE)
        assert isinstance(found, Deployment)


@on_both
async def test_mapping_is_accepted_like_a_struct(plane: Plane) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": NAMESPACE}}
    made = await plane.client.create(body)
    assert isinstance(made, ConfigMap)


@on_both
async def test_an_update_replaces_and_a_stale_one_conflicts(plane: Plane) -> None:
    first = await plane.config_map("a", {"n": "1"})
    second = await plane.client.update(msgspec.structs.replace(first, data={"n": "2"}))
    assert second.data == {"n": "2"}
    with pytest.raises(errors.Conflict) as caught:
        await plane.client.update(msgspec.structs.replace(first, data={"n": "3"}))
    assert caught.value.message == f'Operation cannot be fulfilled on configmaps "a": {errors.MODIFIED}'


@on_both
async def test_delete_returns_a_status_and_removes_the_object(plane: Plane) -> None:
    made = await plane.config_map("a")
    answer = await plane.client.delete(ConfigMap, "a", NAMESPACE)
    assert (answer["status"], answer["details"]["uid"]) == ("Success", made.metadata.uid)
    with pytest.raises(errors.NotFound, match=r'^configmaps "a" not found$') as caught:
        await plane.client.get(ConfigMap, "a", NAMESPACE)
    assert caught.value.details == errors.StatusDetails(name="a", kind="configmaps")


@on_both
async def test_delete_honors_preconditions(plane: Plane) -> None:
    await plane.config_map("a")
    with pytest.raises(errors.Conflict):
        await plane.client.delete(ConfigMap, "a", NAMESPACE, preconditions=Preconditions(uid="other"))
    assert await plane.client.get(ConfigMap, "a", NAMESPACE)


@on_both
async def test_object_with_finalizers_is_deleted_later(plane: Plane) -> None:
    meta = ObjectMeta(name="a", namespace=NAMESPACE, finalizers=("example.com/wait",))
    await plane.client.create(ConfigMap(metadata=meta))
    going = await plane.client.delete(ConfigMap, "a", NAMESPACE)
    assert isinstance(going, ConfigMap)
    assert going.metadata.deletion_timestamp


@on_both
async def test_collection_is_deleted_by_labels(plane: Plane) -> None:
    await plane.config_map("a", app="x")
    await plane.config_map("b", app="y")
    await plane.client.delete_collection(ConfigMap, NAMESPACE, labels={"app": "x"})
    left = await plane.client.list(ConfigMap, NAMESPACE, labels="app")
    assert names(left.items) == ["b"]


@on_both
async def test_dry_run_is_not_persisted(plane: Plane) -> None:
    made = await plane.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=NAMESPACE)), dry_run=True)
    assert made.metadata.uid
    with pytest.raises(errors.NotFound):
        await plane.client.get(ConfigMap, "a", NAMESPACE)


# Patches and apply.


@on_both
async def test_merge_json_and_strategic_patches_are_applied(plane: Plane) -> None:
    await plane.config_map("a", {"k": "1", "gone": "x"})
    client = plane.client
    merged = await client.patch(ConfigMap, "a", {"data": {"k": "2", "gone": None}}, NAMESPACE)
    assert merged.data == {"k": "2"}
    steps = [{"op": "test", "path": "/data/k", "value": "2"}, {"op": "add", "path": "/data/j", "value": "3"}]
    assert (await client.patch(ConfigMap, "a", steps, NAMESPACE, type=JSON_PATCH)).data == {"k": "2", "j": "3"}
    strategic = await client.patch(ConfigMap, "a", {"data": {"j": "4"}}, NAMESPACE, type=STRATEGIC_PATCH)
    assert strategic.data == {"k": "2", "j": "4"}


@on_both
async def test_apply_creates_owns_and_conflicts_unless_forced(plane: Plane) -> None:
    client = plane.client
    mine = ConfigMap(metadata=ObjectMeta(name="a", namespace=NAMESPACE), data={"k": "mine"})
    made = await client.apply(mine, manager="me")
    assert [(one.manager, one.operation) for one in made.metadata.managed_fields] == [("me", "Apply")]
    theirs = msgspec.structs.replace(mine, data={"k": "theirs"})
    with pytest.raises(errors.Conflict) as caught:
        await client.apply(theirs, manager="them")
    assert [(one.reason, one.field) for one in caught.value.causes] == [("FieldManagerConflict", ".data.k")]
    forced = await client.apply(theirs, manager="them", force=True)
    assert forced.data == {"k": "theirs"}


@on_both
async def test_applying_a_struct_owns_only_set_fields(plane: Plane) -> None:
    made = await plane.client.apply(deployment("web"), manager="me")
    owned = msgspec.json.decode(made.metadata.managed_fields[0].fields_v1)
    assert set(owned) == {"f:spec"}


# Subresources.


@on_both
async def test_scale_is_read_and_changed_as_a_scale(plane: Plane) -> None:
    await plane.client.create(deployment("web", replicas=2))
    scale = await plane.client.get("deployments", "web", NAMESPACE, subresource="scale")
    assert isinstance(scale, Scale)
    assert scale.spec.replicas == 2
    await plane.client.patch(Deployment, "web", {"spec": {"replicas": 5}}, NAMESPACE, subresource="scale")
    assert (await plane.client.get(Deployment, "web", NAMESPACE)).spec.replicas == 5


@on_both
async def test_status_changes_only_through_its_subresource(plane: Plane) -> None:
    await plane.client.create(deployment("web"))
    body = {"status": {"observedGeneration": 7}}
    ignored = await plane.client.patch(Deployment, "web", body, NAMESPACE)
    assert ignored.status.observed_generation == 0
    changed = await plane.client.patch(Deployment, "web", body, NAMESPACE, subresource="status")
    assert changed.status.observed_generation == 7


@on_both
async def test_a_pod_is_bound_and_evicted(plane: Plane) -> None:
    client = plane.client
    await client.create(ServiceAccount(metadata=ObjectMeta(name="default", namespace=NAMESPACE)))
    await client.create(Node(metadata=ObjectMeta(name="n1")))
    await client.create(pod("p"))
    assert (await client.bind("p", NAMESPACE, "n1"))["status"] == "Success"
    assert (await client.get(Pod, "p", NAMESPACE)).spec.node_name == "n1"
    assert (await client.evict("p", NAMESPACE, grace_seconds=0))["status"] == "Success"


@on_both
async def test_pod_without_a_node_has_an_empty_log(plane: Plane) -> None:
    await plane.client.create(ServiceAccount(metadata=ObjectMeta(name="default", namespace=NAMESPACE)))
    await plane.client.create(pod("p"))
    assert [line async for line in plane.client.stream_logs("p", NAMESPACE)] == []
    with pytest.raises(errors.NotFound, match=r'^pods "q" not found$'):
        await anext(plane.client.stream_logs("q", NAMESPACE))


# Lists.


@on_both
async def test_pages_add_up_to_the_list(plane: Plane) -> None:
    for name in "abcde":
        await plane.config_map(name, app="x")
    pages = [page async for page in plane.client.list_pages(ConfigMap, NAMESPACE, limit=2, labels={"app": "x"})]
    assert [names(page.items) for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    assert len({page.resource_version for page in pages}) == 1


@on_both
async def test_page_has_the_remaining_item_count(plane: Plane) -> None:
    for name in "abc":
        await plane.client.create(Secret(metadata=ObjectMeta(name=name, namespace=NAMESPACE)))
    page = await plane.client.list(Secret, limit=2)
    assert (len(page.items), page.remaining) == (2, 1)


@on_both
async def test_selectors_filter(plane: Plane) -> None:
    for name in "abc":
        await plane.config_map(name, app="x" if name == "a" else "y")
    listed = plane.client.list
    assert names((await listed(ConfigMap, NAMESPACE, labels="app in (x)")).items) == ["a"]
    assert names((await listed(ConfigMap, NAMESPACE, labels={"app": "y"})).items) == ["b", "c"]
    assert names((await listed(ConfigMap, fields={"metadata.name": "c"})).items) == ["c"]


@on_both
async def test_metadata_only_requests_return_metadata(plane: Plane) -> None:
    whole = await plane.config_map("a", {"k": "v"}, app="x")
    partial = PartialObjectMetadata(metadata=whole.metadata)
    assert await plane.client.get(ConfigMap, "a", NAMESPACE, metadata_only=True) == partial
    listed = await plane.client.list(ConfigMap, NAMESPACE, labels="app=x", metadata_only=True)
    assert listed.items == (partial,)
    assert (await plane.events(1, labels="app=x", metadata_only=True))[0].object == partial


# Watches.


@on_both
async def test_watch_delivers_every_change_after_its_version(plane: Plane) -> None:
    since = (await plane.client.list(ConfigMap, NAMESPACE)).resource_version
    made = await plane.config_map("a")
    changed = await plane.client.patch(ConfigMap, "a", {"data": {"k": "v"}}, NAMESPACE)
    await plane.client.delete(ConfigMap, "a", NAMESPACE)
    events = await plane.events(3, resource_version=since)
    assert [one.type for one in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [one.object for one in events[:2]] == [made, changed]
    assert events[2].object.data == {"k": "v"}
    assert events[2].resource_version == events[2].object.metadata.resource_version
    assert int(events[2].resource_version) > int(changed.metadata.resource_version)


@on_both
async def test_running_watch_delivers_new_events(plane: Plane) -> None:
    since = (await plane.client.list(ConfigMap, NAMESPACE)).resource_version
    async with asyncio.TaskGroup() as group:
        heard = group.create_task(plane.events(2, resource_version=since))
        await plane.config_map("a")
        await plane.config_map("b")
    assert names(one.object for one in heard.result()) == ["a", "b"]


@on_both
async def test_object_that_no_longer_matches_is_deleted_for_the_watch(plane: Plane) -> None:
    made = await plane.config_map("a", app="x")
    await plane.client.patch(ConfigMap, "a", {"metadata": {"labels": {"app": "y"}}}, NAMESPACE)
    events = await plane.events(1, resource_version=made.metadata.resource_version, labels="app=x")
    assert [(one.type, one.object.metadata.labels) for one in events] == [("DELETED", {"app": "x"})]


@on_both
async def test_initial_events_end_with_an_annotated_bookmark(plane: Plane) -> None:
    await plane.config_map("a", app="x")
    events = await plane.events(2, initial_events=True, labels="app=x")
    assert [(one.type, one.initial_events_end) for one in events] == [("ADDED", False), ("BOOKMARK", True)]
    assert events[1].object is None
    assert int(events[1].resource_version) >= int(events[0].resource_version)


@on_both
async def test_compacted_version_is_expired(plane: Plane) -> None:
    since = (await plane.config_map("a")).metadata.resource_version
    await plane.config_map("b")
    await plane.config_map("c")
    plane.store.compact(plane.store.revision)
    with pytest.raises(errors.Expired) as caught:
        await plane.events(1, resource_version=since)
    assert caught.value.message == f"too old resource version: {since} ({plane.store.compact_revision})"


@on_both
async def test_watch_ends_after_its_timeout(plane: Plane) -> None:
    since = (await plane.client.list(ConfigMap, NAMESPACE)).resource_version
    watch = plane.client.watch(ConfigMap, NAMESPACE, resource_version=since, timeout_seconds=1)
    assert [batch async for batch in watch] == []


@on_both
async def test_non_numeric_version_is_rejected_before_the_watch(plane: Plane) -> None:
    with pytest.raises(errors.ApiError, match="Invalid value") as caught:
        await plane.events(1, resource_version="x")
    assert caught.value.code == 500


@on_both
async def test_read_can_require_a_minimum_version(plane: Plane) -> None:
    made = await plane.config_map("a")
    version = made.metadata.resource_version
    assert await plane.client.get(ConfigMap, "a", NAMESPACE, resource_version=version) == made
    future = plane.client.with_timeout(0.5).get(ConfigMap, "a", NAMESPACE, resource_version=str(10**9))
    with pytest.raises(errors.Timeout, match="Too large resource version"):
        await future


# Errors and authorization.


async def _every_failure(plane: Plane) -> list[dict[str, Any]]:
    await plane.config_map("a")
    client, failures = plane.client, []
    calls = [
        client.get(ConfigMap, "x", NAMESPACE),
        client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=NAMESPACE))),
        client.create(ConfigMap(metadata=ObjectMeta(name="Not Valid", namespace=NAMESPACE))),
        client.create(ConfigMap(metadata=ObjectMeta(name="b", namespace="absent"))),
        client.patch(ConfigMap, "a", [{"op": "test", "path": "/x", "value": 1}], NAMESPACE, type=JSON_PATCH),
        client.patch(ConfigMap, "a", b"{", NAMESPACE),
        client.get(ConfigMap, "a", NAMESPACE, subresource="nothing"),
        client.list(ConfigMap, NAMESPACE, labels="a b c"),
        client.list(ConfigMap, NAMESPACE, continue_token="!"),
        client.delete(ConfigMap, "x", NAMESPACE),
        client.get(ConfigMap, "a", NAMESPACE, resource_version="x"),
        plane.nobody.get(ConfigMap, "a", NAMESPACE),
        plane.nobody.list(Pod),
        plane.nobody.delete(Node, "n"),
        plane.nobody.patch(Deployment, "d", {}, NAMESPACE, subresource="status"),
        anext(plane.nobody.watch(Pod)),
        plane.nobody.document("/metrics"),
        client.document("/nowhere"),
    ]
    for call in calls:
        with pytest.raises(errors.ApiError) as caught:
            await call
        failures.append(caught.value.status())
    return failures


def test_errors_are_the_same_over_both_transports(pki: Pki, tmp_path: Path) -> None:
    seen: dict[str, list[dict[str, Any]]] = {}
    for transport, player in PLAYERS.items():

        async def scenario(plane: Plane, transport: str = transport) -> None:
            seen[transport] = await _every_failure(plane)

        player(scenario, pki, tmp_path)
    assert seen["http"] == seen["local"]


@on_both
async def test_unprivileged_user_is_forbidden(plane: Plane) -> None:
    with pytest.raises(errors.Forbidden) as caught:
        await plane.nobody.list(Pod, NAMESPACE)
    assert caught.value.message == (
        'pods is forbidden: User "nobody" cannot list resource "pods" in API group "" in the namespace "default"'
    )


@on_both
async def test_invalid_calls_are_rejected_locally(plane: Plane) -> None:
    with pytest.raises(UsageError, match="needs a namespace"):
        await plane.client.get(ConfigMap, "a")
    with pytest.raises(UsageError, match="are not namespaced"):
        await plane.client.get(Node, "n", NAMESPACE)
    with pytest.raises(UsageError, match="needs a name"):
        await plane.client.get(Node, "")


@on_both
async def test_unserved_kind_is_unknown(plane: Plane) -> None:
    for what in ("widgets.example.com/v1", "widgets.example.com", "widgets"):
        with pytest.raises(NoKindMatchError, match="the server does not serve widgets"):
            await plane.client.list(what)


@on_both
async def test_server_returns_its_version(plane: Plane) -> None:
    assert (await plane.client.document("/version"))["major"] == "1"
