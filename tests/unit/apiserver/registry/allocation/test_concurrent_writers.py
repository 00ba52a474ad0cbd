# SPDX-License-Identifier: Apache-2.0
"""Tests of concurrent writers that fail, cancel or conflict: nothing is allocated twice or leaked."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Service, ServicePort, ServiceSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.registry.allocation import ServiceRanges
from kubeloop.apiserver.registry.allocation.ip_addresses import ip_object
from kubeloop.apiserver.registry.serializer import encode_stored
from tests.unit.apiserver.registry.allocation.cluster import SERVICES, Cluster, assert_exact

WRITERS = 64
KINDS = ("ClusterIP", "NodePort", "LoadBalancer")


async def create_all(cluster, kind="NodePort", **spec):
    return await asyncio.gather(*(cluster.make(f"s{n}", type=kind, **spec) for n in range(WRITERS)))


def test_concurrent_writers_get_distinct_addresses_and_ports(cluster):
    answers = cluster.run(create_all(cluster))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.spec["clusterIP"] for answer in answers}) == WRITERS
    assert_exact(cluster)


def test_concurrent_writers_exhaust_addresses_exactly(make_cluster):
    cluster = make_cluster("10.0.0.0/27")
    answers = cluster.run(create_all(cluster))
    assert sum(answer.status == 201 for answer in answers) == 30
    assert len(cluster.recorded()) == 30
    assert_exact(cluster)


def test_concurrent_writers_exhaust_ports_exactly(make_cluster):
    cluster = make_cluster(node_ports=range(30000, 30040))
    answers = cluster.run(create_all(cluster))
    assert sum(answer.status == 201 for answer in answers) == 40
    assert_exact(cluster)


def test_concurrent_requests_for_one_address_succeed_once(cluster):
    answers = cluster.run(create_all(cluster, clusterIP="10.0.0.9", ports=[{"port": 1, "nodePort": 30001}]))
    assert sorted(answer.status for answer in answers) == [201] + [422] * (WRITERS - 1)
    assert_exact(cluster)


@pytest.mark.parametrize("every", [1, 2, 5])
def test_failed_disk_writes_allocate_nothing(cluster, every):
    batches = 0

    def fails():
        nonlocal batches
        batches += 1
        return batches % every == 0

    async def waves():
        cluster.log.fails = fails
        answers = []
        for wave in range(8):
            answers += await asyncio.gather(*(cluster.make(f"s{wave}-{n}", type="NodePort") for n in range(8)))
        cluster.log.fails = lambda: False
        return answers

    answers = cluster.run(waves())
    assert {answer.status for answer in answers} <= {201, 500}
    assert sum(answer.status == 201 for answer in answers) == len(cluster.services())
    cluster.create("last")
    assert_exact(cluster)


def test_cancelled_writer_keeps_its_allocation(make_cluster):
    cluster = make_cluster(node_ports=range(30000, 30001))

    async def leave_early():
        cluster.log.slow = True
        leaving = asyncio.create_task(cluster.make("gone", type="NodePort"))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        late = asyncio.create_task(cluster.make("late", type="NodePort"))
        await asyncio.sleep(0)
        cluster.log.finish()
        return await late

    assert "range is full" in cluster.run(leave_early()).refusal[1]
    assert set(cluster.services()) == {"gone"}
    assert_exact(cluster)


def test_restarted_server_knows_existing_allocations(make_cluster):
    ranges = ServiceRanges(("10.0.0.0/29",), range(30000, 30006))
    cluster = make_cluster("10.0.0.0/29", node_ports=ranges.node_ports)
    for number in range(5):
        cluster.create(f"s{number}", type="NodePort")
    cluster.restart(ranges)
    assert cluster.create("sixth", type="NodePort").status == 201
    assert cluster.create("seventh").status == 500
    assert_exact(cluster)


def test_services_of_another_server_are_seen(make_cluster):
    """Insert an object as from the watch of a shared store, without allocation."""
    cluster = make_cluster("10.0.0.0/30", node_ports=range(30000, 30002))
    cluster.create("ours", clusterIP="10.0.0.1", type="NodePort", ports=[{"port": 1, "nodePort": 30000}])
    ports = (ServicePort(port=1, protocol="TCP", node_port=30001),)
    spec = ServiceSpec(type="NodePort", cluster_ip="10.0.0.2", cluster_ips=("10.0.0.2",), ports=ports)
    theirs = Service(metadata=ObjectMeta(name="theirs", namespace="shop"), spec=spec)

    async def write():
        await cluster.store.write("/registry/services/specs/shop/theirs", encode_stored(theirs), 0)

    cluster.run(write())
    assert cluster.create("third").status == 500
    assert cluster.create("third", type="NodePort", clusterIP="None").status == 500


def _record_meanwhile(cluster, address):
    """Write of another server between choice and write."""
    value = ip_object(address, ObjectMeta(name="theirs", namespace="shop"), "u", cluster.clock.now())
    cluster.store.write(f"/registry/ipaddresses/{address}", value, 0)


def _claimed(cluster, **spec):
    allocator = cluster.registry.storage_named("", "v1", "services").allocator
    service = Service(
        metadata=ObjectMeta(name="web", namespace="shop"),
        spec=ServiceSpec(type="ClusterIP", ports=(ServicePort(port=1),), **spec),
    )
    claim = allocator.allocation_for_write(cluster.clock, False)
    claim.allocate(service, None)
    return claim, service


def test_address_recorded_first_by_another_server_is_redrawn(cluster):
    async def race():
        claim, service = _claimed(cluster)
        with claim:
            lost = service.spec.cluster_ip
            _record_meanwhile(cluster, lost)
            event = await claim.write("/registry/services/specs/shop/web", encode_stored(service), 0)
        return lost, event.record.value

    lost, stored = cluster.run(race())
    (spec,) = cluster.services().values()
    assert spec["clusterIP"] != lost
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["clusterIP"].encode() in stored
    assert cluster.recorded() == {lost: "theirs", spec["clusterIP"]: "web"}


def test_requested_address_recorded_first_by_another_server_is_rejected(cluster):
    async def race():
        claim, service = _claimed(cluster, cluster_ip="10.0.0.9")
        with claim:
            _record_meanwhile(cluster, "10.0.0.9")
            with pytest.raises(Exception, match="provided IP is already allocated"):
                claim.write("/registry/services/specs/shop/web", encode_stored(service), 0)

    cluster.run(race())
    assert cluster.services() == {}
    assert cluster.recorded() == {"10.0.0.9": "theirs"}


def _random_spec(rand, dual):
    spec = {"type": rand.choice((*KINDS, "ExternalName")), "ports": [{"name": "a", "port": 1}]}
    if rand.random() < 0.5:
        spec["ports"].append({"name": "b", "port": rand.choice((1, 2)), "protocol": "UDP"})
    if rand.random() < 0.3:
        spec["ports"][0]["nodePort"] = 30000 + rand.randrange(8)
    if spec["type"] == "LoadBalancer" and rand.random() < 0.5:
        spec["externalTrafficPolicy"] = "Local"
    if spec["type"] == "ExternalName":
        spec["externalName"] = "a.example"
    elif dual:
        spec["ipFamilyPolicy"] = rand.choice(("SingleStack", "PreferDualStack", "RequireDualStack"))
    if rand.random() < 0.2:
        spec["clusterIP"] = rand.choice(("None", "10.0.0.3", "10.0.0.4"))
    return spec


async def _random_write(cluster, rand, dual):
    name = f"s{rand.randrange(6)}"
    query = "?dryRun=All" if rand.random() < 0.1 else ""
    path, spec = f"{SERVICES}/{name}{query}", _random_spec(rand, dual)
    match rand.randrange(5):
        case 0 | 1:
            await cluster.make(name, query, **spec)
        case 2:
            await cluster.send("PUT", path, {"metadata": {"name": name}, "spec": spec})
        case 3:
            await cluster.send("PATCH", path, {"spec": spec})
        case _:
            await cluster.send("DELETE", path)


@pytest.mark.parametrize("networks", [("10.0.0.0/28",), ("10.0.0.0/28", "fd00:10::/124")])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), at_once=st.integers(1, 16), unlucky=st.sampled_from((0.0, 0.2)))
def test_nothing_is_allocated_twice_or_leaked(networks, seed, at_once, unlucky):
    rand = random.Random(seed)
    with asyncio.Runner() as runner:
        cluster = Cluster(runner, ServiceRanges(networks, range(30000, 30016)))

        async def writes():
            cluster.log.fails = lambda: rand.random() < unlucky
            for _ in range(5):
                await asyncio.gather(*(_random_write(cluster, rand, len(networks) == 2) for _ in range(at_once)))
            cluster.log.fails = lambda: False

        runner.run(writes())
        cluster.create("last", clusterIP="None")
        assert_exact(cluster)
