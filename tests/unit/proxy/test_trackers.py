# SPDX-License-Identifier: Apache-2.0
"""Trackers: what counts as a change, what Services and EndpointSlices become."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from kubeloop.api.generated import core_v1, discovery_v1
from kubeloop.proxy.ip_family import IPV4, IPV6
from kubeloop.proxy.service_port import NamespacedName, ServicePortInfo, service_ports_of
from kubeloop.proxy.tracker.endpoint_slices import TRIGGER_TIME_ANNOTATION, EndpointsChangeTracker
from kubeloop.proxy.tracker.services import ServiceChangeTracker
from tests.unit.proxy.objects import NODE, port_name, ready, service, slice_of

WEB = NamespacedName("ns", "web")
STARTED = datetime(2026, 1, 1, tzinfo=UTC)


def one_port(one: core_v1.Service) -> ServicePortInfo:
    (found,) = service_ports_of(one, IPV4).values()
    return found


def test_plain_service() -> None:
    assert service_ports_of(service(), IPV4) == {port_name("web"): ServicePortInfo("10.96.0.1", 80, "TCP")}
    assert service_ports_of(service(), IPV6) == {}


@pytest.mark.parametrize("spec", [{"cluster_ip": "None"}, {"cluster_ip": ""}, {"type": "ExternalName"}])
def test_services_without_a_proxy(spec: dict[str, str]) -> None:
    assert service_ports_of(service(**spec), IPV4) == {}


def test_families_have_their_own_addresses() -> None:
    dual = service(ip_families=("IPv6", "IPv4"), cluster_ips=("fd96::1", "10.96.0.1"), cluster_ip="fd96::1")
    dual = msgspec.structs.replace(
        dual, spec=msgspec.structs.replace(dual.spec, external_ips=("198.51.100.1", "fd01::1", "bad", " "))
    )
    assert one_port(dual).cluster_ip == "10.96.0.1"
    assert one_port(dual).external_ips == ("198.51.100.1",)
    (six,) = service_ports_of(dual, IPV6).values()
    assert (six.cluster_ip, six.external_ips) == ("fd96::1", ("fd01::1",))
    (none,) = service_ports_of(dual, IPV6, allow_external_ips=False).values()
    assert none.external_ips == ()


def test_load_balancer_fields() -> None:
    found = one_port(
        service(
            type="LoadBalancer",
            node_port=30001,
            external_traffic_policy="Local",
            health_check_node_port=30100,
            load_balancer_source_ranges=(" 192.0.2.1/24 ", "fd00::/64"),
            ingress=[{"ip": "203.0.113.1"}, {"ip": "203.0.113.2", "ip_mode": "Proxy"}, {"hostname": "x"}],
        )
    )
    assert found == ServicePortInfo(
        "10.96.0.1",
        80,
        "TCP",
        30001,
        load_balancer_vips=("203.0.113.1",),
        source_ranges=("192.0.2.0/24",),
        health_check_node_port=30100,
        external_policy_local=True,
    )


def test_source_range_of_all_addresses_allows_all() -> None:
    assert one_port(service(load_balancer_source_ranges=("192.0.2.0/24", "0.0.0.0/0"))).source_ranges == ()


def test_external_policy_of_a_cluster_ip_counts_only_with_external_ips() -> None:
    assert not one_port(service(external_traffic_policy="Local")).external_policy_local
    with_ip = service(external_traffic_policy="Local", external_ips=("198.51.100.1",))
    assert one_port(with_ip).external_policy_local


def test_affinity_timeout() -> None:
    config = core_v1.SessionAffinityConfig(client_ip=core_v1.ClientIPConfig(timeout_seconds=7))
    assert one_port(service(session_affinity="ClientIP", session_affinity_config=config)).affinity_seconds == 7
    assert one_port(service(session_affinity="ClientIP")).affinity_seconds == 10800
    assert one_port(service(session_affinity="None", session_affinity_config=config)).affinity_seconds == 0


def test_service_that_changes_back_is_not_changed() -> None:
    tracker = ServiceChangeTracker(IPV4)
    assert tracker.update(service())
    assert tracker.checkout() == {WEB: {}}
    assert tracker.update(service(address="10.96.0.2"))
    assert not tracker.update(service())
    assert tracker.checkout() == {}
    assert tracker.update(service(), deleted=True)
    assert list(tracker.checkout()) == [WEB]
    assert list(tracker) == []


def test_slices_of_a_service_are_merged_and_sorted() -> None:
    tracker = EndpointsChangeTracker(IPV4, NODE, STARTED)
    assert tracker.update(slice_of("web", ready("10.1.0.2", NODE), ready("10.1.0.1")))
    assert tracker.update(slice_of("web", ready("10.1.0.1"), ready("10.1.0.3"), name="web-2"))
    change = tracker.checkout()[WEB]
    found = change.after[port_name("web")]
    assert [(one.address, one.is_local) for one in found] == [
        ("10.1.0.1:8080", False),
        ("10.1.0.2:8080", True),
        ("10.1.0.3:8080", False),
    ]
    assert change.before == {}
    assert tracker.update(slice_of("web", name="web-2"), deleted=True)
    assert len(tracker.checkout()[WEB].after[port_name("web")]) == 2


def test_terminating_endpoint_gives_way_to_a_new_one_with_its_address() -> None:
    for order in ((0, 1), (1, 0)):
        rows = [ready("10.1.0.1", ready=False, serving=True, terminating=True), ready("10.1.0.1")]
        tracker = EndpointsChangeTracker(IPV4, NODE, STARTED)
        tracker.update(slice_of("web", *(rows[number] for number in order)))
        (found,) = tracker.checkout()[WEB].after[port_name("web")]
        assert found.is_ready


def test_conditions_that_are_not_set() -> None:
    tracker = EndpointsChangeTracker(IPV4, NODE, STARTED)
    tracker.update(slice_of("web", discovery_v1.Endpoint(addresses=("10.1.0.1",)), discovery_v1.Endpoint()))
    (found,) = tracker.checkout()[WEB].after[port_name("web")]
    assert (found.is_ready, found.is_serving, found.is_terminating) == (True, True, False)


def test_slice_is_changed_by_its_content_only() -> None:
    tracker = EndpointsChangeTracker(IPV4, NODE, STARTED)
    tracker.update(slice_of("web", ready("10.1.0.1")))
    tracker.checkout()
    assert not tracker.update(slice_of("web", ready("10.1.0.1"), resource_version="9"))
    assert not tracker.update(slice_of("web", name="unknown"), deleted=True)
    assert tracker.pending == 0


def test_slices_of_another_family_or_of_no_service_are_ignored() -> None:
    tracker = EndpointsChangeTracker(IPV4, NODE, STARTED)
    one = slice_of("web", ready("10.1.0.1"))
    assert tracker.accepts(one)
    assert not tracker.accepts(msgspec.structs.replace(one, address_type="IPv6"))
    assert not tracker.accepts(slice_of(""))


@pytest.mark.parametrize(
    ("text", "count"),
    [("2026-01-02T00:00:00.5Z", 1), ("2025-12-31T00:00:00Z", 0), ("soon", 0), ("2026-01-02T00:00:00", 0)],
)
def test_trigger_times(text: str, count: int) -> None:
    tracker = EndpointsChangeTracker(IPV4, NODE, STARTED)
    tracker.update(slice_of("web", ready("10.1.0.1"), annotations={TRIGGER_TIME_ANNOTATION: text}))
    assert len(tracker.checkout()[WEB].trigger_times) == count


def test_udp_ports_are_noticed() -> None:
    tracker = EndpointsChangeTracker(IPV4, NODE, STARTED)
    tracker.update(slice_of("web", ready("10.1.0.1"), protocol="UDP"))
    assert tracker.checkout()[WEB].has_udp
    tracker.update(slice_of("web", ready("10.1.0.1")), deleted=True)
    assert tracker.checkout()[WEB].has_udp  # it had one


def test_properties_of_ports() -> None:
    port = ServicePortInfo("10.96.0.1", 80, "TCP", internal_policy_local=True)
    assert not port.uses_cluster_endpoints
    assert replace(port, node_port=1).uses_cluster_endpoints
