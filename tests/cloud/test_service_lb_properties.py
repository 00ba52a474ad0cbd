# SPDX-License-Identifier: Apache-2.0
"""Property tests: every service converges to exactly one load balancer under faults."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Node, Service
from kubeloop.cloud.provider import CloudError
from kubeloop.cloud.service_lb import wire
from kubeloop.testing import Cluster, node, service
from tests.cloud.memory_cloud import MemoryCloud, start

STEPS = 12


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_load_balancers_converge_to_services_under_faults(seed: int) -> None:
    chance = Random(seed)
    with Cluster(seed=seed, shuffle=True) as cluster:
        cloud = MemoryCloud()
        cluster.add(node("n0"))
        loop = start(cluster, wire, cloud, concurrent_service_syncs=3)
        cluster.faults.fail("write", "services", chance=0.2, times=None)
        cluster.faults.lose_answers("write", "services", chance=0.2, times=None)
        for step in range(STEPS):
            _disturb(cluster, cloud, chance, step)
            if chance.random() < 0.15:
                cluster.stop(loop)
                loop = start(cluster, wire, cloud, concurrent_service_syncs=3)
        cluster.faults.clear()
        cloud.load_balancers.errors.clear()
        cluster.advance(minutes=20)
        _check(cluster, cloud)


def _disturb(cluster: Cluster, cloud: MemoryCloud, chance: Random, step: int) -> None:
    name = chance.choice(["a", "b"])
    match chance.randrange(6):
        case 0 | 1:
            if _state(cluster, name) == "gone":
                cluster.add(service(name, type="LoadBalancer"))
        case 2:
            if _state(cluster, name) == "there":
                cluster.client.delete(Service, name, "default")
        case 3:
            if _state(cluster, name) == "there":
                kind = chance.choice(["LoadBalancer", "ClusterIP"])
                cluster.client.patch(Service, name, {"spec": {"type": kind}}, "default")
        case 4:
            cluster.add(node(f"n{step + 1}"))
        case 5:
            cloud.load_balancers.fail(chance.choice(["ensure", "delete", "status", "update_hosts"]), CloudError("busy"))
    if chance.random() < 0.2:
        cluster.faults.drop_watches(chance.choice(["services", "nodes"]))
    cluster.advance(chance.choice([0, 1, 7, 40]))


def _state(cluster: Cluster, name: str) -> str:
    try:
        found: Service = cluster.client.get(Service, name, "default")
    except NotFound:
        return "gone"
    return "there" if found.metadata.deletion_timestamp is None else "going"


def _check(cluster: Cluster, cloud: MemoryCloud) -> None:
    found = [one for one in cluster.client.list(Service, "default").items if one.metadata.name in ("a", "b")]
    wanting = {one.metadata.uid: one for one in found if one.spec.type == "LoadBalancer"}
    names = tuple(sorted(one.metadata.name for one in cluster.client.list(Node).items))
    balancers = cloud.load_balancers.balancers
    assert all(one.metadata.deletion_timestamp is None for one in found)
    assert set(balancers) == set(wanting)
    for uid, one in wanting.items():
        assert [ingress.ip for ingress in one.status.load_balancer.ingress] == [balancers[uid].address]
        assert balancers[uid].hosts == names
    for one in found:
        if one.spec.type != "LoadBalancer":
            assert one.status.load_balancer.ingress == ()
            assert one.metadata.finalizers == ()
