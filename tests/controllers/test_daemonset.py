# SPDX-License-Identifier: Apache-2.0
"""Tests of DaemonSets on a whole server: nodes, status and events."""

from __future__ import annotations

from kubeloop.api.errors import forbidden
from kubeloop.api.generated.apps_v1 import DaemonSet, DaemonSetUpdateStrategy
from kubeloop.api.generated.core_v1 import Node, Pod, Toleration
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.controllers.daemonset import wire
from kubeloop.controllers.daemonset.reconciler import BURST
from kubeloop.runtime.controller import Controller
from kubeloop.testing import Cluster, daemon_set, pod
from tests.controllers.daemon_sets import (
    NS,
    add_node,
    by_node,
    change,
    change_node,
    counts,
    event_messages,
    pods,
    read,
    revisions,
    start,
    taint,
    template,
)

# Where pods run


def test_every_node_gets_a_pod_bound_by_affinity(cluster: Cluster) -> None:
    start(cluster, "a", "b", "c")
    cluster.add(daemon_set())
    cluster.settle()
    assert by_node(cluster) == {"a": ["1"], "b": ["1"], "c": ["1"]}
    found = next(one for one in pods(cluster) if one.spec.node_name == "b")
    assert found.spec.affinity is not None
    assert found.spec.affinity.node_affinity is not None
    required = found.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    assert required.node_selector_terms is not None
    (field,) = required.node_selector_terms[0].match_fields
    assert (field.key, field.operator, tuple(field.values)) == ("metadata.name", "In", ("b",))
    assert found.metadata.generate_name == "app-"
    assert {(one.key.rpartition("/")[2], one.effect) for one in found.spec.tolerations} == {
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    }


def test_pods_have_the_template_hash_label(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set())
    cluster.settle()
    (name,) = revisions(cluster)
    assert dict(pods(cluster)[0].metadata.labels) == {
        "app": "app",
        "controller-revision-hash": name.removeprefix("app-"),
        "pod-template-generation": "1",
    }


def test_host_network_pods_tolerate_network_unavailable(cluster: Cluster) -> None:
    start(cluster, "a")
    taint(cluster, "a", "NoSchedule", "node.kubernetes.io/network-unavailable")
    cluster.add(daemon_set())
    cluster.settle()
    assert by_node(cluster) == {}
    change(cluster, template=template("1", hostNetwork=True))
    assert by_node(cluster) == {"a": ["1"]}


def test_status_counts_nodes(cluster: Cluster) -> None:
    kubelet = start(cluster, "a", "b", "c")
    kubelet.runs = lambda one: one.spec.node_name != "c"
    cluster.add(daemon_set())
    cluster.settle()
    assert counts(read(cluster)) == (3, 3, 0, 2, 3, 2, 1)
    assert read(cluster).status.observed_generation == 1


def test_no_node_fits(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set())
    change(cluster, template=template("1", nodeSelector={"none": "such"}))
    assert by_node(cluster) == {}
    assert counts(read(cluster)) == (0, 0, 0, 0, 0, 0, 0)
    change_node(cluster, "a", metadata={"labels": {"none": "such"}})
    assert by_node(cluster) == {"a": ["1"]}
    change_node(cluster, "a", metadata={"labels": {"none": None}})
    assert by_node(cluster) == {}


def test_added_node_gets_a_pod_and_removed_node_is_not_counted(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set())
    cluster.settle()
    add_node(cluster, "b")
    cluster.settle()
    assert by_node(cluster) == {"a": ["1"], "b": ["1"]}
    cluster.client.delete(Node, "b")
    cluster.settle()
    assert counts(read(cluster))[:2] == (1, 1)


def test_pending_pod_of_a_deleted_node_is_deleted(cluster: Cluster) -> None:
    add_node(cluster, "a")
    add_node(cluster, "b")
    cluster.start(wire)
    cluster.add(daemon_set())
    cluster.settle()
    assert by_node(cluster) == {"a": ["1"], "b": ["1"]}
    cluster.client.delete(Node, "b")
    cluster.settle()
    assert by_node(cluster) == {"a": ["1"]}


def test_cordoned_node_keeps_and_gets_pods(cluster: Cluster) -> None:
    start(cluster, "a", "b")
    for name in ("a", "b"):
        change_node(cluster, name, spec={"unschedulable": True})
        taint(cluster, name, "NoSchedule", "node.kubernetes.io/unschedulable")
    cluster.add(daemon_set())
    cluster.settle()
    assert by_node(cluster) == {"a": ["1"], "b": ["1"]}


