"""Whatever goes wrong: a range of service addresses never goes while a service needs it, and goes when none does."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address, ip_network

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Service, ServicePort, ServiceSpec
from kubeloop.api.generated.networking_v1 import ServiceCIDR
from kubeloop.controllers import service_cidr
from kubeloop.testing import Cluster, metadata
from tests.controllers.disturbances import LOSSES, NETWORK, Process, Step, steps

# One that all services are in, and one around it that comes and goes more seldom.
RANGES = {"inner": "10.7.0.0/28", "outer": "10.7.0.0/24"}
OFTEN = ("serve", "delete range", "advance")
ACTIONS = (*3 * OFTEN, "add range", "end", *NETWORK, *LOSSES)


def take(cluster: Cluster, process: Process, name: str, number: int) -> None:
    of = "outer" if number % 4 == 3 else "inner"
    address = str(ip_network(RANGES["inner"])[1 + number])
    with suppress(ApiError):  # of what is there already, or can't be had
        match name:
            case "add range":
                about = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": of}}
                cluster.client.create({**about, "spec": {"cidrs": [RANGES[of]]}})
            case "delete range":
                cluster.client.delete(ServiceCIDR, of)
            case "serve":
                spec = ServiceSpec(cluster_ip=address, ports=(ServicePort(port=80),))
                cluster.client.create(Service(metadata=metadata(f"s{number}", "default"), spec=spec))
            case "end":
                cluster.client.delete(Service, f"s{number}", "default")
            case "advance":
                cluster.advance(5 * number)
            case _:
                process.disturb(name, number)


def check(cluster: Cluster) -> None:
    """Every service's address is in a range that is still there."""
    ranges = [ip_network(one) for found in cluster.client.list(ServiceCIDR).items for one in found.spec.cidrs]
    addresses = [one.spec.cluster_ip for one in cluster.client.list(Service).items]
    assert len(set(addresses)) == len(addresses)
    for address in addresses:
        assert any(ip_address(address) in one for one in ranges), (address, ranges)


@settings(max_examples=15, deadline=None)
@given(steps(*ACTIONS, most=20), st.integers(0, 1000))
def test_a_range_stays_while_a_service_needs_it_and_then_goes(happenings: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        process = Process(cluster, service_cidr.wire)
        take(cluster, process, "add range", 0)
        cluster.settle()
        for name, number in happenings:
            take(cluster, process, name, number)
            check(cluster)
        cluster.faults.clear()
        for service in cluster.client.list(Service).items:
            if service.metadata.name != "kubernetes":
                cluster.client.delete(Service, service.metadata.name, service.metadata.namespace)
        for name in RANGES:
            with suppress(ApiError):
                cluster.client.delete(ServiceCIDR, name)
        cluster.advance(2000)
        assert {one.metadata.name for one in cluster.client.list(ServiceCIDR).items} & set(RANGES) == set()
