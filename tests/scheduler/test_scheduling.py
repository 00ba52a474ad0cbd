# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduling: pods get nodes, or a reason."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import PodSchedulingGate, Taint
from kubeloop.api.meta.conditions import find_condition
from kubeloop.runtime.app import LoopContext
from kubeloop.scheduler.scheduler import Scheduler, wire
from kubeloop.testing import Cluster, node, pod
from tests.scheduler.cluster_objects import asking, join, node_of, unschedulable_message


def test_scheduled_pod_gets_a_node_and_an_event(cluster: Cluster) -> None:
    cluster.start(wire)
    join(cluster, node("one"))
    cluster.add(pod("web"))
    cluster.settle()
    assert node_of(cluster, "web") == "one"
    (event,) = cluster.events(reason="Scheduled")
    assert event.message == "Successfully assigned default/web to one"
    assert event.reporting_component == "default-scheduler"


def test_pod_without_nodes_is_unschedulable_and_waits(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(pod("web"))
    cluster.settle()
    found = cluster.client.get("pods", "web", "default")
    condition = find_condition(found.status.conditions, "PodScheduled")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    assert condition.message == "no nodes available to schedule pods"
    assert condition.observed_generation == 1
    assert [one.message for one in cluster.events(reason="FailedScheduling")] == ["no nodes available to schedule pods"]
    join(cluster, node("one"))
    cluster.settle()
    assert node_of(cluster, "web") == "one"


def test_reasons_are_counted_and_sorted(cluster: Cluster) -> None:
    cluster.start(wire)
    join(
        cluster,
        node("small", cpu="1"),
        node("cordoned", unschedulable=True),
        node("tainted", taints=(Taint(key="a", effect="NoSchedule"),)),
    )
    cluster.add(pod("large", **asking("2")))
    cluster.settle()
    assert unschedulable_message(cluster, "large") == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable. preemption: 0/3 nodes are available: "
        "3 Preemption is not helpful for scheduling."
    )


def test_rejected_pod_is_retried_when_resources_are_freed(cluster: Cluster) -> None:
    cluster.start(wire)
    join(cluster, node("one", cpu="2"))
    cluster.add(pod("first", **asking("2")))
    cluster.settle()
    cluster.add(pod("second", **asking("2")))
    cluster.settle()
    assert node_of(cluster, "second") == ""
    cluster.client.delete("pods", "first", "default", grace_seconds=0)
    cluster.settle()
    assert node_of(cluster, "second") == "one"


def test_gated_pod_is_not_scheduled(cluster: Cluster) -> None:
    cluster.start(wire)
    join(cluster, node("one"))
    cluster.add(pod("web", scheduling_gates=(PodSchedulingGate(name="example.com/wait"),)))
    cluster.settle()
    assert node_of(cluster, "web") == ""
    assert cluster.events(reason="FailedScheduling") == []
    cluster.client.patch("pods", "web", {"spec": {"schedulingGates": []}}, "default")
    cluster.settle()
    assert node_of(cluster, "web") == "one"


def test_pods_of_other_schedulers_are_ignored(cluster: Cluster) -> None:
    cluster.start(wire)
    join(cluster, node("one"))
    cluster.add(pod("web", scheduler_name="other"))
    cluster.settle()
    assert node_of(cluster, "web") == ""


def test_pods_are_spread_by_requests(cluster: Cluster) -> None:
    cluster.start(wire)
    join(cluster, node("one"), node("two"))
    for number in range(6):
        cluster.add(pod(f"web-{number}", **asking("500m")))
    cluster.settle()
    placed = [node_of(cluster, f"web-{number}") for number in range(6)]
    assert sorted(placed) == ["one"] * 3 + ["two"] * 3


def test_scheduler_killed_while_binding_resumes(cluster: Cluster) -> None:
    loop = cluster.start(wire)
    join(cluster, node("one"))
    cluster.faults.delay(5.0, "create", "pods", times=1)
    cluster.add(pod("web"))
    cluster.settle()
    assert node_of(cluster, "web") == ""
    cluster.stop(loop)
    cluster.start(loop)
    cluster.settle()
    assert node_of(cluster, "web") == "one"


def test_failed_binding_is_retried(cluster: Cluster) -> None:
    cluster.start(wire)
    join(cluster, node("one"))
    cluster.faults.fail("create", "pods", times=1)
    cluster.add(pod("web"))
    cluster.settle()
    assert node_of(cluster, "web") == ""
    assert unschedulable_message(cluster, "web").startswith('running Bind plugin "DefaultBinder": ')
    cluster.advance(seconds=3)
    assert node_of(cluster, "web") == "one"


