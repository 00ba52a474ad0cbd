# SPDX-License-Identifier: Apache-2.0
"""Tests of the `cluster` fixture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import ConfigMap, Node, Pod
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.testing import Cluster, config_map, namespace, node, pod
from kubeloop.testing.cache_guard import CacheMutatedError
from kubeloop.testing.hosted_loops import LoopEndedError
from tests.unit.testing.counting_controller import NOTE, counting

MakeCluster = Callable[..., Cluster]


def counted(cluster: Cluster, name: str) -> str | None:
    note: str | None = cluster.client.get(ConfigMap, name, "default").metadata.annotations.get(NOTE)
    return note


# A server like any other.


def test_new_cluster_has_bootstrap_objects(cluster: Cluster) -> None:
    names = {one.metadata.name for one in cluster.client.list("namespaces").items}
    assert names == {"default", "kube-node-lease", "kube-public", "kube-system"}
    assert cluster.client.get("clusterroles", "cluster-admin").metadata.uid
    assert cluster.client.get("services", "kubernetes", "default").spec.cluster_ip == "10.0.0.1"


def test_objects_are_defaulted_admitted_and_validated(cluster: Cluster) -> None:
    made = cluster.client.create(pod("web"))
    assert made.spec.restart_policy == "Always"
    assert made.spec.service_account_name == "default"
    with pytest.raises(errors.Invalid):
        cluster.client.create(pod("Web"))


def test_a_new_namespace_gets_its_default_account(cluster: Cluster) -> None:
    cluster.client.create(namespace("shop"))
    cluster.settle()
    assert cluster.client.create(pod("web", "shop")).metadata.namespace == "shop"


def test_added_objects_keep_their_status(cluster: Cluster) -> None:
    assert cluster.add(node("one", cpu="2")).status.capacity["cpu"] == "2"
    cluster.add(pod("a", phase="Running"), pod("b"))
    phases = {one.metadata.name: one.status.phase for one in cluster.client.list(Pod).items}
    assert phases == {"a": "Running", "b": "Pending"}


def test_other_users_have_the_permissions_of_their_roles(cluster: Cluster) -> None:
    with pytest.raises(errors.Forbidden):
        cluster.as_user("somebody").list(Pod)
    assert cluster.as_user("root", "system:masters").list(Pod).items == ()


def test_a_watch_is_a_plain_iterator(cluster: Cluster) -> None:
    cluster.client.create(config_map("one"))
    watch = cluster.client.watch(ConfigMap, "default", resource_version="0")
    assert [event.object.metadata.name for event in next(watch)] == ["one"]
    watch.close()


# Apart from each other.


def test_clusters_of_one_test_are_independent(make_cluster: MakeCluster) -> None:
    clusters = [make_cluster(seed=number) for number in range(100)]
    for number, one in enumerate(clusters):
        one.client.create(config_map(f"of-{number}"))
    assert [[found.metadata.name for found in one.client.list(ConfigMap, "default").items] for one in clusters] == [
        [f"of-{number}"] for number in range(100)
    ]


def test_the_same_seed_gives_the_same_run(make_cluster: MakeCluster) -> None:
    def uid(seed: int) -> str:
        return str(make_cluster(seed=seed, shuffle=True).client.create(config_map("one")).metadata.uid)

    assert uid(7) == uid(7) != uid(8)


# Time.


def test_time_is_frozen_until_advanced(cluster: Cluster) -> None:
    before = cluster.clock.now()
    cluster.client.create(config_map("one"))
    cluster.settle()
    assert cluster.clock.now() == before
    cluster.advance(hours=3, minutes=30)
    assert cluster.clock.now() - before == timedelta(hours=3.5)


def test_coroutines_run_in_virtual_time(cluster: Cluster) -> None:
    async def scenario() -> Any:
        await cluster.async_client.create(config_map("one"))
        await asyncio.sleep(86400)
        return await cluster.async_client.get(ConfigMap, "one", "default")

    assert cluster.run(scenario()).metadata.name == "one"


def test_eventually_advances_time(cluster: Cluster) -> None:
    began = cluster.clock.monotonic()
    cluster.eventually(lambda: cluster.clock.monotonic() > began + 5, within=10)
    with pytest.raises(AssertionError, match=r"still 0 after 10 s"):
        cluster.eventually(lambda: 0, within=10)


# Loops.


def test_added_controller_sees_existing_and_new_objects(cluster: Cluster) -> None:
    cluster.add(config_map("early", {"a": "1"}, labels={"count": "yes"}))
    cluster.start(counting)
    assert counted(cluster, "early") == "1"
    cluster.add(config_map("late", {"a": "1", "b": "2"}, labels={"count": "yes"}))
    cluster.settle()
    assert counted(cluster, "late") == "2"


def test_controller_requeues_on_time(cluster: Cluster) -> None:
    cluster.add(config_map("one", labels={"count": "yes"}))
    loop = cluster.start(counting)
    before = loop.status().reconciles
    cluster.advance(days=1)
    assert loop.status().reconciles - before == 24


def test_events_of_a_controller_are_found(cluster: Cluster) -> None:
    cluster.start(counting)
    cluster.add(config_map("one", {"a": "1"}, labels={"count": "yes"}))
    cluster.settle()
    assert [(one.reason, one.message, one.involved_object.name) for one in cluster.events("default")] == [
        ("Counted", "1 keys", "one")
    ]
    assert cluster.events(reason="Other") == []


def test_stopped_controller_does_nothing_and_another_takes_over(cluster: Cluster) -> None:
    loop = cluster.start(counting)
    cluster.stop(loop)
    cluster.add(config_map("one", {"a": "1"}, labels={"count": "yes"}))
    cluster.advance(hours=2)
    assert counted(cluster, "one") is None
    cluster.start(counting)
    assert counted(cluster, "one") == "1"


def test_exited_loop_fails_the_test(cluster: Cluster) -> None:
    class ReturningController(Controller[str]):
        async def run(self) -> None:
            raise OSError("no more")

    def ending(context: ControllerContext) -> ReturningController:
        async def reconcile(_: str) -> None: ...

        return ReturningController("ending", reconcile, context.clock)

    with pytest.raises(LoopEndedError, match="ending has ended") as caught:
        cluster.start(ending)
    assert isinstance(caught.value.__cause__, OSError)
    cluster.stop(ending(cluster.context))


def test_duplicate_loop_names_are_rejected(cluster: Cluster) -> None:
    cluster.start(counting)
    with pytest.raises(ValueError, match="counting is already running"):
        cluster.start(counting)


# Builders that the server takes as they are.


def test_node_is_ready_by_default(cluster: Cluster) -> None:
    cluster.add(node("good"), node("bad", ready=False))
    found = cluster.client.list(Node).items
    assert {one.metadata.name: one.status.conditions[0].status for one in found} == {"good": "True", "bad": "False"}


# Caches.


@pytest.mark.parametrize("spoil", [lambda one: one.metadata.labels.update(x="y"), lambda one: one.data.clear()])
def test_mutated_shared_cache_fails_the_test(spoil: Callable[[Any], None]) -> None:
    def wire(context: ControllerContext) -> Controller[ObjectKey]:
        config_maps = context.informers.for_resource(resource_of_class(ConfigMap), namespace="default")

        async def reconcile(key: ObjectKey) -> None:
            spoil(config_maps.get(*key))

        controller = Controller("spoiler", reconcile, context.clock)
        controller.watches(config_maps, own_key)
        return controller

    cluster = Cluster()
    cluster.add(config_map("c", {"a": "1"}))
    cluster.start(wire)
    with pytest.raises(CacheMutatedError, match="configmaps default/c was modified in the shared cache"):
        cluster.close()


def test_closing_a_client_does_not_affect_the_cluster(cluster: Cluster) -> None:
    with cluster.client as client:
        client.list(Node)
    assert cluster.add(config_map("c")).metadata.name == "c"


def test_watchers_receive_a_change_in_subscription_order() -> None:
    """An order by addresses in memory would make a seeded run differ from the next one with the same seed."""
    seen: list[int] = []
    with Cluster() as cluster:
        all_informers = [SharedInformerFactory(cluster.async_client, cluster.clock) for _ in range(12)]

        async def begin(number: int) -> None:
            informer = all_informers[number].for_resource(resource_of_class(ConfigMap))
            informer.add_handler(ResourceEventHandlerFuncs(on_add=lambda _: seen.append(number)))
            all_informers[number].start()
            await informer.wait_synced()

        for number in range(len(all_informers)):
            cluster.run(begin(number))
        cluster.settle()
        seen.clear()
        cluster.client.create(config_map("new"))
        cluster.settle()
        for informers in all_informers:
            cluster.run(informers.stop())
    assert seen == list(range(len(all_informers)))
