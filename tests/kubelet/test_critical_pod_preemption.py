# SPDX-License-Identifier: Apache-2.0
"""Critical pods that find no room on their node: others have to make it."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import ResourceRequirements
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.node_status.registration import NodeShape
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import condition_tuple, get, put

CRITICAL: Any = {"priority_class_name": "system-node-critical"}


def asks(cpu: str, *, guaranteed: bool = False) -> Any:
    amounts = {"cpu": Quantity(cpu), "memory": Quantity("64Mi")}
    limits = amounts if guaranteed else {}
    return (builders.container(resources=ResourceRequirements(requests=amounts, limits=limits)),)


def phases(cluster: Cluster, *names: str) -> list[str]:
    return [get(cluster, name).status.phase for name in names]


def test_most_effective_pod_is_preempted_for_a_critical_pod(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(cpu="2"))
    put(cluster, "small", containers=asks("300m"))
    put(cluster, "right", containers=asks("500m"))
    put(cluster, "large", containers=asks("900m"))
    put(cluster, "critical", containers=asks("700m"), **CRITICAL)
    cluster.advance(1)
    assert phases(cluster, "small", "right", "large", "critical") == ["Running", "Failed", "Running", "Running"]
    pod = get(cluster, "right")
    assert (pod.status.reason, pod.status.message) == ("Preempting", "Preempted in order to admit critical pod")
    why = "Pod was preempted by Kubelet to accommodate a critical pod."
    assert condition_tuple(pod, "DisruptionTarget") == ("True", "TerminationByKubelet", why)
    (event,) = cluster.events(reason="Preempting")
    assert (event.type, event.message) == ("Warning", "Preempted in order to admit critical pod")


def test_guaranteed_pods_are_preempted_last(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(cpu="2"))
    put(cluster, "sure", containers=asks("1", guaranteed=True))
    put(cluster, "unsure", containers=asks("500m"))
    put(cluster, "also", containers=asks("400m"))
    put(cluster, "critical", containers=asks("1"), **CRITICAL)
    assert phases(cluster, "sure", "unsure", "also", "critical") == ["Running", "Failed", "Failed", "Running"]
    put(cluster, "next", containers=asks("900m"), **CRITICAL)
    assert phases(cluster, "sure", "next") == ["Failed", "Running"]


def test_any_pod_is_preempted_for_the_pod_limit(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(pods="2"))
    put(cluster, "asking", containers=asks("500m"))
    put(cluster, "careless")
    put(cluster, "critical", **CRITICAL)
    assert phases(cluster, "asking", "careless", "critical") == ["Running", "Failed", "Running"]


def test_critical_pod_larger_than_its_node_is_rejected(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(cpu="1"))
    put(cluster, "plain", containers=asks("500m"))
    put(cluster, "critical", containers=asks("1500m"), **CRITICAL)
    status = get(cluster, "critical").status
    assert (phases(cluster, "plain"), status.phase, status.reason) == (
        ["Running"],
        "Failed",
        "UnexpectedAdmissionError",
    )
    assert status.message == (
        "Pod was rejected: Unexpected error while attempting to recover from admission failure: preemption: error "
        "finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 500), ]"
    )
