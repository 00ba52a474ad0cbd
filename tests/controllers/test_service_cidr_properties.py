# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong: a range of service addresses never goes while a service needs it, and goes when none does."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address, ip_network

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Service, ServicePort, ServiceSpec
from kubeloop.api.generated.networking_v1 import ServiceCIDR
from kubeloop.controllers import service_cidr
from kubeloop.testing import Cluster, metadata
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step, steps

# One that all services are in, and one around it that comes and goes more seldom.
RANGES = {"inner": "10.7.0.0/28", "outer": "10.7.0.0/24"}
OFTEN = ("serve", "delete range", "advance")
ACTIONS = (*3 * OFTEN, "add range", "end", *NETWORK, *LOSSES)


# Nothing keeps a range that has no finalizer yet from being deleted, and its addresses are given out all the same:
# upstream's isReady (pkg/registry/core/service/ipallocator) holds a range without a Ready condition to be ready, and
# only the controller's addServiceCIDRFinalizerIfNeeded protects it.
DELETED_BEFORE_THE_FINALIZER: list[Step] = [
    ("delete range", 0),
    ("advance", 7),
    ("drop watches", 4),
    ("add range", 5),
    ("serve", 5),
    ("delete range", 2),
]
# Each of the two ranges has the other as its replacement.
DELETED_TOGETHER: list[Step] = [
    ("add range", 3),
    ("advance", 1),
    ("serve", 0),
    ("delete range", 0),
    ("delete range", 3),
    ("advance", 7),
]
# The watch of addresses is broken for longer than the grace period, that of ranges is not.
UNSEEN_ADDRESS: list[Step] = [
    ("drop watches", 0),
    ("advance", 1),
    ("drop watches", 0),
    ("advance", 1),
    ("drop watches", 0),
    ("advance", 1),
    ("late watch", 1),
    ("serve", 0),
    ("delete range", 0),
    ("advance", 3),
]


class ServiceCIDRHarness:
    """Ranges and services, and the controller."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._process = ControllerProcess(cluster, service_cidr.wire)
        self._unprotected: set[str] = set()  # UIDs of services whose CIDR was deleted before it had its finalizer

    def take(self, name: str, number: int) -> None:
        of = "outer" if number % 4 == 3 else "inner"
        client = self.cluster.client
        match name:
            case "add range":
                about = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": of}}
                with suppress(ApiError):  # it may exist already
                    client.create({**about, "spec": {"cidrs": [RANGES[of]]}})
            case "delete range":
                self._delete_range(of)
            case "serve":
                address = str(ip_network(RANGES["inner"])[1 + number])
                spec = ServiceSpec(cluster_ip=address, ports=(ServicePort(port=80),))
                with suppress(ApiError):  # no range may have the address, or another service
                    client.create(Service(metadata=metadata(f"s{number}", "default"), spec=spec))
            case "end":
                with suppress(ApiError):
                    client.delete(Service, f"s{number}", "default")
            case "advance":
                self.cluster.advance(5 * number)
            case _:
                self._process.disturb(name, number)

    def _delete_range(self, name: str) -> None:
        before = self._range(name)
        with suppress(ApiError):
            self.cluster.client.delete(ServiceCIDR, name)
        if before is not None and not before.metadata.finalizers and self._range(name) is None:
            self._unprotected |= self._outside_all_ranges()

    def _range(self, name: str) -> ServiceCIDR | None:
        found = self.cluster.client.list(ServiceCIDR).items
        return next((one for one in found if one.metadata.name == name), None)

    def _outside_all_ranges(self) -> set[str]:
        """Return the UIDs of the services whose address is in no CIDR."""
        ranges = [ip_network(one) for found in self.cluster.client.list(ServiceCIDR).items for one in found.spec.cidrs]
        services = self.cluster.client.list(Service).items
        return {
            one.metadata.uid
            for one in services
            if not any(ip_address(one.spec.cluster_ip) in network for network in ranges)
        }

    def check(self) -> None:
        """Check that every service address is in an existing, protected CIDR."""
        addresses = [one.spec.cluster_ip for one in self.cluster.client.list(Service).items]
        assert len(set(addresses)) == len(addresses)
        outside = self._outside_all_ranges()
        assert outside <= self._unprotected
        self._unprotected = outside  # a new range around an address protects it again

    def check_end(self) -> None:
        """Check that deleted CIDRs are removed without services and faults."""
        client = self.cluster.client
        self.cluster.faults.clear()
        for service in client.list(Service).items:
            if service.metadata.name != "kubernetes":
                client.delete(Service, service.metadata.name, service.metadata.namespace)
        for name in RANGES:
            with suppress(ApiError):
                client.delete(ServiceCIDR, name)
        self.cluster.advance(2000)
        assert {one.metadata.name for one in client.list(ServiceCIDR).items} & set(RANGES) == set()


@settings(max_examples=15, deadline=None)
@example(happenings=DELETED_BEFORE_THE_FINALIZER, seed=90)
@example(happenings=DELETED_TOGETHER, seed=0)
@example(happenings=UNSEEN_ADDRESS, seed=1)
@given(steps(*ACTIONS, most=20), st.integers(0, 1000))
def test_cidr_is_kept_exactly_while_a_service_uses_it(happenings: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = ServiceCIDRHarness(cluster)
        harness.take("add range", 0)
        cluster.settle()
        for name, number in happenings:
            harness.take(name, number)
            harness.check()
        harness.check_end()
