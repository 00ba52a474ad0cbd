# SPDX-License-Identifier: Apache-2.0
"""Resolves a webhook's client config: a URL, or a Service and its endpoints."""

from __future__ import annotations

import posixpath
import ssl
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import SplitResult, quote, urlsplit

from kubeloop.api.generated.admissionregistration_v1 import ServiceReference
from kubeloop.apiserver.admission import Lookup
from kubeloop.apiserver.aggregator.endpoints import HostPort, ServiceUnresolvable, cluster_address, endpoint_address
from kubeloop.apiserver.webhook_client.client import WebhookHttpClient
from kubeloop.apiserver.webhook_client.credentials import WebhookCredentials

_HTTPS: Final = 443
_MAX_PORT: Final = 65_535
_LONGEST_PORT: Final = 9
# Characters of a path besides letters and digits that need no escape; a percent sign begins an escape.
_PATH_CHARACTERS: Final = "/%:@!$&'()*+,;=-._~"
_MAX_CLIENTS: Final = 200
_SERVICE_NAME: Final = "kubernetes.io/service-name"
NO_CREDENTIALS: Final = WebhookCredentials()


class WebhookEndpointConfig(Protocol):
    """Client config of an admission webhook or CRD."""

    @property
    def ca_bundle(self) -> bytes:
        """CA certificates in PEM; empty for the system's."""

    @property
    def service(self) -> Any:
        """Service reference, or None."""

    @property
    def url(self) -> str | None:
        """URL, or None."""


class WebhookTarget(NamedTuple):
    """Resolved target: HTTP client, `url` without query for messages, path, and credentials."""

    http_client: WebhookHttpClient
    url: str
    path: str
    credentials: WebhookCredentials = NO_CREDENTIALS


class WebhookClients:
    """Pool of HTTP clients, one per client config, shared by all webhooks with that config.

    `credentials_for` returns the credentials for a server, as host:port.
    """

    def __init__(
        self,
        lookup: Lookup,
        chance: Random,
        credentials_for: Callable[[str], WebhookCredentials] = lambda _: NO_CREDENTIALS,
    ) -> None:
        self._lookup = lookup
        self._random = chance
        self._credentials_for = credentials_for
        self._clients: dict[tuple[object, ...], WebhookTarget] = {}

    def client_for(self, config: WebhookEndpointConfig) -> WebhookTarget:
        """Return the target of a client config, from the pool or new."""
        service = config.service
        key = (config.url, config.ca_bundle, service and (service.namespace, service.name, service.path, service.port))
        found = self._clients.get(key)
        if found is None:
            if len(self._clients) >= _MAX_CLIENTS:
                self.close()
            found = self._clients[key] = self._make(config)
        return found

    def close(self) -> None:
        """Close all clients."""
        for callee in self._clients.values():
            callee.http_client.close()
        self._clients.clear()

    def _make(self, config: WebhookEndpointConfig) -> WebhookTarget:
        if config.service is not None:
            return self._service_target(config.service, config.ca_bundle)
        parts = urlsplit(config.url or "")
        host, port = parts.hostname or "", _port_text(parts) or str(_HTTPS)
        path = _clean(parts.path)
        credentials = self._credentials_for(f"{host}:{port}")
        trust = _ssl_context_for(config.ca_bundle, credentials)
        outgoing = WebhookHttpClient(parts.netloc, lambda: _host_port(host, port), trust, host)
        return WebhookTarget(outgoing, f"https://{parts.netloc}{path}", path, credentials)

    def _service_target(self, reference: ServiceReference, authorities: bytes) -> WebhookTarget:
        namespace, name, port = reference.namespace, reference.name, reference.port or _HTTPS
        server_name = f"{name}.{namespace}.svc"
        path = _clean(reference.path or "")
        credentials = self._credentials_for(f"{server_name}:{port}")
        trust = _ssl_context_for(authorities, credentials)
        outgoing = WebhookHttpClient(
            f"{server_name}:{port}", lambda: self._address(namespace, name, port), trust, server_name
        )
        return WebhookTarget(outgoing, f"https://{server_name}:{port}{path}", path, credentials)

    def _address(self, namespace: str, name: str, port: int) -> HostPort:
        """Return the address of an endpoint, as cluster IPs may not be routed here; the cluster IP if there is none."""
        service = self._lookup.get_object("services", namespace, name)
        if service is None:
            raise ServiceUnresolvable(f'service "{name}" not found')
        slices = [
            one
            for one in self._lookup.list_objects("endpointslices", namespace, "discovery.k8s.io")
            if (one.metadata.labels or {}).get(_SERVICE_NAME) == name
        ]
        if not slices and service.spec.cluster_ip not in ("", "None"):
            return cluster_address(service, port)
        return endpoint_address(service, slices, port, self._random)


def _port_text(parts: SplitResult) -> str:
    """Return the port of a URL as it is written; empty if there is none."""
    return parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2]


def _host_port(host: str, port: str) -> HostPort:
    """Return the address; raises `ServiceUnresolvable` for a port that cannot be dialled."""
    if not (port.isascii() and port.isdigit()) or len(port) > _LONGEST_PORT or int(port) > _MAX_PORT:
        raise ServiceUnresolvable(f"dial tcp: address {port}: invalid port")
    return HostPort(host, int(port))


def _clean(path: str) -> str:
    """Return a path as Go joins it: no dots, no double slashes, none at the end, other characters escaped."""
    return "/" + quote(posixpath.normpath(path).strip("/"), safe=_PATH_CHARACTERS) if path.strip("/") else "/"


def _ssl_context_for(authorities: bytes, credentials: WebhookCredentials) -> Callable[[], ssl.SSLContext]:
    def make() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if authorities:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        else:
            context.load_default_certs()
        credentials.add_certificate(context)
        return context

    return make
