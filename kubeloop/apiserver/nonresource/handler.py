"""Handler of non-resource paths: health, version, metrics, discovery and OpenAPI documents."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.api import errors, schema
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.authentication import openid
from kubeloop.apiserver.metrics import ApiServerMetrics
from kubeloop.apiserver.nonresource.discovery import AGGREGATED_MEDIA_TYPE, DiscoveryDocuments, wants_aggregated
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.nonresource.openapi import OpenAPI, v2_media_type, v3_media_type
from kubeloop.apiserver.nonresource.openapi.v3 import link_to
from kubeloop.apiserver.request.etag import is_not_modified
from kubeloop.apiserver.request.negotiation import negotiate
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import PageNotFound
from kubeloop.clock import Clock
from kubeloop.http import Request, Response

if TYPE_CHECKING:
    from kubeloop.apiserver.aggregator.discovery_cache import RemoteVersion
    from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens

TEXT = "text/plain; charset=utf-8"
# Resources, the definitions of their types, and resources without type definitions.
_Described = tuple[Sequence[Resource], Callable[[], Mapping[str, Mapping[str, Any]]], Sequence[Resource]]
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class NonResourceHandler:
    """Handler of requests for non-resource paths."""

    def __init__(
        self,
        resources: Sequence[Resource],
        health: HealthChecks,
        metrics: ApiServerMetrics,
        server_address: Callable[[], str],
        clock: Clock,
        issuer: Callable[[], ServiceAccountTokens] | None = None,
        keys_uri: str = "",
    ) -> None:
        self._issuer = issuer
        self._keys_uri = keys_uri
        self._address = server_address
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._discovery = DiscoveryDocuments(resources, server_address)
        self._openapi = OpenAPI(resources)
        self._remote: Sequence[RemoteVersion] = ()
        self._described: _Described = (resources, schema.definitions, ())

    def serve(
        self,
        resources: Sequence[Resource],
        definitions: Callable[[], Mapping[str, Mapping[str, Any]]],
        undescribed: Sequence[Resource] = (),
    ) -> None:
        """Set the described resources; those without a schema appear in discovery only."""
        self._described = resources, definitions, undescribed
        self._describe_anew()

    def serve_remote(self, remote: Sequence[RemoteVersion]) -> None:
        """Set the described versions of extension API servers."""
        self._remote = remote
        self._describe_anew()

    def _describe_anew(self) -> None:
        resources, definitions, undescribed = self._described
        if not self._remote:
            self._discovery = DiscoveryDocuments((*resources, *undescribed), self._address)
            self._openapi = OpenAPI(resources, definitions, before=self._openapi)
            return
        from kubeloop.apiserver.aggregator.merged_discovery import MergedDiscovery
        from kubeloop.apiserver.aggregator.merged_openapi import MergedOpenAPI

        self._discovery = MergedDiscovery((*resources, *undescribed), self._address, self._remote)
        self._openapi = MergedOpenAPI(resources, definitions, self._openapi, self._remote)

    @property
    def edition(self) -> object:
        """Object that identifies the current documents: it changes with the served resources."""
        return self._discovery

    def answer(self, request: Request) -> Response:
        """Return the response for a non-resource path."""
        path = request.path.rstrip("/") or "/"
        first = path.split("/", 2)[1]
        if first in ("healthz", "livez", "readyz"):
            return self._health.answer(path, Query(request.query))
        if request.method not in ("GET", "HEAD"):
            return self._only_read(path)
        if first == "version" and path == "/version":
            return Response(200, _version())
        if path == "/metrics":
            return Response(200, self._metrics.render(), METRICS_TYPE)
        if path == "/":
            return Response(200, self._root())
        if first in ("api", "apis"):
            return self._discover(path, request)
        if first == "openapi":
            return self._describe(request.path, request)
        if path in (openid.CONFIGURATION_PATH, openid.KEYS_PATH) and self._issuer is not None:
            return self._describe_issuer(path, self._issuer())
        raise PageNotFound

    def _describe_issuer(self, path: str, tokens: ServiceAccountTokens) -> Response:
        if not openid.is_valid_issuer(tokens.issuer):
            raise PageNotFound
        if path == openid.KEYS_PATH:
            return openid.jwks_response(tokens)
        return openid.openid_configuration_response(
            tokens, self._keys_uri or f"https://{self._address()}{openid.KEYS_PATH}"
        )

    def _only_read(self, path: str) -> Response:
        if path in ("/version", "/metrics", "/api", "/apis") or path.startswith(("/api/", "/apis/", "/openapi/")):
            raise errors.generic_server_response(405)
        raise PageNotFound

    def _discover(self, path: str, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        parts = path.split("/")[1:]
        if len(parts) == 1 and wants_aggregated(accept):
            return self._aggregated(parts[0], request)
        form = negotiate(accept, convertible=False)
        body = self._document(parts)
        if body is None:
            if parts[0] == "apis" and not (parts[1] and self._discovery.has_built_in(parts[1])):
                raise PageNotFound
            raise errors.generic_server_response(404)
        if form.yaml:
            return Response(200, _yaml(body), "application/yaml")
        return Response(200, body)

    def _document(self, parts: list[str]) -> bytes | None:
        if parts[0] == "api":
            return self._discovery.core_versions() if len(parts) == 1 else self._discovery.resources("", parts[1])
        if len(parts) == 1:
            return self._discovery.groups()
        if not parts[1]:
            return None
        return self._discovery.group(parts[1]) if len(parts) == 2 else self._discovery.resources(parts[1], parts[2])

    def _aggregated(self, which: str, request: Request) -> Response:
        found = self._discovery
        body = found.aggregated_core() if which == "api" else found.aggregated_groups()
        etag = found.aggregated_core_etag() if which == "api" else found.aggregated_groups_etag()
        headers = (("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public"))
        if is_not_modified(etag, request.headers.get("if-none-match", "")):
            return Response(304, b"", AGGREGATED_MEDIA_TYPE, headers)
        return Response(200, body, AGGREGATED_MEDIA_TYPE, headers)

    def _describe(self, path: str, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        if path.rstrip("/") == "/openapi/v2":
            media = v2_media_type(accept)
            if media is None:
                return Response(406, b"", TEXT)
            json = media == "application/json"
            etag = self._openapi.v2_json_etag() if json else self._openapi.v2_protobuf_etag()
            return self._cached(request, etag, media, self._openapi.v2_json if json else self._openapi.v2_protobuf)
        if not path.startswith("/openapi/v3"):
            raise PageNotFound
        media = v3_media_type(accept)
        if media is None:
            return Response(406, b"", TEXT)
        name = path.removeprefix("/openapi/v3").strip("/")
        if not name:
            return self._cached(request, self._openapi.v3_index_etag(), media, self._openapi.v3_index)
        return self._versioned(request, name, media)

    def _cached(self, request: Request, etag: str, media: str, body: Callable[[], bytes]) -> Response:
        headers = (("ETag", etag), ("Vary", "Accept"))
        if is_not_modified(etag, request.headers.get("if-none-match", "")):
            return Response(304, b"", media, headers)
        return Response(200, body(), media, headers)

    def _versioned(self, request: Request, name: str, media: str) -> Response:
        """Return a v3 document; requested by its digest, it may be cached forever."""
        digest = self._openapi.v3_digest(name)
        body = self._openapi.v3_document(name)
        if digest is None or body is None:
            return Response(404, b"", TEXT)
        etag = f'"{digest}"'
        asked = Query(request.query).text("hash")
        if asked and asked != digest:
            return Response(301, b"", TEXT, (("Location", link_to(name, digest)),))
        headers: tuple[tuple[str, str], ...] = (("ETag", etag), ("Vary", "Accept"))
        if asked:
            expires = format_datetime(self._clock.now() + timedelta(days=365), usegmt=True)
            headers = (*headers, ("Cache-Control", "public, immutable"), ("Expires", expires))
        if is_not_modified(etag, request.headers.get("if-none-match", "")):
            return Response(304, b"", media, headers)
        return Response(200, body, media, headers)

    def _root(self) -> bytes:
        paths = ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        if self._issuer is not None:
            paths += [openid.CONFIGURATION_PATH, openid.KEYS_PATH]
        return msgspec.json.encode({"paths": sorted(paths)})


def _yaml(body: bytes) -> bytes:
    import yaml

    text: str = yaml.safe_dump(msgspec.json.decode(body), default_flow_style=False)
    return text.encode()


def _version() -> bytes:
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return msgspec.json.encode(
        {
            "major": major,
            "minor": minor,
            "emulationMajor": major,
            "emulationMinor": minor,
            "minCompatibilityMajor": major,
            "minCompatibilityMinor": str(int(minor) - 1),
            "gitVersion": f"v{KUBERNETES_VERSION}+kubeloop.{__version__}",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": f"python{platform.python_version()}",
            "compiler": platform.python_implementation().lower(),
            "platform": f"{platform.system().lower()}/{_architecture()}",
        }
    )


def _architecture() -> str:
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
