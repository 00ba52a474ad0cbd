# SPDX-License-Identifier: Apache-2.0
"""Prepared answers of a Service: every name and type of it, encoded once per change of its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import floor
from struct import Struct, pack

from kubeloop.api.generated.core_v1 import Service
from kubeloop.dns.wire.answer import DnsAnswer
from kubeloop.dns.wire.builder import AnswerBuilder, Section
from kubeloop.dns.wire.constants import AA, CLASS_IN, HEADER_SIZE, MAX_MESSAGE_SIZE, MAX_POINTER, RRType
from kubeloop.dns.zone.service_records import (
    NO_PORT,
    Nodes,
    ReadyEndpoint,
    RecordEntry,
    cluster_addresses,
    external_target,
    service_nodes,
)

_FIXED = Struct("!HHIH")
_SRV = Struct("!HHH")
_POINTER = 0xC000
_TO_QUESTION = (_POINTER | HEADER_SIZE).to_bytes(2)
_MOST_ADDRESSES = MAX_MESSAGE_SIZE // 16  # more do not fit into any response
_TYPES = ((RRType.A, 4), (RRType.AAAA, 16))  # with the size of an address
_PREPARED_TYPES = (RRType.A, RRType.AAAA, RRType.SRV)


@dataclass(frozen=True, slots=True)
class ServiceAnswers:
    """Contribution of a Service and its slices to the zone."""

    answers: Mapping[bytes, DnsAnswer]  # by name, type and class
    entries: Nodes  # from which the answers were made
    external: tuple[bytes, bytes] | None  # name and target of an ExternalName Service
    cluster_ips: tuple[bytes, ...]
    endpoint_names: Mapping[bytes, tuple[bytes, ...]]  # by address, for PTR records

    @property
    def nodes(self) -> dict[bytes, bytes | None]:
        """Existing names, with the target of an external name."""
        found: dict[bytes, bytes | None] = dict.fromkeys(self.entries)
        if self.external is not None:
            found[self.external[0]] = self.external[1]
        return found


NO_ANSWERS = ServiceAnswers({}, {}, None, (), {})


def answer_key(name: bytes, rrtype: int) -> bytes:
    """Return the key of a prepared answer."""
    return name + pack("!HH", rrtype, CLASS_IN)


def prepare_service(
    name: bytes, service: Service | None, endpoints: tuple[ReadyEndpoint, ...], ttl: int, old: ServiceAnswers
) -> ServiceAnswers:
    """Prepare all answers, and take over those of the old ones whose records are the same.

    Without a Service, or without its namespace, there are names of addresses only.
    """
    reverse: dict[bytes, dict[bytes, None]] = {}
    for endpoint in endpoints:
        owner = bytes((len(endpoint.label),)) + endpoint.label + name
        reverse.setdefault(endpoint.address, {})[owner] = None
    names = {address: tuple(owners) for address, owners in reverse.items()}
    if service is None:
        return ServiceAnswers({}, {}, None, (), names)
    answers: dict[bytes, DnsAnswer] = {}
    target = external_target(service)
    if target is not None:
        builder = AnswerBuilder(name, ttl)
        builder.add_name(Section.ANSWER, name, RRType.CNAME, target)
        answers[answer_key(name, RRType.CNAME)] = builder.build(AA)
    nodes = service_nodes(name, service, endpoints)
    for node, entries in nodes.items():
        if old.entries.get(node) == entries:
            keys = [answer_key(node, rrtype) for rrtype in _PREPARED_TYPES]
            answers.update((key, old.answers[key]) for key in keys if key in old.answers)
        else:
            answers.update(prepare_entries(node, entries, ttl))
    external = None if target is None else (name, target)
    return ServiceAnswers(answers, nodes, external, cluster_addresses(service), names)


def without_names(answers: ServiceAnswers) -> ServiceAnswers:
    """Return the contribution of a Service whose namespace does not exist: its addresses have names nevertheless."""
    return ServiceAnswers({}, {}, None, answers.cluster_ips, answers.endpoint_names)


def prepare_entries(name: bytes, entries: tuple[RecordEntry, ...], ttl: int) -> Iterator[tuple[bytes, DnsAnswer]]:
    """Yield the A, AAAA and SRV answers of a name, with their keys."""
    addresses = dict.fromkeys([entry.address for entry in entries])
    for rrtype, size in _TYPES:
        chosen = [one for one in addresses if len(one) == size]
        if chosen:
            yield answer_key(name, rrtype), _address_answer(rrtype, chosen[:_MOST_ADDRESSES], ttl)
    used = [entry for entry in entries if entry.port != NO_PORT]
    if used:
        weight = max(1, floor(100.0 / (100 * len(entries)) * 100))  # entries share 100, as in CoreDNS
        yield answer_key(name, RRType.SRV), _srv_answer(name, used, weight, ttl)


def _address_answer(rrtype: RRType, addresses: list[bytes], ttl: int) -> DnsAnswer:
    """Return the addresses of the question's name, which rotate."""
    head = _TO_QUESTION + _FIXED.pack(rrtype, CLASS_IN, ttl, len(addresses[0]))
    stride, count = len(head) + len(addresses[0]), len(addresses)
    body = b"".join([head + address for address in addresses])
    return DnsAnswer(AA, (count, 0, 0), body, range(stride, len(body) + 1, stride), stride if count > 1 else 0)


def _srv_answer(name: bytes, entries: list[RecordEntry], weight: int, ttl: int) -> DnsAnswer:
    """Return the SRV records, and the addresses of their targets.

    The targets are not compressed (RFC 2782), but the names of their addresses point to them.
    """
    parts: list[bytes] = []
    ends: list[int] = []
    start, size, count = HEADER_SIZE + len(name) + 4, 0, 0
    owners: dict[bytes, bytes] = {}
    for target, port in dict.fromkeys([(entry.target, entry.port) for entry in entries]):
        if size > MAX_MESSAGE_SIZE:
            break
        fixed = _FIXED.pack(RRType.SRV, CLASS_IN, ttl, _SRV.size + len(target))
        record = b"".join((_TO_QUESTION, fixed, _SRV.pack(0, weight, port), target))
        offset = start + size + len(record) - len(target)
        if offset <= MAX_POINTER:
            owners.setdefault(target, (_POINTER | offset).to_bytes(2))
        parts.append(record)
        size += len(record)
        ends.append(size)
        count += 1
    for target, address in dict.fromkeys([(entry.target, entry.address) for entry in entries]):
        if size > MAX_MESSAGE_SIZE:
            break
        rrtype = RRType.A if len(address) == 4 else RRType.AAAA
        record = owners.get(target, target) + _FIXED.pack(rrtype, CLASS_IN, ttl, len(address)) + address
        parts.append(record)
        size += len(record)
        ends.append(size)
    return DnsAnswer(AA, (count, 0, len(parts) - count), b"".join(parts), tuple(ends))
