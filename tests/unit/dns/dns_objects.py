# SPDX-License-Identifier: Apache-2.0
"""Objects, zones and questions for tests of the DNS server; answers are read by dnspython."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype

from kubeloop.api.generated.core_v1 import Namespace, Pod, PodStatus, Service, ServicePort, ServiceSpec
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.dns.forward.forwarder import DnsForwarder
from kubeloop.dns.server.handler import DnsHandler
from kubeloop.dns.server.metrics import ChannelMetrics, DnsMetrics
from kubeloop.dns.zone.cluster_zone import ClusterZone
from kubeloop.dns.zone.settings import ZoneSettings
from kubeloop.metrics import MetricRegistry


class ManualDnsClock:
    """Clock whose time is set by the test."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self._random = random.Random(1)

    def now(self) -> datetime:
        return datetime.fromtimestamp(1_700_000_000 + self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    def random(self) -> random.Random:
        return self._random


def namespace(name: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name))


def service(
    name: str, *cluster_ips: str, ns: str = "default", ports: Iterable[tuple[str, int, str]] = (("http", 80, "TCP"),)
) -> Service:
    """Return a Service; "None" as its cluster IP makes it headless."""
    numbered = tuple(ServicePort(name=port, port=number, protocol=protocol) for port, number, protocol in ports)
    spec = ServiceSpec(type="ClusterIP", cluster_ip=cluster_ips[0], cluster_ips=cluster_ips, ports=numbered)
    return Service(metadata=ObjectMeta(name=name, namespace=ns), spec=spec)


def external(name: str, target: str, ns: str = "default") -> Service:
    spec = ServiceSpec(type="ExternalName", external_name=target)
    return Service(metadata=ObjectMeta(name=name, namespace=ns), spec=spec)


def endpoint(*addresses: str, hostname: str | None = None, ready: bool | None = True, **more: bool) -> Endpoint:
    return Endpoint(addresses=addresses, hostname=hostname, conditions=EndpointConditions(ready=ready, **more))


def endpoint_slice(
    owner: str,
    *endpoints: Endpoint,
    ns: str = "default",
    name: str = "",
    ports: Iterable[tuple[str, int, str]] = (("http", 8080, "TCP"),),
) -> EndpointSlice:
    first = endpoints[0].addresses[0] if endpoints and endpoints[0].addresses else ""
    return EndpointSlice(
        metadata=ObjectMeta(name=name or f"{owner}-1", namespace=ns, labels={"kubernetes.io/service-name": owner}),
        address_type="IPv6" if ":" in first else "IPv4",
        endpoints=endpoints,
        ports=tuple(EndpointPort(name=port, port=number, protocol=protocol) for port, number, protocol in ports),
    )


def pod(name: str, address: str, ns: str = "default", **metadata: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=ns, **metadata), status=PodStatus(pod_ip=address))


def new_zone(*objects: Any, clock: ManualDnsClock | None = None, **settings: Any) -> ClusterZone:
    """Return a zone with objects, and with the namespace default."""
    zone = ClusterZone(ZoneSettings(**settings), clock or ManualDnsClock())
    zone.set_namespace(namespace("default"))
    for one in objects:
        set_object(zone, one)
    zone.mark_synced()
    return zone


def set_object(zone: ClusterZone, one: Any) -> None:
    """Add or change an object of any kind."""
    setters = {
        Namespace: zone.set_namespace,
        Service: zone.set_service,
        EndpointSlice: zone.set_slice,
        Pod: zone.set_pod,
    }
    setters[type(one)](one)


def new_handler(zone: ClusterZone, forwarder: DnsForwarder | None = None) -> DnsHandler:
    return DnsHandler(zone, forwarder, ManualDnsClock())


def new_channel(protocol: str = "udp") -> ChannelMetrics:
    return DnsMetrics(MetricRegistry(), "dns://:53").channel(protocol, "1")


def ask(
    zone: ClusterZone | DnsHandler, name: str, rrtype: str = "A", *, is_stream: bool = False, **options: Any
) -> dns.message.Message:
    """Return the response to a question, as dnspython reads it; the response must have the question as it was sent."""
    handler = zone if isinstance(zone, DnsHandler) else new_handler(zone)
    query = dns.message.make_query(name, rrtype, **options)
    data = handler.respond(query.to_wire(), new_channel(), is_stream=is_stream)
    if data is not None and not isinstance(data, bytes):
        data.close()
    assert isinstance(data, bytes), "the question is forwarded"
    response = dns.message.from_wire(data)
    assert query.is_response(response)
    assert response.question[0].name.labels == query.question[0].name.labels  # in the client's case
    return response


def lines(response: dns.message.Message, section: str = "answer") -> list[str]:
    """Return the records of a section as text, sorted: NAME TTL TYPE DATA."""
    sets = getattr(response, section)
    return sorted(f"{one.name} {one.ttl} {dns.rdatatype.to_text(one.rdtype)} {data}" for one in sets for data in one)


def code(response: dns.message.Message) -> str:
    """Return the result: the response code, or NODATA for a positive one without answers."""
    name = dns.rcode.to_text(response.rcode())
    return "NODATA" if name == "NOERROR" and not response.answer else name
