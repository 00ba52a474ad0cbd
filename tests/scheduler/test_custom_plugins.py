# SPDX-License-Identifier: Apache-2.0
"""A plugin of one's own, in a few lines; profiles; permits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.runtime.app import LoopContext
from kubeloop.scheduler.config.configuration import ProfileConfig, SchedulerConfig, default_profile
from kubeloop.scheduler.framework.per_node_plugin import PerNodePlugin
from kubeloop.scheduler.framework.plugin import PermitWait, Plugin, unschedulable_status
from kubeloop.scheduler.framework.registry import PluginRegistry
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.scheduler import Scheduler
from kubeloop.testing import Cluster, node, pod
from tests.scheduler.cluster_objects import asking, join, node_of, unschedulable_message


class EvenNodes(PerNodePlugin):
    """Accepts nodes with even numbers, and prefers large ones."""

    name = "EvenNodes"

    def filter_node(self, pod: Any, node: Any) -> str:
        return "" if int(node.metadata.name[1:]) % 2 == 0 else "node(s) were odd"

    def score_node(self, pod: Any, node: Any) -> int:
        return min(int(node.metadata.name[1:]), 100)


class WaitOnPermit(Plugin):
    """Permit plugin that every pod waits for."""

    name = "WaitOnPermit"

    def permit(self, cycle: Any, node: str) -> PermitWait:
        return PermitWait(60.0)


class WaitOnSecondPermit(WaitOnPermit):
    """Second permit plugin."""

    name = "WaitOnSecondPermit"


class RejectReserve(Plugin):
    """Reserves nothing, ever."""

    name = "RejectReserve"

    def reserve(self, cycle: Any, node: str) -> Status:
        return unschedulable_status(self.name, "nothing is left to reserve")


def with_plugins(*kinds: type[Plugin], weight: int = 1) -> Callable[[LoopContext], Scheduler]:
    usual = default_profile()
    names = (*usual.plugin_names, *(kind.name for kind in kinds))
    weights = {**usual.weights, **{kind.name: weight for kind in kinds}}
    config = SchedulerConfig((ProfileConfig(usual.scheduler_name, names, weights=weights),))
    return lambda context: Scheduler(context, config, PluginRegistry({kind.name: kind for kind in kinds}))


def test_custom_plugin_filters_and_scores(cluster: Cluster) -> None:
    cluster.start(with_plugins(EvenNodes, weight=100))
    join(cluster, *(node(f"n{number}") for number in range(5)))
    cluster.add(pod("web"))
    cluster.settle()
    assert node_of(cluster, "web") == "n4"


def test_custom_plugin_reasons_are_reported(cluster: Cluster) -> None:
    cluster.start(with_plugins(EvenNodes))
    join(cluster, node("n1"), node("n3"))
    cluster.add(pod("web"))
    cluster.settle()
    assert unschedulable_message(cluster, "web").startswith("0/2 nodes are available: 2 node(s) were odd.")


def test_pod_waits_for_permit(cluster: Cluster) -> None:
    loop = cluster.start(with_plugins(WaitOnPermit))
    assert isinstance(loop, Scheduler)
    join(cluster, node("n1"))
    made = cluster.add(pod("web"))
    cluster.settle()
    assert node_of(cluster, "web") == ""
    assert loop.handle.waiting_pods.allow(made.metadata.uid, "WaitOnPermit")
    cluster.settle()
    assert node_of(cluster, "web") == "n1"


def test_rejected_permit_requeues_the_pod(cluster: Cluster) -> None:
    loop = cluster.start(with_plugins(WaitOnPermit))
    assert isinstance(loop, Scheduler)
    join(cluster, node("n1"))
    made = cluster.add(pod("web"))
    cluster.settle()
    loop.handle.waiting_pods.reject(made.metadata.uid, unschedulable_status("WaitOnPermit", "not today"))
    cluster.settle()
    assert unschedulable_message(cluster, "web") == "0/1 nodes are available: 1 not today."


def test_permit_timeout_rejects_and_any_event_requeues(cluster: Cluster) -> None:
    loop = cluster.start(with_plugins(WaitOnPermit))
    assert isinstance(loop, Scheduler)
    join(cluster, node("n1"))
    made = cluster.add(pod("web"))
    cluster.advance(seconds=61)
    why = "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin WaitOnPermit."
    assert unschedulable_message(cluster, "web") == why
    assert made.metadata.uid not in loop.handle.waiting_pods
    join(cluster, node("n2"))
    cluster.advance(seconds=10)
    assert loop.handle.waiting_pods.allow(made.metadata.uid, "WaitOnPermit")
    cluster.settle()
    assert node_of(cluster, "web") != ""


def test_all_permit_plugins_must_allow(cluster: Cluster) -> None:
    loop = cluster.start(with_plugins(WaitOnPermit, WaitOnSecondPermit))
    assert isinstance(loop, Scheduler)
    join(cluster, node("n1"))
    uid = cluster.add(pod("web")).metadata.uid
    cluster.settle()
    assert set(loop.handle.waiting_pods.pending_plugins(uid)) == {"WaitOnPermit", "WaitOnSecondPermit"}
    assert loop.handle.waiting_pods.allow(uid, "WaitOnPermit")
    assert not loop.handle.waiting_pods.allow(uid, "WaitOnPermit")
    cluster.settle()
    assert node_of(cluster, "web") == ""
    loop.handle.waiting_pods.allow(uid, "WaitOnSecondPermit")
    cluster.settle()
    assert node_of(cluster, "web") == "n1"


def test_pod_deleted_while_waiting_releases_its_resources(cluster: Cluster) -> None:
    loop = cluster.start(with_plugins(WaitOnPermit))
    assert isinstance(loop, Scheduler)
    join(cluster, node("n1", cpu="1"))
    uid = cluster.add(pod("web", **asking("1"))).metadata.uid
    cluster.settle()
    cluster.client.delete("pods", "web", "default", grace_seconds=0)
    cluster.settle()
    assert uid not in loop.handle.waiting_pods
    late = cluster.add(pod("late", **asking("1")))
    cluster.settle()
    assert loop.handle.waiting_pods.allow(late.metadata.uid, "WaitOnPermit")
    cluster.settle()
    assert node_of(cluster, "late") == "n1"


def test_failed_reserve_is_reported(cluster: Cluster) -> None:
    cluster.start(with_plugins(RejectReserve))
    join(cluster, node("n1"))
    cluster.add(pod("web"))
    cluster.settle()
    assert unschedulable_message(cluster, "web") == "0/1 nodes are available: 1 nothing is left to reserve."


def test_several_profiles_in_one_process(cluster: Cluster) -> None:
    config = SchedulerConfig((default_profile(), default_profile("second")))
    cluster.start(lambda context: Scheduler(context, config))
    join(cluster, node("n1"))
    cluster.add(pod("web"), pod("other", scheduler_name="second"), pod("foreign", scheduler_name="third"))
    cluster.settle()
    assert [node_of(cluster, name) for name in ("web", "other", "foreign")] == ["n1", "n1", ""]
    senders = {one.involved_object.name: one.reporting_component for one in cluster.events(reason="Scheduled")}
    assert senders == {"web": "default-scheduler", "other": "second"}
