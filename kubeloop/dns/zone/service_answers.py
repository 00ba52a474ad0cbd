# SPDX-License-Identifier: Apache-2.0
"""Prepared answers of a Service: every name and type of it, encoded once per change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import floor
from struct import pack

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.dns.wire.answer import DnsAnswer
from kubeloop.dns.wire.builder import AnswerBuilder, Section
from kubeloop.dns.wire.constants import AA, CLASS_IN, MAX_MESSAGE_SIZE, RRType
from kubeloop.dns.zone.service_records import (
    NO_PORT,
    RecordEntry,
    cluster_addresses,
    external_target,
    ready_endpoints,
    service_nodes,
)

_MOST_ADDRESSES = MAX_MESSAGE_SIZE // 16  # more do not fit into any response


@dataclass(frozen=True, slots=True)
class ServiceAnswers:
    """Contribution of a Service and its slices to the zone."""

    answers: Mapping[bytes, DnsAnswer]  # by name, type and class
    nodes: Mapping[bytes, bytes | None]  # existing names, with the target of an external name
    cluster_ips: tuple[bytes, ...]
    endpoint_names: Mapping[bytes, tuple[bytes, ...]]  # by address, for PTR records


def answer_key(name: bytes, rrtype: int) -> bytes:
    """Return the key of a prepared answer."""
    return name + pack("!HH", rrtype, CLASS_IN)


def prepare_service(
    name: bytes, service: Service | None, slices: Iterable[EndpointSlice], ttl: int, *, is_visible: bool
) -> ServiceAnswers:
    """Prepare all answers; without its namespace a Service has PTR records only."""
    endpoints = ready_endpoints(slices)
    reverse: dict[bytes, dict[bytes, None]] = {}
    for endpoint in endpoints:
        owner = bytes((len(endpoint.label),)) + endpoint.label + name
        reverse.setdefault(endpoint.address, {})[owner] = None
    names = {address: tuple(owners) for address, owners in reverse.items()}
    if service is None:
        return ServiceAnswers({}, {}, (), names)
    answers: dict[bytes, DnsAnswer] = {}
    nodes: dict[bytes, bytes | None] = {}
    target = external_target(service)
    if target is not None and is_visible:
        nodes[name] = target
        builder = AnswerBuilder(name, ttl)
        builder.add_name(Section.ANSWER, name, RRType.CNAME, target)
        answers[answer_key(name, RRType.CNAME)] = builder.build(AA)
    for node, entries in service_nodes(name, service, endpoints).items() if is_visible else ():
        nodes[node] = None
        answers.update(prepare_entries(node, entries, ttl))
    return ServiceAnswers(answers, nodes, cluster_addresses(service), names)


def prepare_entries(name: bytes, entries: tuple[RecordEntry, ...], ttl: int) -> Iterator[tuple[bytes, DnsAnswer]]:
    """Yield the A, AAAA and SRV answers of a name, with their keys."""
    for rrtype, size in ((RRType.A, 4), (RRType.AAAA, 16)):
        addresses = [one for one in dict.fromkeys(entry.address for entry in entries) if len(one) == size]
        if addresses:
            builder = AnswerBuilder(name, ttl)
            builder.add_addresses(addresses[:_MOST_ADDRESSES])
            yield answer_key(name, rrtype), builder.build(AA)
    if any(entry.port != NO_PORT for entry in entries):
        yield answer_key(name, RRType.SRV), _srv_answer(name, entries, ttl)


def _srv_answer(name: bytes, entries: tuple[RecordEntry, ...], ttl: int) -> DnsAnswer:
    """Return the SRV records, which share the weight of 100 as in CoreDNS, and the addresses of their targets."""
    builder = AnswerBuilder(name, ttl)
    weight = max(1, floor(100.0 / (100 * len(entries)) * 100))
    used = [entry for entry in entries if entry.port != NO_PORT]
    for target, port in dict.fromkeys((entry.target, entry.port) for entry in used):
        if builder.size > MAX_MESSAGE_SIZE:
            break
        builder.add_srv(name, weight, port, target)
    for target, address in dict.fromkeys((entry.target, entry.address) for entry in used):
        if builder.size > MAX_MESSAGE_SIZE:
            break
        builder.add_address(Section.ADDITIONAL, target, address)
    return builder.build(AA)
