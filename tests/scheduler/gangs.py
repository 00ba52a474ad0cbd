# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of pod groups: a cluster with the feature gates, groups, and their pods."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.api.generated.core_v1 import Pod, PodSchedulingGroup
from kubeloop.api.generated.meta_v1 import Condition
from kubeloop.api.generated.scheduling_v1beta1 import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from kubeloop.api.meta.conditions import find_condition
from kubeloop.scheduler.config.configuration import default_config
from kubeloop.scheduler.scheduler import Scheduler
from kubeloop.testing import Cluster, metadata, node, pod
from tests.scheduler.cluster_objects import asking, join

GATES = "GenericWorkload=true"
TOPOLOGY = f"{GATES},TopologyAwareWorkloadScheduling=true"
COMPOSITES = f"{TOPOLOGY},CompositePodGroup=true"
VERSIONS = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"


def gated(gates: str = GATES) -> dict[str, str]:
    """Return the settings of a cluster with feature gates and the API versions that belong to them."""
    return {"runtime_config": VERSIONS, "feature_gates": gates}


def start_scheduler(cluster: Cluster, gates: str = GATES) -> Scheduler:
    config = default_config(parse_feature_gates([gates]))
    found = cluster.start(lambda context: Scheduler(context, config))
    assert isinstance(found, Scheduler)
    return found


def add_nodes(cluster: Cluster, *names: str, cpu: str = "2", **labels: str) -> None:
    for name in names:
        join(cluster, node(name, cpu=cpu), **labels)


def gang(name: str = "gang", least: int = 3, **spec: Any) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=least))
    return PodGroup(metadata=metadata(name, "default"), spec=PodGroupSpec(scheduling_policy=policy, **spec))


def basic_group(name: str = "gang", **spec: Any) -> PodGroup:
    policy = PodGroupSchedulingPolicy(basic=Raw(b"{}"))
    return PodGroup(metadata=metadata(name, "default"), spec=PodGroupSpec(scheduling_policy=policy, **spec))


def member(name: str, group: str = "gang", cpu: str = "1", **spec: Any) -> Pod:
    return pod(name, **asking(cpu, scheduling_group=PodSchedulingGroup(pod_group_name=group), **spec))


def bound(cluster: Cluster) -> dict[str, str]:
    """Return the node of each pod that has one."""
    pods = cluster.client.list("pods", "default").items
    return {pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec.node_name}


def group_condition(cluster: Cluster, name: str = "gang") -> Condition | None:
    group = cluster.client.get(PodGroup, name, "default")
    return find_condition(group.status.conditions, "PodGroupInitiallyScheduled")
