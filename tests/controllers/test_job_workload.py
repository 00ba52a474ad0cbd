# SPDX-License-Identifier: Apache-2.0
"""Tests of the Workload and PodGroup of jobs, with the feature gate WorkloadWithJob."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kubeloop.api.generated.batch_v1 import Job, JobSchedulingConfiguration
from kubeloop.api.generated.core_v1 import PodSchedulingGroup
from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.api.generated.scheduling_v1alpha3 import (
    WorkloadPodGroupGangSchedulingPolicy,
    WorkloadPodGroupSchedulingPolicy,
)
from kubeloop.api.generated.scheduling_v1beta1 import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupTemplate,
    TypedLocalObjectReference,
    Workload,
    WorkloadSpec,
)
from kubeloop.controllers.garbage_collector import wire as wire_garbage_collector
from kubeloop.controllers.job import wire
from kubeloop.controllers.job.workload.builder import pod_group_name, workload_name
from kubeloop.controllers.podgroup_protection import wire as wire_protection
from kubeloop.testing import Cluster, job, metadata

GATES = {
    "runtime_config": "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
    "feature_gates": "GenericWorkload=true,WorkloadWithJob=true",
}


@pytest.fixture(name="cluster")
def cluster_with_workloads(make_cluster: Callable[..., Cluster]) -> Cluster:
    found = make_cluster(**GATES)
    found.start(wire)
    return found


def gang_job(name: str = "train", least: int | None = None, **spec: Any) -> Job:
    gang = WorkloadPodGroupGangSchedulingPolicy(min_count=least)
    scheduling = JobSchedulingConfiguration(scheduling_policy=WorkloadPodGroupSchedulingPolicy(gang=gang))
    return job(name, scheduling=scheduling, **spec)


def with_metadata(of: Job, **fields: Any) -> Job:
    return replace(of, metadata=replace(of.metadata, **fields))


def only(cluster: Cluster, kind: Any) -> Any:
    (found,) = cluster.client.list(kind, "default").items
    return found


def pods(cluster: Cluster) -> list[Any]:
    return list(cluster.client.list("pods", "default").items)


def test_job_gets_a_workload_and_a_pod_group_for_its_pods(cluster: Cluster) -> None:
    made = cluster.add(gang_job(parallelism=3, completions=3))
    cluster.settle()
    cluster.advance(1)
    workload, group = only(cluster, Workload), only(cluster, PodGroup)
    uid = made.metadata.uid
    assert workload.metadata.name == workload_name(made)
    assert workload.spec.controller_ref == TypedLocalObjectReference(api_group="batch", kind="Job", name="train")
    (template,) = workload.spec.pod_group_templates
    assert (template.name, template.scheduling_policy.gang.min_count) == ("train-pgt-0", 3)
    assert group.metadata.name == pod_group_name(workload.metadata.name, "train-pgt-0")
    owners = [(one.kind, one.uid, one.controller) for one in group.metadata.owner_references]
    assert owners == [("Job", uid, True), ("Workload", workload.metadata.uid, None)]
    assert group.spec.scheduling_policy.gang.min_count == 3
    assert len(pods(cluster)) == 3
    for pod in pods(cluster):
        assert pod.spec.scheduling_group.pod_group_name == group.metadata.name
        kinds = [(one.kind, one.controller, one.block_owner_deletion) for one in pod.metadata.owner_references]
        assert kinds == [("Job", True, True), ("PodGroup", None, None)]
    told = {one.reason: one.message for one in cluster.events()}
    assert told["WorkloadCreated"] == f"Created Workload {workload.metadata.name} for Job train"
    assert told["PodGroupCreated"] == f"Created PodGroup {group.metadata.name} for Job train"


def test_job_without_settings_is_no_gang(cluster: Cluster) -> None:
    cluster.add(job("plain", parallelism=2))
    cluster.settle()
    cluster.advance(1)
    assert only(cluster, PodGroup).spec.scheduling_policy.gang is None
    assert all(pod.spec.scheduling_group is not None for pod in pods(cluster))


def test_suspended_job_has_its_group_before_its_pods(cluster: Cluster) -> None:
    cluster.add(gang_job(parallelism=2, suspend=True))
    cluster.settle()
    cluster.advance(1)
    group = only(cluster, PodGroup)
    assert pods(cluster) == []
    cluster.client.patch(Job, "train", {"spec": {"suspend": False}}, "default")
    cluster.settle()
    cluster.advance(1)
    assert {pod.spec.scheduling_group.pod_group_name for pod in pods(cluster)} == {group.metadata.name}
    assert only(cluster, PodGroup).metadata.uid == group.metadata.uid


def test_changed_parallelism_changes_the_minimum(cluster: Cluster) -> None:
    cluster.add(gang_job(parallelism=2))
    cluster.settle()
    cluster.advance(1)
    cluster.client.patch(Job, "train", {"spec": {"parallelism": 4}}, "default")
    cluster.settle()
    cluster.advance(2)
    assert only(cluster, PodGroup).spec.scheduling_policy.gang.min_count == 4
    assert only(cluster, Workload).spec.pod_group_templates[0].scheduling_policy.gang.min_count == 4


def test_minimum_of_the_user_stays(cluster: Cluster) -> None:
    cluster.add(gang_job(least=2, parallelism=5))
    cluster.settle()
    assert only(cluster, PodGroup).spec.scheduling_policy.gang.min_count == 2


def test_job_with_a_group_of_its_own_gets_no_objects(cluster: Cluster) -> None:
    usual = job("byo")
    mine = replace(usual.spec.template.spec, scheduling_group=PodSchedulingGroup(pod_group_name="mine"))
    template = replace(usual.spec.template, spec=mine)
    cluster.add(replace(usual, spec=replace(usual.spec, template=template)))
    cluster.settle()
    cluster.advance(1)
    assert cluster.client.list(Workload, "default").items == ()
    (pod,) = pods(cluster)
    assert pod.spec.scheduling_group.pod_group_name == "mine"


def test_job_of_another_controller_gets_no_objects_unless_they_are_delegated(cluster: Cluster) -> None:
    parent = OwnerReference(api_version="example.com/v1", kind="Set", name="set", uid="u", controller=True)
    cluster.add(with_metadata(job("child"), owner_references=(parent,)))
    cluster.settle()
    assert cluster.client.list(PodGroup, "default").items == ()
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=2))
    ref = TypedLocalObjectReference(api_group="example.com", kind="Set", name="set")
    template = PodGroupTemplate(name="workers", scheduling_policy=policy)
    spec = WorkloadSpec(controller_ref=ref, pod_group_templates=(template,))
    cluster.add(Workload(metadata=metadata("parents", "default"), spec=spec))
    annotations = {"scheduling.k8s.io/group-template-name": "workers"}
    cluster.add(with_metadata(job("other"), owner_references=(parent,), annotations=annotations))
    cluster.settle()
    group = only(cluster, PodGroup)
    assert group.spec.workload_ref.workload_name == "parents"
    assert [one.kind for one in group.metadata.owner_references] == ["Job"]


def test_started_job_keeps_running_without_objects(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(**GATES)
    cluster.add(gang_job(parallelism=1))
    cluster.client.patch(
        Job, "train", {"status": {"startTime": "2026-01-01T00:00:00Z"}}, "default", subresource="status"
    )
    cluster.start(wire)
    cluster.advance(1)
    assert cluster.client.list(Workload, "default").items == ()
    assert [pod.spec.scheduling_group for pod in pods(cluster)] == [None]


def test_objects_of_a_deleted_job_go_when_no_pod_needs_the_group(cluster: Cluster) -> None:
    cluster.start(wire_garbage_collector)
    cluster.start(wire_protection)
    cluster.add(gang_job(parallelism=2))
    cluster.settle()
    cluster.advance(1)
    cluster.client.delete(Job, "train", "default", propagation="Background")
    cluster.advance(minutes=2)
    assert cluster.client.list(Workload, "default").items == ()
    assert only(cluster, PodGroup).metadata.deletion_timestamp is not None  # protected, as upstream: pods still run
    for pod in pods(cluster):
        cluster.client.delete("pods", pod.metadata.name, "default", grace_seconds=0)
    cluster.advance(minutes=2)
    assert pods(cluster) == []
    assert cluster.client.list(PodGroup, "default").items == ()


def test_without_the_gate_nothing_is_created(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(**{**GATES, "feature_gates": "GenericWorkload=true"})
    cluster.start(wire)
    cluster.add(gang_job(parallelism=1))
    cluster.settle()
    cluster.advance(1)
    assert cluster.client.list(Workload, "default").items == ()
    assert [pod.spec.scheduling_group for pod in pods(cluster)] == [None]


@pytest.mark.parametrize(("workload", "template"), [(200, 1), (250, 20), (20, 250), (250, 250)])
def test_names_of_groups_fit(workload: int, template: int) -> None:
    name = pod_group_name("w" * workload, "t" * template)
    digest = name.rpartition("-")[2]
    assert len(name) == min(253, workload + template + len(digest) + 2)
    assert name.count("w") >= min(workload, 120 - len(digest))
    assert name.count("t") >= min(template, 120 - len(digest))
