# SPDX-License-Identifier: Apache-2.0
"""Records of the DNS-based service discovery specification 1.1.0, section by section."""

from __future__ import annotations

import dns.flags
import dns.reversename
import pytest

from kubeloop.dns.zone.addresses import pack_address
from tests.unit.dns.dns_objects import (
    ask,
    code,
    endpoint,
    endpoint_slice,
    external,
    lines,
    namespace,
    new_zone,
    pod,
    service,
)

WEB_PORTS = [("http", 80, "TCP"), ("metrics", 9090, "TCP"), ("dns", 53, "UDP")]
ZONE = new_zone(
    service("web", "10.3.0.1", ports=WEB_PORTS),
    service("dual", "10.3.0.2", "2001:db8::2", ports=[("https", 443, "TCP")]),
    service("six", "2001:db8::1"),
    service("unnamed", "10.3.0.3", ports=[("", 80, "TCP")]),
    service("portless", "10.3.0.4", ports=[]),
    service("heads", "None", ports=[("https", 443, "TCP")]),
    endpoint_slice(
        "heads",
        endpoint("10.1.0.1", hostname="my-pet"),
        endpoint("10.1.0.2"),
        endpoint("10.1.0.3", ready=False),
        endpoint("10.1.0.4", ready=None),
        endpoint("10.1.0.5", ready=False, serving=True, terminating=True),
        ports=[("https", 8443, "TCP"), ("sctp", 9, "SCTP")],
    ),
    endpoint_slice(
        "heads", endpoint("2001:db8:1::1", hostname="my-pet"), name="heads-6", ports=[("https", 8443, "TCP")]
    ),
    service("asleep", "None"),
    endpoint_slice("asleep", endpoint("10.1.1.1", ready=False)),
    service("bare", "None", ports=[]),
    endpoint_slice("bare", endpoint("10.1.2.1"), ports=[]),
    endpoint_slice("web", endpoint("10.1.3.1"), endpoint("10.1.3.2", hostname="Node-A")),
    service("colons", "None"),
    endpoint_slice("colons", endpoint("2001:db8:2::"), endpoint("::5")),
    external("alias", "www.example.com"),
    external("dotted", "www.example.com."),
    external("address", "192.0.2.1"),
    service("stray", "10.3.9.9", ns="gone"),
    endpoint_slice("orphan", endpoint("10.1.9.9")),
    namespace("empty"),
)
TTL = 30
SVC = "default.svc.cluster.local."
POD = "default.pod.cluster.local."


def full(*records: str) -> list[str]:
    """Complete records: names without a dot at the end are in the default namespace; the TTL is the zone's."""
    found = []
    for record in records:
        name, rest = record.split(" ", 1)
        found.append(f"{name if name.endswith('.') else f'{name}.{SVC}'} {TTL} {rest}".replace("@", SVC))
    return sorted(found)