def test_no_schedule_taint_keeps_running_pods(cluster: Cluster) -> None:
    start(cluster, "a", "b")
    cluster.add(daemon_set())
    cluster.settle()
    taint(cluster, "a", "NoSchedule")
    assert by_node(cluster) == {"a": ["1"], "b": ["1"]}
    assert counts(read(cluster)) == (1, 1, 1, 1, 1, 1, 0)
    taint(cluster, "a", None)
    assert counts(read(cluster)) == (2, 2, 0, 2, 2, 2, 0)


def test_no_execute_taint_removes_pods(cluster: Cluster) -> None:
    start(cluster, "a", "b")
    cluster.add(daemon_set())
    cluster.settle()
    taint(cluster, "a", "NoExecute")
    assert by_node(cluster) == {"b": ["1"]}
    assert counts(read(cluster)) == (1, 1, 0, 1, 1, 1, 0)


def test_template_tolerations_are_honored(cluster: Cluster) -> None:
    start(cluster, "a")
    taint(cluster, "a", "NoExecute")
    cluster.add(daemon_set())
    cluster.settle()
    assert by_node(cluster) == {}
    change(cluster, template=template("1", tolerations=[{"key": "dedicated", "operator": "Exists"}]))
    assert by_node(cluster) == {"a": ["1"]}
    assert Toleration(key="dedicated", operator="Exists") in pods(cluster)[0].spec.tolerations


def test_template_with_a_node_name_runs_on_that_node_only(cluster: Cluster) -> None:
    start(cluster, "a", "b")
    cluster.add(daemon_set())
    cluster.settle()
    change(cluster, template=template("1", nodeName="b"))
    assert by_node(cluster) == {"b": ["1"]}


# Pods that end


def test_deleted_pod_is_replaced_after_termination(cluster: Cluster) -> None:
    kubelet = start(cluster, "a")
    cluster.add(daemon_set())
    cluster.settle()
    (old,) = pods(cluster)
    kubelet.lets_go = lambda _: False
    cluster.client.delete(Pod, old.metadata.name, NS)
    cluster.advance(minutes=1)
    assert [one.metadata.uid for one in pods(cluster)] == [old.metadata.uid]
    kubelet.lets_go = lambda _: True
    cluster.advance(1)
    (new,) = pods(cluster)
    assert new.metadata.uid != old.metadata.uid


def _end(cluster: Cluster, phase: str) -> None:
    (running,) = pods(cluster)
    cluster.client.patch(Pod, running.metadata.name, {"status": {"phase": phase}}, NS, subresource="status")
    cluster.settle()


def test_failed_pods_are_replaced_with_backoff(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set())
    cluster.advance(1)
    (first,) = pods(cluster)
    _end(cluster, "Failed")
    assert event_messages(cluster, "FailedDaemonPod") == [
        f"Found failed daemon pod default/{first.metadata.name} on node a, will try to kill it"
    ]
    (event,) = cluster.events(reason="FailedDaemonPod")
    assert (event.type, event.source.component) == ("Warning", "daemonset-controller")
    for seconds in (1, 2, 4, 8):
        (failed,) = pods(cluster)
        _end(cluster, "Failed")
        cluster.advance(seconds - 0.5)
        assert pods(cluster)[0].metadata.uid == failed.metadata.uid
        cluster.advance(0.5)
        assert pods(cluster)[0].metadata.uid != failed.metadata.uid


def test_succeeded_pod_is_replaced_immediately(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set())
    cluster.settle()
    for _ in range(3):
        (before,) = pods(cluster)
        _end(cluster, "Succeeded")
        assert pods(cluster)[0].metadata.uid != before.metadata.uid
    assert event_messages(cluster, "SucceededDaemonPod")[0].endswith("on node a, will try to delete it")


def test_terminated_pod_with_a_finalizer_is_replaced(cluster: Cluster) -> None:
    """Upstream: TestSimpleDaemonSetRestartsPodsOnTerminalPhase."""
    start(cluster, "a")
    cluster.add(daemon_set())
    cluster.settle()
    (held,) = pods(cluster)
    cluster.client.patch(Pod, held.metadata.name, {"metadata": {"finalizers": ["example.com/stay"]}}, NS)
    _end(cluster, "Succeeded")
    cluster.advance(10)
    others = [one for one in pods(cluster) if one.metadata.uid != held.metadata.uid]
    assert [one.status.phase for one in others] == ["Running"]
    assert counts(read(cluster))[:4] == (1, 1, 0, 1)