def test_lost_bind_response_keeps_the_pod_on_its_node(cluster: Cluster) -> None:
    cluster.start(wire)
    join(cluster, node("one", cpu="1"))
    cluster.faults.lose_answers("create", "pods", times=1)
    cluster.add(pod("web", **asking("1")))
    cluster.advance(seconds=30)
    assert node_of(cluster, "web") == "one"
    cluster.add(pod("late", **asking("1")))
    cluster.settle()
    assert "Insufficient cpu" in unschedulable_message(cluster, "late")


def test_terminated_pod_frees_its_resources(cluster: Cluster) -> None:
    cluster.start(wire)
    join(cluster, node("one", cpu="1"))
    cluster.add(pod("first", **asking("1")), pod("second", **asking("1")))
    cluster.settle()
    early, late = ("first", "second") if node_of(cluster, "first") else ("second", "first")
    cluster.client.patch("pods", early, {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    cluster.settle()
    cluster.advance(seconds=2)
    assert node_of(cluster, late) == "one"


def test_metrics_have_upstreams_names(cluster: Cluster) -> None:
    contexts: list[LoopContext] = []

    def start(context: LoopContext) -> Scheduler:
        contexts.append(context)
        return Scheduler(context)

    cluster.start(start)
    join(cluster, node("one", cpu="1"))
    cluster.add(pod("small", **asking("1")))
    cluster.settle()
    cluster.add(pod("late", **asking("1")))
    cluster.settle()
    told = set(contexts[0].telemetry.registry.render().splitlines())
    profile = 'profile="default-scheduler"'
    assert told >= {
        f'scheduler_schedule_attempts_total{{{profile},result="scheduled"}} 1',
        f'scheduler_schedule_attempts_total{{{profile},result="unschedulable"}} 1',
        f'scheduler_scheduling_attempt_duration_seconds_count{{{profile},result="scheduled"}} 1',
        "scheduler_scheduling_algorithm_duration_seconds_count 2",
        'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"} 1',
        'scheduler_pending_pods{queue="unschedulable"} 1',
        f'scheduler_unschedulable_pods{{plugin="NodeResourcesFit",{profile}}} 1',
        'scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="active"} 2',
        f'scheduler_plugin_evaluation_total{{extension_point="Bind",plugin="DefaultBinder",{profile}}} 1',
        'scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable"} 1',
        'scheduler_queued_entities{queue="unschedulable",type="pod"} 1',
        'scheduler_inflight_events{event="PodPopped"} 0',
        'scheduler_goroutines{operation="binding"} 0',
        'scheduler_event_handling_duration_seconds_count{event="NodeAdd"} 1',
        'scheduler_event_handling_duration_seconds_count{event="UnscheduledPodAdd"} 2',
        'scheduler_event_handling_duration_seconds_count{event="AssignedPodAdd"} 1',
        *(
            f'scheduler_framework_extension_point_duration_seconds_count{{extension_point="{point}",{status}}} {times}'
            for point, status, times in (
                ("Filter", f'{profile},status="Success"', 2),
                ("PostFilter", f'{profile},status="Unschedulable"', 1),
                ("Reserve", f'{profile},status="Success"', 1),
                ("Bind", f'{profile},status="Success"', 1),
            )
        ),
        "scheduler_preemption_attempts_total 1",
        'scheduler_preemption_evaluation_duration_seconds_count{preemptor="pod",result="Unschedulable"} 1',
        "scheduler_pod_scheduled_after_flush_total 0",
        'scheduler_cache_size{type="nodes"} 1',
        'scheduler_cache_size{type="assumed_pods"} 0',
    }


def test_pod_deleted_before_its_attempt_is_not_bound(cluster: Cluster) -> None:
    cluster.start(wire)
    join(cluster, node("one"))
    cluster.faults.delay(5.0, "create", "pods", times=1)
    cluster.add(pod("web"))
    cluster.settle()
    cluster.client.delete("pods", "web", "default", grace_seconds=0)
    cluster.add(pod("web", labels={"made": "again"}))
    cluster.advance(seconds=10)
    assert node_of(cluster, "web") == "one"
    assert cluster.client.get("pods", "web", "default").metadata.labels["made"] == "again"
