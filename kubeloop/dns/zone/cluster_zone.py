# SPDX-License-Identifier: Apache-2.0
"""Cluster zone: keeps prepared answers up to date, and answers the questions that have none.

The difference between no such name and no such type follows CoreDNS's kubernetes plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubeloop.api.generated.core_v1 import Namespace, Pod, Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.clock import Clock
from kubeloop.dns.wire.answer import DnsAnswer
from kubeloop.dns.wire.constants import Rcode, RRType
from kubeloop.dns.wire.names import is_below, split_labels
from kubeloop.dns.wire.query import DnsQuery
from kubeloop.dns.zone.addresses import IPV4_REVERSE_ZONE, IPV6_REVERSE_ZONE
from kubeloop.dns.zone.authority import (
    NegativeAnswers,
    name_server_name,
    schema_version,
    soa_answer,
    zone_answers,
)
from kubeloop.dns.zone.name_servers import name_servers, service_name
from kubeloop.dns.zone.pods import PodRecords
from kubeloop.dns.zone.reverse_index import ReverseIndex, ServiceKey
from kubeloop.dns.zone.service_answers import (
    NO_ANSWERS,
    ServiceAnswers,
    answer_key,
    prepare_entries,
    prepare_service,
    without_names,
)
from kubeloop.dns.zone.service_objects import ServiceObjects
from kubeloop.dns.zone.settings import ZoneSettings

_TRANSFERS = frozenset((RRType.AXFR, RRType.IXFR))
_ADDRESSES = frozenset((RRType.A, RRType.AAAA))
_NOT_OF_SERVER = frozenset((RRType.TXT, RRType.PTR))  # for which CoreDNS does not know the name of the zone's server
_MOST_LABELS = 5  # below the zone: port, protocol, service, namespace, svc
_SERVFAIL = DnsAnswer(Rcode.SERVFAIL)
_REFUSED = DnsAnswer(Rcode.REFUSED)


@dataclass(frozen=True, slots=True)
class ExternalName:
    """Alias whose target has to be resolved for an answer."""

    target: bytes


class ClusterZone:
    """Answers about the cluster, prepared when objects change."""

    def __init__(self, settings: ZoneSettings, clock: Clock) -> None:
        self.settings = settings
        self.domain = settings.domain
        self.answers: dict[bytes, DnsAnswer] = {}
        self.is_synced = False
        self._clock = clock
        self._objects = ServiceObjects()
        self._pods = PodRecords(settings.pods)
        self._built: dict[ServiceKey, ServiceAnswers] = {}
        self._nodes: dict[bytes, bytes | None] = {}
        self._reverse = ReverseIndex(settings.ttl)
        self._authority: tuple[bytes, ...] = ()  # keys of answers about the zone's servers
        self._negative = NegativeAnswers(self.domain, 0, settings.ttl)
        self._name_server = name_server_name(self.domain)

    # Changes

    def set_namespace(self, namespace: Namespace) -> None:
        """Add a namespace."""
        self._objects.set_namespace(namespace.metadata.name)

    def delete_namespace(self, namespace: Namespace) -> None:
        """Remove a namespace; names in it do not exist any more."""
        self._objects.delete_namespace(namespace.metadata.name)

    def set_service(self, service: Service) -> None:
        """Add or change a Service."""
        self._objects.set_service(service)

    def delete_service(self, service: Service) -> None:
        """Remove a Service."""
        self._objects.delete_service(service)

    def set_slice(self, endpoint_slice: EndpointSlice) -> None:
        """Add or change an EndpointSlice."""
        self._objects.set_slice(endpoint_slice)

    def delete_slice(self, endpoint_slice: EndpointSlice) -> None:
        """Remove an EndpointSlice."""
        self._objects.delete_slice(endpoint_slice)

    def set_pod(self, pod: Pod) -> None:
        """Add or change a pod."""
        self._pods.set(pod)

    def delete_pod(self, pod: Pod) -> None:
        """Remove a pod."""
        self._pods.delete(pod)

    def prepare(self, limit: int) -> bool:
        """Prepare answers of some changed Services; returns True if there are more."""
        self._publish(limit)
        return self._objects.has_changes

    def mark_synced(self) -> None:
        """Start to answer: all objects that exist have been set."""
        self.is_synced = True
        self._publish()
        self._publish_authority()

    def flush(self) -> None:
        """Prepare the answers of changed Services; does nothing before all objects are known."""
        if self.is_synced and self._objects.has_changes:
            self._publish()
            self._publish_authority()

    def _publish(self, limit: int | None = None) -> None:
        addresses: list[bytes] = []
        for key in self._objects.take_changes(limit):
            addresses += self._rebuild(key)
        self._reverse.update(self.answers, addresses)

    def _rebuild(self, key: ServiceKey) -> Iterable[bytes]:
        """Prepare the answers of a Service; returns the addresses whose names may have changed."""
        name = service_name(key, self.domain)
        if name is None:
            return ()
        old, new = self._built.pop(key, NO_ANSWERS), NO_ANSWERS
        service, endpoints = self._objects.service(key), self._objects.endpoints(key)
        if service is not None or endpoints:
            new = prepare_service(name, service, endpoints, self.settings.ttl, old)
            if key[0] not in self._objects.namespaces:
                new = without_names(new)
            self._built[key] = new
        for question in old.answers.keys() - new.answers.keys():
            self.answers.pop(question, None)
        self.answers.update(new.answers)
        nodes = new.nodes
        for node in old.nodes.keys() - nodes.keys():
            self._nodes.pop(node, None)
        self._nodes.update(nodes)
        return self._reverse.replace(key, name, old, new)

    def _publish_authority(self) -> None:
        """Prepare the answers about the zone itself, whose serial is the time of the last change."""
        for key in self._authority:
            self.answers.pop(key, None)
        serial = int(self._clock.now().timestamp()) & 0xFFFFFFFF
        ttl, zone = self.settings.ttl, self.domain
        servers = name_servers(self.settings, self._objects, self._reverse)
        found = dict(zone_answers(zone, ttl, servers))
        found.update([schema_version(zone), (answer_key(zone, RRType.SOA), soa_answer(zone, serial, ttl))])
        self._authority = tuple(found)
        self.answers.update(found)
        self._negative = NegativeAnswers(zone, serial, ttl)

    # Questions

    def lookup(self, query: DnsQuery) -> DnsAnswer | ExternalName | None:
        """Return the answer to a question; None if another server has it."""
        name, qtype = query.name, query.type
        if not is_below(name, self.domain):
            return self._lookup_reverse(query)
        if not self.is_synced:
            return _SERVFAIL
        if qtype in _TRANSFERS:
            return _REFUSED
        found = self.answers.get(query.key)
        if found is not None:
            return found
        target = self._nodes.get(name)
        if target is not None and qtype in _ADDRESSES:
            return ExternalName(target)
        if qtype == RRType.SOA or (name == self._name_server and qtype not in _NOT_OF_SERVER):
            return self._negative.get(Rcode.NOERROR, name)
        labels = split_labels(name[: len(name) - len(self.domain)] + b"\0")
        if labels and labels[-1] == b"pod" and 3 <= len(labels) <= _MOST_LABELS:
            return self._lookup_pod(query, labels[-3], labels[-2])
        has_records, exists = self._existence(name, labels)
        # As in CoreDNS, a name without any records does not exist for questions of type TXT.
        is_known = has_records if qtype == RRType.TXT else exists
        return self._negative.get(Rcode.NOERROR if is_known else Rcode.NXDOMAIN, name)

    def negative(self, name: bytes) -> DnsAnswer:
        """Return the answer for an existing name of the zone without records of a type."""
        return self._negative.get(Rcode.NOERROR, name)

    def _lookup_reverse(self, query: DnsQuery) -> DnsAnswer | None:
        """Return the PTR records of a known address. Other names of the reverse zones are not the cluster's."""
        if query.type != RRType.PTR:
            return None
        if not is_below(query.name, IPV4_REVERSE_ZONE) and not is_below(query.name, IPV6_REVERSE_ZONE):
            return None
        return self.answers.get(query.key) if self.is_synced else _SERVFAIL

    def _existence(self, name: bytes, labels: Sequence[bytes]) -> tuple[bool, bool]:
        """Return whether a name has records of any type, and whether it exists."""
        if name in self._nodes:
            return True, True
        if not labels or labels in ([b"svc"], [b"pod"]):
            return False, True
        if len(labels) != 2 or not self._has_namespace(labels[0]):
            return False, False
        return False, labels[1] == b"svc" or (labels[1] == b"pod" and self._pods.mode != "disabled")

    def _lookup_pod(self, query: DnsQuery, label: bytes, namespace: bytes) -> DnsAnswer:
        entry = self._pods.find(label, namespace, self.domain) if self._has_namespace(namespace) else None
        if entry is None:
            return self._negative.get(Rcode.NXDOMAIN, query.name)
        if query.type in (*_ADDRESSES, RRType.SRV):
            found = dict(prepare_entries(query.name, (entry,), self.settings.ttl)).get(query.key)
            if found is not None:
                return found
        return self._negative.get(Rcode.NOERROR, query.name)

    def _has_namespace(self, label: bytes) -> bool:
        return label.decode("ascii", "replace") in self._objects.namespaces
