# SPDX-License-Identifier: Apache-2.0
"""Names by address: PTR records of cluster IPs, otherwise of endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import TypeAlias

from kubeloop.dns.wire.answer import DnsAnswer
from kubeloop.dns.wire.builder import AnswerBuilder, Section
from kubeloop.dns.wire.constants import AA, CLASS_IN, HEADER_SIZE, RRType
from kubeloop.dns.zone.addresses import reverse_name
from kubeloop.dns.zone.service_answers import ServiceAnswers, answer_key

ServiceKey: TypeAlias = tuple[str, str]  # namespace and name
_FIXED = Struct("!HHIH")
_OWNER = (0xC000 | HEADER_SIZE).to_bytes(2)  # points to the question's name


class ReverseIndex:
    """Services by cluster IP, and names of endpoints by address."""

    def __init__(self, ttl: int) -> None:
        self._ttl = ttl
        self._services: dict[bytes, dict[ServiceKey, bytes]] = {}
        self._endpoints: dict[bytes, dict[ServiceKey, tuple[bytes, ...]]] = {}

    def replace(self, key: ServiceKey, name: bytes, old: ServiceAnswers, new: ServiceAnswers) -> Iterable[bytes]:
        """Replace the addresses of a Service; returns those whose names may have changed."""
        changed: list[bytes] = []
        if old.cluster_ips != new.cluster_ips:
            for address in old.cluster_ips:
                _discard(self._services, address, key)
            for address in new.cluster_ips:
                self._services.setdefault(address, {})[key] = name
            changed += (*old.cluster_ips, *new.cluster_ips)
        for address in old.endpoint_names:
            if address not in new.endpoint_names:
                _discard(self._endpoints, address, key)
                changed.append(address)
        for address, names in new.endpoint_names.items():
            if old.endpoint_names.get(address) != names:
                self._endpoints.setdefault(address, {})[key] = names
                changed.append(address)
        return changed

    def endpoint_services(self, address: bytes) -> Iterable[ServiceKey]:
        """Return the Services that have an address as an endpoint, in order."""
        return sorted(self._endpoints.get(address, ()))

    def update(self, answers: dict[bytes, DnsAnswer], addresses: Iterable[bytes]) -> None:
        """Bring the PTR answers of addresses up to date."""
        for address in set(addresses):
            owner = reverse_name(address)
            names = self._names(address)
            if not names:
                answers.pop(answer_key(owner, RRType.PTR), None)
                continue
            answers[answer_key(owner, RRType.PTR)] = self._answer(owner, names)

    def _answer(self, owner: bytes, names: Sequence[bytes]) -> DnsAnswer:
        if len(names) == 1:  # by far the most: there is nothing to compress
            body = _OWNER + _FIXED.pack(RRType.PTR, CLASS_IN, self._ttl, len(names[0])) + names[0]
            return DnsAnswer(AA, (1, 0, 0), body, (len(body),))
        builder = AnswerBuilder(owner, self._ttl)
        for name in names:
            builder.add_name(Section.ANSWER, owner, RRType.PTR, name)
        return builder.build(AA)

    def _names(self, address: bytes) -> Sequence[bytes]:
        services = self._services.get(address)
        if services:
            return (services[min(services)],)
        found = self._endpoints.get(address, {})
        return tuple(dict.fromkeys(name for key in sorted(found) for name in found[key]))


def _discard(
    index: dict[bytes, dict[ServiceKey, bytes]] | dict[bytes, dict[ServiceKey, tuple[bytes, ...]]],
    address: bytes,
    key: ServiceKey,
) -> None:
    by_service = index.get(address)
    if by_service is not None:
        by_service.pop(key, None)
        if not by_service:
            del index[address]