# Section, name, type, answers.
ROWS = [
    ("2.2", "dns-version.cluster.local.", "TXT", ['dns-version.cluster.local. 28800 TXT "1.1.0"']),
    ("2.3.1", "web", "A", full("web A 10.3.0.1")),
    ("2.3.1", "six", "AAAA", full("six AAAA 2001:db8::1")),
    ("2.3.1", "dual", "A", full("dual A 10.3.0.2")),
    ("2.3.1", "dual", "AAAA", full("dual AAAA 2001:db8::2")),
    ("2.3.1", "portless", "A", full("portless A 10.3.0.4")),
    ("2.3.2", "_http._tcp.web", "SRV", full("_http._tcp.web SRV 0 100 80 web.@")),
    ("2.3.2", "_dns._udp.web", "SRV", full("_dns._udp.web SRV 0 100 53 web.@")),
    ("2.3.2", "_https._tcp.dual", "SRV", full("_https._tcp.dual SRV 0 50 443 dual.@")),
    (
        "2.3.2 as CoreDNS",
        "web",
        "SRV",
        full("web SRV 0 33 80 web.@", "web SRV 0 33 9090 web.@", "web SRV 0 33 53 web.@"),
    ),
    ("2.3.2 as CoreDNS", "_http._tcp.web", "A", full("_http._tcp.web A 10.3.0.1")),
    ("2.3.3", "1.0.3.10.in-addr.arpa.", "PTR", full("1.0.3.10.in-addr.arpa. PTR web.@")),
    ("2.4.1", "heads", "A", full("heads A 10.1.0.1", "heads A 10.1.0.2", "heads A 10.1.0.4")),
    ("2.4.1", "heads", "AAAA", full("heads AAAA 2001:db8:1::1")),
    ("2.4.1", "my-pet.heads", "A", full("my-pet.heads A 10.1.0.1")),
    ("2.4.1", "my-pet.heads", "AAAA", full("my-pet.heads AAAA 2001:db8:1::1")),
    ("2.4.1", "10-1-0-2.heads", "A", full("10-1-0-2.heads A 10.1.0.2")),
    ("2.4.1", "bare", "A", full("bare A 10.1.2.1")),
    ("2.4.1 as CoreDNS", "2001-db8-2--0.colons", "AAAA", full("2001-db8-2--0.colons AAAA 2001:db8:2::")),
    ("2.4.1 as CoreDNS", "--5.colons", "AAAA", full("--5.colons AAAA ::5")),
    ("2.4.1 as CoreDNS", "10-1-3-1.web", "A", full("10-1-3-1.web A 10.1.3.1")),
    ("2.4.1", "node-a.web", "A", full("node-a.web A 10.1.3.2")),
    (
        "2.4.2",
        "_https._tcp.heads",
        "SRV",
        full(
            "_https._tcp.heads SRV 0 25 8443 my-pet.heads.@",
            "_https._tcp.heads SRV 0 25 8443 10-1-0-2.heads.@",
            "_https._tcp.heads SRV 0 25 8443 10-1-0-4.heads.@",
        ),
    ),
    ("2.4.2", "_sctp._sctp.heads", "SRV", 3),
    ("2.4.2", "10-1-0-2.heads", "SRV", 2),
    ("2.4.3", "2.0.1.10.in-addr.arpa.", "PTR", full("2.0.1.10.in-addr.arpa. PTR 10-1-0-2.heads.@")),
    ("2.4.3", "1.0.1.10.in-addr.arpa.", "PTR", full("1.0.1.10.in-addr.arpa. PTR my-pet.heads.@")),
    ("2.4.3 as CoreDNS", "1.3.1.10.in-addr.arpa.", "PTR", full("1.3.1.10.in-addr.arpa. PTR 10-1-3-1.web.@")),
    ("2.4.3 as CoreDNS", "9.9.1.10.in-addr.arpa.", "PTR", full("9.9.1.10.in-addr.arpa. PTR 10-1-9-9.orphan.@")),
    ("2.5", "alias", "CNAME", full("alias CNAME www.example.com.")),
    ("2.5", "dotted", "CNAME", full("dotted CNAME www.example.com.")),
    ("pods", "10-9-8-7.default.pod.cluster.local.", "A", full("10-9-8-7.default.pod.cluster.local. A 10.9.8.7")),
    ("pods", f"2001-db8--9.{POD}", "AAAA", full(f"2001-db8--9.{POD} AAAA 2001:db8::9")),
    ("pods as CoreDNS", f"a.b.10-9-8-7.{POD}", "A", full(f"a.b.10-9-8-7.{POD} A 10.9.8.7")),
    (
        "zone",
        "cluster.local.",
        "SOA",
        full("cluster.local. SOA ns.dns.cluster.local. hostmaster.cluster.local. 1700001000 7200 1800 86400 30"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("section", "name", "rrtype", "expected"), ROWS)
def test_record_of_the_specification(section: str, name: str, rrtype: str, expected: list[str] | int) -> None:
    asked = name if name.endswith(".") else f"{name}.{SVC}"
    response = ask(ZONE, asked, rrtype)
    found = lines(response)
    assert (len(found) if isinstance(expected, int) else found) == expected
    assert response.flags & dns.flags.AA
    assert not response.flags & dns.flags.RA  # as CoreDNS
    assert not response.authority


@pytest.mark.parametrize(("section", "name", "rrtype", "expected"), ROWS)
def test_names_are_compared_without_case(section: str, name: str, rrtype: str, expected: list[str] | int) -> None:
    asked = name if name.endswith(".") else f"{name}.{SVC}"
    response = ask(ZONE, asked.upper(), rrtype)
    found = [line.lower() for line in lines(response)]
    assert (len(found) if isinstance(expected, int) else found) == (
        expected if isinstance(expected, int) else [line.lower() for line in expected]
    )


def test_ipv6_cluster_ip_has_a_ptr_record() -> None:
    name = dns.reversename.from_address("2001:db8::1").to_text()
    assert lines(ask(ZONE, name, "PTR")) == full(f"{name} PTR six.@")


def test_srv_answer_has_the_addresses_of_its_targets() -> None:
    response = ask(ZONE, f"_https._tcp.heads.{SVC}", "SRV")
    assert lines(response, "additional") == full(
        "my-pet.heads A 10.1.0.1",
        "my-pet.heads AAAA 2001:db8:1::1",
        "10-1-0-2.heads A 10.1.0.2",
        "10-1-0-4.heads A 10.1.0.4",
    )


# Name, type, and CoreDNS's result.
NEGATIVE = [
    (f"web.{SVC}", "AAAA", "NODATA"),
    (f"web.{SVC}", "TXT", "NODATA"),
    (f"web.{SVC}", "MX", "NODATA"),
    (f"web.{SVC}", "CNAME", "NODATA"),
    (f"web.{SVC}", "PTR", "NODATA"),
    (f"web.{SVC}", "NS", "NODATA"),
    (f"web.{SVC}", "ANY", "NODATA"),
    (f"web.{SVC}", "HTTPS", "NODATA"),
    (f"web.{SVC}", "SOA", "NODATA"),
    (f"nothing.{SVC}", "SOA", "NODATA"),
    (f"nothing.{SVC}", "A", "NXDOMAIN"),
    (f"nothing.{SVC}", "TXT", "NXDOMAIN"),
    (f"nothing.{SVC}", "ANY", "NXDOMAIN"),
    (f"six.{SVC}", "A", "NODATA"),
    (f"portless.{SVC}", "SRV", "NODATA"),
    (f"bare.{SVC}", "SRV", "NODATA"),
    (f"_http._udp.web.{SVC}", "SRV", "NXDOMAIN"),
    (f"_nope._tcp.web.{SVC}", "SRV", "NXDOMAIN"),
    (f"_tcp.web.{SVC}", "SRV", "NXDOMAIN"),
    (f"_http._tcp.unnamed.{SVC}", "SRV", "NXDOMAIN"),
    (f"*.{SVC}", "A", "NXDOMAIN"),
    (f"asleep.{SVC}", "A", "NXDOMAIN"),
    (f"asleep.{SVC}", "AAAA", "NXDOMAIN"),
    (f"10-1-0-3.heads.{SVC}", "A", "NXDOMAIN"),
    (f"10-1-0-5.heads.{SVC}", "A", "NXDOMAIN"),
    (f"my-pet.web.{SVC}", "A", "NXDOMAIN"),
    (f"a.my-pet.heads.{SVC}", "A", "NXDOMAIN"),
    (f"alias.{SVC}", "SRV", "NODATA"),
    (f"alias.{SVC}", "TXT", "NODATA"),
    (f"_http._tcp.alias.{SVC}", "SRV", "NXDOMAIN"),
    (f"x.alias.{SVC}", "A", "NXDOMAIN"),
    (f"address.{SVC}", "A", "NXDOMAIN"),
    ("stray.gone.svc.cluster.local.", "A", "NXDOMAIN"),
    ("gone.svc.cluster.local.", "A", "NXDOMAIN"),
    ("default.svc.cluster.local.", "A", "NODATA"),
    ("default.svc.cluster.local.", "TXT", "NXDOMAIN"),
    ("empty.svc.cluster.local.", "SRV", "NODATA"),
    ("svc.cluster.local.", "A", "NODATA"),
    ("pod.cluster.local.", "A", "NODATA"),
    ("default.pod.cluster.local.", "A", "NODATA"),
    ("cluster.local.", "A", "NODATA"),
    ("cluster.local.", "NS", "NODATA"),
    ("cluster.local.", "TXT", "NXDOMAIN"),
    ("dns-version.cluster.local.", "A", "NXDOMAIN"),
    ("other.cluster.local.", "A", "NXDOMAIN"),
    ("10-9-8-7.gone.pod.cluster.local.", "A", "NXDOMAIN"),
    ("10-9-8-7.default.pod.cluster.local.", "AAAA", "NODATA"),
    ("10-9-8-7.default.pod.cluster.local.", "TXT", "NODATA"),
    ("10-9-8-777.default.pod.cluster.local.", "A", "NXDOMAIN"),
    ("10-9-8-07.default.pod.cluster.local.", "A", "NXDOMAIN"),
    ("name.default.pod.cluster.local.", "A", "NXDOMAIN"),
    ("a.b.c.10-9-8-7.default.pod.cluster.local.", "A", "NXDOMAIN"),
    ("cluster.local.", "AXFR", "REFUSED"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "rrtype", "expected"), NEGATIVE)
def test_negative_answers_are_those_of_coredns(name: str, rrtype: str, expected: str) -> None:
    response = ask(ZONE, name, rrtype)
    assert code(response) == expected
    assert not response.answer
    if expected != "REFUSED":
        soa = "cluster.local. 30 SOA ns.dns.cluster.local. hostmaster.cluster.local. 1700001000 7200 1800 86400 30"
        assert lines(response, "authority") == [soa]
        assert response.flags & dns.flags.AA


def test_names_outside_of_the_zone_are_refused_without_upstreams() -> None:
    for name, rrtype in (
        ("example.com.", "A"),
        ("xcluster.local.", "A"),
        ("local.", "A"),
        ("8.8.8.8.in-addr.arpa.", "PTR"),
        ("1.0.3.10.in-addr.arpa.", "A"),
    ):
        assert code(ask(ZONE, name, rrtype)) == "REFUSED"


def test_pod_records_by_mode() -> None:
    name = "10-1-2-3.default.pod.cluster.local."
    assert code(ask(new_zone(pods="disabled"), name)) == "NXDOMAIN"
    assert code(ask(new_zone(pods="disabled"), "default.pod.cluster.local.")) == "NXDOMAIN"
    verified = new_zone(pod("a", "10.1.2.3"), pods="verified")
    assert lines(ask(verified, name)) == [f"{name} 30 A 10.1.2.3"]
    assert code(ask(verified, "10-1-2-4.default.pod.cluster.local.")) == "NXDOMAIN"
    verified.set_pod(pod("b", "10.1.2.3"))
    verified.delete_pod(pod("a", "10.1.2.3"))
    assert code(ask(verified, name)) == "NOERROR"
    verified.set_pod(pod("b", "10.1.2.3", deletion_timestamp="2026-01-01T00:00:00Z"))
    assert code(ask(verified, name)) == "NXDOMAIN"


def test_name_servers_are_the_service_of_this_server() -> None:
    own = pack_address("10.1.5.1")
    assert own is not None
    objects = (namespace("kube-system"), service("kube-dns", "10.3.0.10", "2001:db8::a", ns="kube-system"))
    zone = new_zone(*objects, addresses=(own,))
    assert lines(ask(zone, "cluster.local.", "NS")) == ["cluster.local. 30 NS ns.dns.cluster.local."]
    assert lines(ask(zone, "ns.dns.cluster.local.", "A")) == ["ns.dns.cluster.local. 30 A 10.1.5.1"]
    zone.set_slice(endpoint_slice("kube-dns", endpoint("10.1.5.1"), ns="kube-system"))
    zone.flush()
    response = ask(zone, "cluster.local.", "NS")
    name = "kube-dns.kube-system.svc.cluster.local."
    assert lines(response) == [f"cluster.local. 30 NS {name}"]
    assert lines(response, "additional") == [f"{name} 30 A 10.3.0.10", f"{name} 30 AAAA 2001:db8::a"]
    assert lines(ask(zone, "ns.dns.cluster.local.", "AAAA")) == ["ns.dns.cluster.local. 30 AAAA 2001:db8::a"]
    assert code(ask(zone, "ns.dns.cluster.local.", "SRV")) == "NODATA"
    assert code(ask(zone, "ns.dns.cluster.local.", "TXT")) == "NXDOMAIN"
    assert code(ask(zone, "dns.cluster.local.", "A")) == "NXDOMAIN"
