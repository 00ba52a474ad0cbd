# SPDX-License-Identifier: Apache-2.0
"""Ranges of service addresses are kept until no address needs them."""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.networking_v1 import IPAddress, ServiceCIDR, ServiceCIDRSpec
from kubeloop.api.meta.conditions import find_condition
from kubeloop.controllers.service_cidr import FINALIZER, can_allocate, can_delete_cidr, networks_of, wire
from kubeloop.testing import Cluster
from tests.controllers.replicas import as_account

BLOCKED = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
ALLOCATED = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"}


def add_range(cluster: Cluster, name: str, *cidrs: str, finalizers: tuple[str, ...] = ()) -> None:
    about = {"name": name, "finalizers": finalizers}
    cluster.client.create(
        {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": about, "spec": {"cidrs": list(cidrs)}}
    )
    cluster.settle()


def add_address(cluster: Cluster, address: str, labels: dict[str, str] | None = None) -> None:
    about = {"name": address, "labels": ALLOCATED if labels is None else labels}
    parent = {"group": "", "resource": "services", "namespace": "default", "name": "x"}
    cluster.client.create(
        {"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": about, "spec": {"parentRef": parent}}
    )
    cluster.settle()


def delete_range(cluster: Cluster, name: str, wait: float = 11) -> None:
    cluster.client.delete(ServiceCIDR, name)
    cluster.advance(wait)


def ready(cluster: Cluster, name: str) -> tuple[str, str, str]:
    found = find_condition(cluster.client.get(ServiceCIDR, name).status.conditions, "Ready")
    assert found is not None
    return found.status, found.reason, found.message


def is_gone(cluster: Cluster, name: str) -> bool:
    try:
        cluster.client.get(ServiceCIDR, name)
    except NotFound:
        return True
    return False


def test_new_cidr_is_protected_and_ready(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "more", "10.7.0.0/24")
    assert cluster.client.get(ServiceCIDR, "more").metadata.finalizers == (FINALIZER,)
    assert ready(cluster, "more") == ("True", "", "Kubernetes Service CIDR is ready")


def test_unused_cidr_is_deleted_when_all_servers_observed_it(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "more", "10.7.0.0/24")
    delete_range(cluster, "more", 9)
    assert not is_gone(cluster, "more")
    cluster.advance(2)
    assert is_gone(cluster, "more")


def test_cidr_is_kept_while_an_address_is_used(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "more", "10.7.0.0/24")
    add_address(cluster, "10.7.0.5")
    delete_range(cluster, "more", 60)
    assert ready(cluster, "more") == ("False", "Terminating", BLOCKED)
    cluster.client.delete(IPAddress, "10.7.0.5")
    cluster.settle()
    assert is_gone(cluster, "more")


def test_unmanaged_address_does_not_block_deletion(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "more", "10.7.0.0/24")
    add_address(cluster, "10.7.0.5", {})
    delete_range(cluster, "more")
    assert is_gone(cluster, "more")


def test_contained_cidr_is_deleted_with_addresses_in_use(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "large", "10.7.0.0/16")
    add_range(cluster, "small", "10.7.0.0/24")
    add_address(cluster, "10.7.0.5")
    delete_range(cluster, "small")
    assert is_gone(cluster, "small")


def test_new_enclosing_cidr_unblocks_a_deletion(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "more", "10.7.0.0/24")
    add_address(cluster, "10.7.0.5")
    delete_range(cluster, "more")
    assert not is_gone(cluster, "more")
    add_range(cluster, "another", "10.7.0.0/25")
    cluster.advance(11)
    assert is_gone(cluster, "more")
    assert not is_gone(cluster, "another")


def test_larger_cidr_is_kept_for_its_own_addresses(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "large", "10.7.0.0/16")
    add_range(cluster, "small", "10.7.0.0/24")
    add_address(cluster, "10.7.1.5")
    delete_range(cluster, "large")
    assert not is_gone(cluster, "large")


def test_one_of_two_deleted_cidrs_is_kept_for_a_shared_address(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "large", "10.7.0.0/16")
    add_range(cluster, "small", "10.7.0.0/24")
    add_address(cluster, "10.7.0.5")
    cluster.client.delete(ServiceCIDR, "large")
    delete_range(cluster, "small")
    assert [is_gone(cluster, "large"), is_gone(cluster, "small")].count(True) == 1
    cluster.client.delete(IPAddress, "10.7.0.5")
    cluster.settle()
    assert is_gone(cluster, "large")
    assert is_gone(cluster, "small")


def test_cidr_without_finalizer_replaces_no_other(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "more", "10.7.0.0/24")
    add_address(cluster, "10.7.0.5")
    delete_range(cluster, "more")
    cluster.faults.fail("patch", "servicecidrs", name="another", times=None)
    add_range(cluster, "another", "10.7.0.0/25")
    cluster.advance(1)
    assert not is_gone(cluster, "more")
    cluster.faults.clear()
    cluster.advance(1)
    assert is_gone(cluster, "more")


def test_address_missing_in_the_cache_blocks_deletion(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "more", "10.7.0.0/24")
    cluster.faults.delay(30, "watch", "ipaddresses")
    cluster.faults.drop_watches("ipaddresses")
    add_address(cluster, "10.7.0.5")
    delete_range(cluster, "more", 60)
    assert ready(cluster, "more") == ("False", "Terminating", BLOCKED)


def test_cidr_is_deleted_though_the_cache_never_had_its_last_address(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "more", "10.7.0.0/24")
    cluster.faults.delay(30, "watch", "ipaddresses")
    cluster.faults.expire_watches("ipaddresses")
    add_address(cluster, "10.7.0.5")
    delete_range(cluster, "more", 15)
    assert not is_gone(cluster, "more")
    cluster.client.delete(IPAddress, "10.7.0.5")
    cluster.advance(11)
    assert is_gone(cluster, "more")


def test_controllers_role_is_sufficient(cluster: Cluster) -> None:
    cluster.start(wire(as_account(cluster, "service-cidrs-controller")))
    add_range(cluster, "more", "10.7.0.0/24")
    assert ready(cluster, "more")[0] == "True"
    delete_range(cluster, "more")
    assert is_gone(cluster, "more")


def test_failed_status_write_records_an_event_and_is_retried(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.faults.fail("patch", "servicecidrs")
    add_range(cluster, "more", "10.7.0.0/24", finalizers=(FINALIZER,))
    cluster.advance(1)
    assert ready(cluster, "more")[0] == "True"
    (event,) = cluster.events(reason="KubernetesServiceCIDRError")
    assert event.message == "The ServiceCIDR Status can not be set to Ready=True"
    assert event.source.component == "service-cidr-controller"


def test_unchanged_cidr_is_not_written(cluster: Cluster) -> None:
    cluster.start(wire)
    add_range(cluster, "more", "10.7.0.0/24")
    before = cluster.client.get(ServiceCIDR, "more").metadata.resource_version
    cluster.advance(days=1)
    assert cluster.client.get(ServiceCIDR, "more").metadata.resource_version == before


# The policy alone.


def a_range(name: str, *cidrs: str) -> ServiceCIDR:
    return ServiceCIDR(metadata=ObjectMeta(name=name), spec=ServiceCIDRSpec(cidrs=cidrs))


def an_address(address: str, **labels: Any) -> IPAddress:
    return IPAddress(metadata=ObjectMeta(name=address, labels=ALLOCATED | labels))


def test_first_and_last_address_are_never_allocated() -> None:
    (network,) = networks_of(a_range("a", "10.7.0.0/24"))
    found = [an_address(f"10.7.0.{number}") for number in (0, 1, 254, 255)]
    taken = [can_delete_cidr(a_range("a", "10.7.0.0/24"), [a_range("a", "10.7.0.0/24")], [one]) for one in found]
    assert taken == [True, False, False, True]
    assert not can_allocate(network, network.network_address)


def test_dual_stack_cidr_needs_another_for_both_families() -> None:
    going = a_range("a", "10.7.0.0/24", "fd00::/120")
    four, six = a_range("b", "10.7.0.0/16"), a_range("c", "fd00::/112")
    used = [an_address("fd00::5"), an_address("10.7.0.5")]
    assert not can_delete_cidr(going, [going], used)
    assert not can_delete_cidr(going, [going, four], used)
    assert can_delete_cidr(going, [going, four, six], used)
    assert can_delete_cidr(going, [going, four], used[1:])


def test_last_ipv6_address_is_allocated() -> None:
    going = a_range("a", "fd00::/120")
    assert not can_delete_cidr(going, [going], [an_address("fd00::ff")])
