# SPDX-License-Identifier: Apache-2.0
"""Name servers of the zone: the Services of this server's endpoints, otherwise its own addresses."""

from __future__ import annotations

from kubeloop.dns.wire.names import DnsFormatError, join_labels
from kubeloop.dns.zone.authority import NameServer, name_server_name
from kubeloop.dns.zone.reverse_index import ReverseIndex, ServiceKey
from kubeloop.dns.zone.service_objects import ServiceObjects
from kubeloop.dns.zone.service_records import cluster_addresses, is_headless
from kubeloop.dns.zone.settings import ZoneSettings


def service_name(key: ServiceKey, domain: bytes) -> bytes | None:
    """Return the name of a Service in wire form; None if its labels are too long."""
    namespace, name = key
    try:
        return join_labels((name.lower().encode(), namespace.lower().encode(), b"svc"))[:-1] + domain
    except DnsFormatError:
        return None


def name_servers(settings: ZoneSettings, objects: ServiceObjects, reverse: ReverseIndex) -> list[NameServer]:
    """Return names and addresses of the zone's servers."""
    found: list[NameServer] = []
    for own in settings.addresses:
        for key in reverse.endpoint_services(own):
            found += _servers_of(key, objects, settings.domain)
    return found or [(name_server_name(settings.domain), own) for own in settings.addresses]


def _servers_of(key: ServiceKey, objects: ServiceObjects, domain: bytes) -> list[NameServer]:
    service, name = objects.service(key), service_name(key, domain)
    if service is None or name is None:
        return []
    if not is_headless(service):
        return [(name, address) for address in cluster_addresses(service)]
    return [(bytes((len(one.label),)) + one.label + name, one.address) for one in objects.endpoints(key)]
