"""Resolves a webhook's client config: a URL, or a Service and its endpoints."""

from __future__ import annotations

import posixpath
import ssl
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from kubeloop.api.generated.admissionregistration_v1 import ServiceReference
from kubeloop.apiserver.admission import Lookup
from kubeloop.apiserver.aggregator.endpoints import HostPort, ServiceUnresolvable, cluster_address, endpoint_address
from kubeloop.apiserver.webhook_client.client import WebhookHttpClient

_HTTPS: Final = 443
_MAX_CLIENTS: Final = 200
_SERVICE_NAME: Final = "kubernetes.io/service-name"


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
    """Resolved target: HTTP client, `url` without query for messages, and path."""

    outgoing: WebhookHttpClient
    url: str
    path: str


class WebhookClients:
    """Pool of HTTP clients, one per client config, shared by all webhooks with that config."""

    def __init__(self, lookup: Lookup, chance: Random) -> None:
        self._lookup = lookup
        self._chance = chance
        self._known: dict[tuple[object, ...], WebhookTarget] = {}

    def of(self, config: WebhookEndpointConfig) -> WebhookTarget:
        """Return the target of a client config, from the pool or new."""
        service = config.service
        key = (config.url, config.ca_bundle, service and (service.namespace, service.name, service.path, service.port))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_CLIENTS:
                self.close()
            found = self._known[key] = self._make(config)
        return found

    def close(self) -> None:
        """Close all clients."""
        for callee in self._known.values():
            callee.outgoing.close()
        self._known.clear()

    def _make(self, config: WebhookEndpointConfig) -> WebhookTarget:
        trust = _ssl_context_for(config.ca_bundle)
        if config.service is not None:
            return self._service_callee(config.service, trust)
        parts = urlsplit(config.url or "")
        host, port = parts.hostname or "", parts.port or _HTTPS
        path = _clean(parts.path)
        outgoing = WebhookHttpClient(parts.netloc, lambda: HostPort(host, port), trust, host)
        return WebhookTarget(outgoing, f"https://{parts.netloc}{path}", path)

    def _service_callee(self, reference: ServiceReference, trust: Callable[[], ssl.SSLContext]) -> WebhookTarget:
        namespace, name, port = reference.namespace, reference.name, reference.port or _HTTPS
        server_name = f"{name}.{namespace}.svc"
        path = _clean(reference.path or "")
        outgoing = WebhookHttpClient(
            f"{server_name}:{port}", lambda: self._address(namespace, name, port), trust, server_name
        )
        return WebhookTarget(outgoing, f"https://{server_name}:{port}{path}", path)

    def _address(self, namespace: str, name: str, port: int) -> HostPort:
        """Return the address of an endpoint, as cluster IPs may not be routed here; the cluster IP if there is none."""
        service = self._lookup.find("services", namespace, name)
        if service is None:
            raise ServiceUnresolvable(f'service "{name}" not found')
        slices = [
            one
            for one in self._lookup.every("endpointslices", namespace, "discovery.k8s.io")
            if (one.metadata.labels or {}).get(_SERVICE_NAME) == name
        ]
        if not slices and service.spec.cluster_ip not in ("", "None"):
            return cluster_address(service, port)
        return endpoint_address(service, slices, port, self._chance)


def _clean(path: str) -> str:
    """Return a path as Go joins it: no dots, no double slashes, none at the end."""
    return "/" + posixpath.normpath(path).strip("/") if path.strip("/") else "/"


def _ssl_context_for(authorities: bytes) -> Callable[[], ssl.SSLContext]:
    def make() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if authorities:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        else:
            context.load_default_certs()
        return context

    return make
