"""Nodes that are short of something: which pods they give up, and which they don't take."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Node, ResourceRequirements
from kubeloop.api.wire import Quantity
from kubeloop.node.roster import PRESSURE
from kubeloop.testing import Cluster, builders
from tests.node.pods import get, put, said, state


def short_of(cluster: Cluster, what: str | None) -> None:
    cluster.client.patch(Node, "n1", {"metadata": {"annotations": {PRESSURE: what}}})
    cluster.settle()


def guaranteed(memory: str) -> tuple[object, ...]:
    amounts = {"cpu": Quantity("100m"), "memory": Quantity(memory)}
    return (builders.container(resources=ResourceRequirements(requests=amounts, limits=amounts)),)


def test_pods_over_their_requests_go_first_one_at_a_beat(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, "modest", containers=guaranteed("1Gi"), script={"memory": "900Mi"})
    put(cluster, "greedy", script={"memory": "200Mi"})
    put(cluster, "greediest", script={"memory": "400Mi"})
    short_of(cluster, "memory")
    phases = {name: get(cluster, name).status.phase for name in ("modest", "greedy", "greediest")}
    assert phases == {"modest": "Running", "greedy": "Running", "greediest": "Failed"}
    pod = get(cluster, "greediest")
    assert pod.status.reason == "Evicted"
    assert pod.status.message == (
        "The node was low on resource: memory. "
        "Container app was using 409600Ki, request is 0, has larger consumption of memory. "
    )
    assert said(pod, "DisruptionTarget")[:2] == ("True", "TerminationByKubelet")
    assert state(pod) == "ended 0"
    cluster.advance(11)
    assert get(cluster, "greedy").status.phase == "Failed"
    assert len(cluster.events(reason="Evicted")) == 2
    short_of(cluster, None)
    cluster.advance(60)
    assert get(cluster, "modest").status.phase == "Running"


def test_node_without_memory_takes_only_pods_that_ask_for_some(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    short_of(cluster, "memory")
    put(cluster, "careless")
    status = get(cluster, "careless").status
    assert (status.phase, status.reason) == ("Failed", "Evicted")
    assert status.message == "Pod was rejected: The node had condition: [MemoryPressure]. "
    put(cluster, "careful", containers=guaranteed("1Gi"))
    assert get(cluster, "careful").status.phase == "Running"


def test_node_without_disk_takes_none(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    short_of(cluster, "disk")
    put(cluster, containers=guaranteed("1Gi"))
    assert get(cluster).status.message == "Pod was rejected: The node had condition: [DiskPressure]. "