# Ownership of pods


def test_orphan_is_adopted_as_the_pod_of_its_node(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(pod("mine", labels={"app": "app"}, node="a"))
    owner = cluster.add(daemon_set(update_strategy=_on_delete()))
    cluster.settle()
    (found,) = pods(cluster)
    manager = controller_of(found.metadata.owner_references)
    assert (found.metadata.name, manager and manager.uid) == ("mine", owner.metadata.uid)


def _on_delete() -> DaemonSetUpdateStrategy:
    return DaemonSetUpdateStrategy(type="OnDelete")


def test_surplus_pods_of_a_node_are_deleted_except_the_oldest(cluster: Cluster) -> None:
    cluster.add(pod("old", labels={"app": "app"}, node="a"))
    cluster.advance(10)
    cluster.add(pod("new", labels={"app": "app"}, node="a"))
    start(cluster, "a")
    cluster.add(daemon_set(update_strategy=_on_delete()))
    cluster.settle()
    assert [one.metadata.name for one in pods(cluster)] == ["old"]


def test_pod_that_no_longer_matches_is_released_and_replaced(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set())
    cluster.settle()
    (old,) = pods(cluster)
    cluster.client.patch(Pod, old.metadata.name, {"metadata": {"labels": {"app": "other"}}}, NS)
    cluster.settle()
    assert sorted(bool(one.metadata.owner_references) for one in pods(cluster)) == [False, True]


def test_daemonset_being_deleted_is_not_synced(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set())
    cluster.settle()
    cluster.client.delete(DaemonSet, "app", NS, propagation="Foreground")
    cluster.client.delete(Pod, pods(cluster)[0].metadata.name, NS)
    cluster.settle()
    assert pods(cluster) == []


# Many pods, and failures


def test_pod_events_are_recorded(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set())
    cluster.settle()
    (name,) = (one.metadata.name for one in pods(cluster))
    taint(cluster, "a", "NoExecute")
    events = [one for one in cluster.events() if one.involved_object.kind == "DaemonSet"]
    assert [(one.type, one.reason, one.message, one.source.component) for one in events] == [
        ("Normal", "SuccessfulCreate", f"Created pod: {name}", "daemonset-controller"),
        ("Normal", "SuccessfulDelete", f"Deleted pod: {name}", "daemonset-controller"),
    ]


def test_rejected_creates_use_slow_start_and_are_retried(cluster: Cluster) -> None:
    start(cluster, *(f"n{number}" for number in range(20)))
    fault = cluster.faults.fail("create", "pods", forbidden("", "pods", "", "no more"), times=None)
    cluster.add(daemon_set())
    cluster.settle()
    assert fault.hits <= 2  # at first sight, and when its own status comes by
    assert event_messages(cluster, "FailedCreate")[0] == "Error creating: pods is forbidden: no more"
    assert counts(read(cluster)) == (20, 0, 0, 0, 0, 0, 20)
    cluster.faults.clear()
    cluster.advance(1)
    assert len(pods(cluster)) == 20


def test_more_nodes_than_a_burst_all_get_their_pods(cluster: Cluster) -> None:
    start(cluster, *(f"n{number}" for number in range(BURST + 10)))
    cluster.add(daemon_set())
    cluster.advance(1)
    assert counts(read(cluster))[:2] == (BURST + 10, BURST + 10)


def test_pods_are_available_after_min_ready_seconds(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set(min_ready_seconds=30))
    cluster.advance(20)
    assert counts(read(cluster)) == (1, 1, 0, 1, 1, 0, 1)
    cluster.advance(11)
    assert counts(read(cluster)) == (1, 1, 0, 1, 1, 1, 0)


def test_node_event_enqueues_only_affected_daemonsets(cluster: Cluster) -> None:
    add_node(cluster, "a")
    loop = cluster.start(wire)
    assert isinstance(loop, Controller)
    for number in range(10):
        cluster.add(daemon_set(f"d{number}"))
        change(cluster, f"d{number}", template={"spec": {"nodeSelector": {"number": str(number)}}})
    before = loop.status().reconciles
    change_node(cluster, "a", metadata={"labels": {"irrelevant": "yes"}})
    assert loop.status().reconciles == before
    change_node(cluster, "a", metadata={"labels": {"number": "3"}})
    assert len(pods(cluster)) == 1
    assert loop.status().reconciles - before < 8
