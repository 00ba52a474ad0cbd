# SPDX-License-Identifier: Apache-2.0
"""Incremental updates of the zone: the same answers as a zone that is built from scratch."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.dns.zone.cluster_zone import ClusterZone
from kubeloop.dns.zone.settings import ZoneSettings
from tests.unit.dns.dns_objects import (
    ManualDnsClock,
    ask,
    code,
    endpoint,
    endpoint_slice,
    external,
    lines,
    namespace,
    new_zone,
    service,
    set_object,
)

NAMESPACES = st.sampled_from(("default", "shop"))
SERVICES = st.sampled_from(("a", "b", "c"))
CLUSTER_IPS = st.sampled_from((("10.3.0.1",), ("10.3.0.2", "2001:db8::2"), ("2001:db8::3",), ("None",)))
PORTS = st.lists(
    st.tuples(st.sampled_from(("http", "dns", "")), st.integers(1, 9), st.sampled_from(("TCP", "UDP"))), max_size=2
)
ENDPOINTS = st.builds(
    lambda address, hostname, ready: endpoint(address, hostname=hostname, ready=ready),
    st.sampled_from(("10.1.0.1", "10.1.0.2", "10.1.0.3", "10.3.0.1")),
    st.sampled_from((None, "host")),
    st.sampled_from((True, True, False, None)),
)
CHANGES = st.one_of(
    st.builds(namespace, NAMESPACES),
    st.builds(
        lambda name, ips, ns, ports: service(name, *ips, ns=ns, ports=ports),
        *(SERVICES, CLUSTER_IPS, NAMESPACES, PORTS),
    ),
    st.builds(external, SERVICES, st.sampled_from(("x.example", "a.shop.svc.cluster.local")), NAMESPACES),
    st.builds(
        lambda owner, found, ns, name, ports: endpoint_slice(owner, *found, ns=ns, name=name, ports=ports),
        *(SERVICES, st.lists(ENDPOINTS, max_size=3), NAMESPACES, st.sampled_from(("s1", "s2", "s3")), PORTS),
    ),
)  # fmt: skip


def delete_object(zone: ClusterZone, one: Any) -> None:
    kind = type(one).__name__
    {"Namespace": zone.delete_namespace, "Service": zone.delete_service, "EndpointSlice": zone.delete_slice}[kind](one)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.booleans(), CHANGES, st.booleans()), max_size=30))
def test_incremental_updates_equal_a_zone_from_scratch(changes: list[tuple[bool, Any, bool]]) -> None:
    clock = ManualDnsClock()
    zone = new_zone(clock=clock)
    objects: dict[tuple[str, str, str], Any] = {("Namespace", "", "default"): namespace("default")}
    for is_set, one, is_flushed in changes:
        key = type(one).__name__, one.metadata.namespace, one.metadata.name
        if is_set:
            set_object(zone, one)
            objects[key] = one
        else:
            delete_object(zone, one)
            objects.pop(key, None)
        if is_flushed:
            zone.flush()
    zone.flush()
    scratch = ClusterZone(ZoneSettings(), clock)
    for one in objects.values():
        set_object(scratch, one)
    scratch.mark_synced()
    assert zone.answers == scratch.answers
    for name in ("a.default.svc", "host.a.shop.svc", "shop.svc", "_http._tcp.b.default.svc", "c.shop.svc"):
        for rrtype in ("A", "TXT", "SRV"):
            query = f"{name}.cluster.local."
            if code_of(zone, query, rrtype) != code_of(scratch, query, rrtype):
                raise AssertionError((query, rrtype))


def code_of(zone: ClusterZone, name: str, rrtype: str) -> str:
    try:
        return code(ask(zone, name, rrtype))
    except AssertionError:  # an alias, which takes time
        return "alias"


def test_changes_show_at_the_flush() -> None:
    zone = new_zone(service("web", "10.3.0.1"))
    name = "web.default.svc.cluster.local."
    zone.set_service(service("web", "10.3.0.2"))
    zone.flush()
    assert lines(ask(zone, name)) == [f"{name} 30 A 10.3.0.2"]
    assert code(ask(zone, "2.0.3.10.in-addr.arpa.", "PTR")) == "NOERROR"
    assert code(ask(zone, "1.0.3.10.in-addr.arpa.", "PTR")) == "REFUSED"
    zone.delete_service(service("web", "10.3.0.2"))
    zone.flush()
    assert code(ask(zone, name)) == "NXDOMAIN"


def test_external_name_follows_its_changes() -> None:
    zone = new_zone(external("out", "a.example"))
    name = "out.default.svc.cluster.local."
    assert lines(ask(zone, name, "CNAME")) == [f"{name} 30 CNAME a.example."]
    zone.set_service(external("out", "b.example"))
    zone.flush()
    assert lines(ask(zone, name, "CNAME")) == [f"{name} 30 CNAME b.example."]
    zone.set_service(service("out", "10.3.0.1"))
    zone.flush()
    assert code(ask(zone, name, "CNAME")) == "NODATA"
    assert code(ask(zone, name, "A")) == "NOERROR"


def test_slice_moves_to_another_service() -> None:
    zone = new_zone(service("a", "None"), service("b", "None"), endpoint_slice("a", endpoint("10.1.0.1"), name="s"))
    zone.set_slice(endpoint_slice("b", endpoint("10.1.0.1"), name="s"))
    zone.flush()
    assert code(ask(zone, "a.default.svc.cluster.local.")) == "NXDOMAIN"
    assert code(ask(zone, "b.default.svc.cluster.local.")) == "NOERROR"


def test_serial_is_the_time_of_the_last_change() -> None:
    clock = ManualDnsClock()
    zone = new_zone(clock=clock)
    clock.seconds += 5
    zone.flush()
    assert " 1700001000 " in lines(ask(zone, "cluster.local.", "SOA"))[0]
    zone.set_service(service("web", "10.3.0.1"))
    zone.flush()
    assert " 1700001005 " in lines(ask(zone, "cluster.local.", "SOA"))[0]
    assert " 1700001005 " in lines(ask(zone, "no.cluster.local."), "authority")[0]


def test_zone_fails_before_it_is_synced() -> None:
    zone = ClusterZone(ZoneSettings(), ManualDnsClock())
    zone.set_namespace(namespace("default"))
    zone.set_service(service("web", "10.3.0.1"))
    zone.flush()
    for name, rrtype in (
        ("web.default.svc.cluster.local.", "A"),
        ("no.default.svc.cluster.local.", "A"),
        ("cluster.local.", "SOA"),
        ("1.0.3.10.in-addr.arpa.", "PTR"),
    ):
        assert code(ask(zone, name, rrtype)) == "SERVFAIL"
    zone.mark_synced()
    assert code(ask(zone, "web.default.svc.cluster.local.")) == "NOERROR"
