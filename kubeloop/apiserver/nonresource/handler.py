# SPDX-License-Identifier: Apache-2.0
"""Handler of non-resource paths: health, version, metrics, discovery, OpenAPI and OpenID documents."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.metrics import ApiServerMetrics
from kubeloop.apiserver.nonresource.discovery import AGGREGATED_MEDIA_TYPE, DiscoveryDocuments, wants_aggregated
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.nonresource.openapi import OpenAPI, v2_media_type, v3_media_type
from kubeloop.apiserver.nonresource.openapi.schemas import DefinitionsSource, built_in_definitions
from kubeloop.apiserver.nonresource.openapi.v3 import link_to
from kubeloop.apiserver.nonresource.zpages import flagz_response, statusz_response
from kubeloop.apiserver.request.etag import is_not_modified
from kubeloop.apiserver.request.negotiation import ACCEPTED, check_representations, requested_format
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import PageNotFound
from kubeloop.apiserver.response.documents import JSON, TEXT, encode_document
from kubeloop.clock import Clock
from kubeloop.http import Request, Response

if TYPE_CHECKING:
    from kubeloop.apiserver.aggregator.discovery_cache import RemoteVersion
    from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens

COMPONENT = "kube-apiserver"
# Resources, the definitions of their types, and resources without type definitions.
_Described = tuple[Sequence[Resource], DefinitionsSource, Sequence[Resource]]
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OPENID_CONFIGURATION_PATH = "/.well-known/openid-configuration"
_JWKS_PATH = "/openid/v1/jwks"
_SLIS_PATH = "/metrics/slis"
_CACHED_HEADERS = (("Cache-Control", "public, max-age=3600"),)


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
        flags: Mapping[str, str] | None = None,
        git_version: str = f"v{KUBERNETES_VERSION}",
    ) -> None:
        self._git_version = git_version
        self._flags = flags or {}
        self._started = clock.now()
        self._issuer = issuer
        self._keys_uri = keys_uri
        self._address = server_address
        self._health = health
        self._metrics = metrics
        self._aggregations = metrics.registry.counter("aggregator_discovery_aggregation_count_total").with_labels()
        self._clock = clock
        self._discovery = DiscoveryDocuments(resources, server_address)
        self._openapi = OpenAPI(resources)
        self._remote: Sequence[RemoteVersion] = ()
        self._described: _Described = (resources, built_in_definitions, ())

    def set_resources(
        self,
        resources: Sequence[Resource],
        definitions: DefinitionsSource,
        undescribed: Sequence[Resource] = (),
    ) -> None:
        """Set the described resources; those without a schema appear in discovery only."""
        self._described = resources, definitions, undescribed
        self._rebuild_documents()

    def set_remote_versions(self, remote: Sequence[RemoteVersion]) -> None:
        """Set the described versions of extension API servers."""
        self._remote = remote
        self._rebuild_documents()

    def _rebuild_documents(self) -> None:
        self._aggregations.value += 1
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
    def discovery_version(self) -> object:
        """Object that identifies the current documents: it changes with the served resources."""
        return self._discovery

    def handle(self, request: Request) -> Response:
        """Return the response for a non-resource path.

        Only routes of upstream's router look at the method; its other handlers serve every method like GET.
        """
        path = request.path.rstrip("/") or "/"
        first = path.split("/", 2)[1]
        if first in ("healthz", "livez", "readyz"):
            return self._health.handle(request.path, Query(request.query))
        if path == "/flagz":
            return flagz_response(COMPONENT, self._flags, request.headers.get("accept", ""))
        if path == "/statusz":
            accept = request.headers.get("accept", "")
            return statusz_response(COMPONENT, self._started, self._clock.now(), self._paths(), accept)
        if path == "/":
            return Response(200, self._root())
        if path == "/metrics":
            return Response(200, self._metrics.render(), METRICS_TYPE)
        if path == _SLIS_PATH:
            return Response(200, self._health.metrics.respond(request.method), METRICS_TYPE)
        if first in ("api", "apis"):
            return self._discovery_response(path, request)
        if first == "openapi":
            return self._openapi_response(request.path, request)
        if first == "version":
            return self._version_response(path, request)
        if path in (_OPENID_CONFIGURATION_PATH, _JWKS_PATH) and self._issuer is not None:
            _require_get(request)
            return self._openid_response(path, self._issuer())
        raise PageNotFound

    def _version_response(self, path: str, request: Request) -> Response:
        if path != "/version":
            raise errors.generic_server_response(404)
        _require_get(request)
        check_representations(request.headers.get("accept", ""), (JSON,))
        return Response(200, _version(self._git_version))

    def _openid_response(self, path: str, tokens: ServiceAccountTokens) -> Response:
        if not _is_valid_issuer(tokens.issuer):
            raise PageNotFound
        if path == _JWKS_PATH:
            return jwks_response(tokens)
        return openid_configuration_response(tokens, self._keys_uri or f"https://{self._address()}{_JWKS_PATH}")

    def _discovery_response(self, path: str, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        parts = path.split("/")[1:]
        if parts[0] == "api" and len(parts) == 1:
            _require_get(request)
        if len(parts) == 1 and wants_aggregated(accept):
            return self._aggregated(parts[0], request)
        body = self._document(parts)
        if body is None:
            if parts[0] == "apis" and not (parts[1] and self._discovery.has_built_in(parts[1])):
                raise PageNotFound
            raise errors.generic_server_response(404)
        if parts[0] == "api" or (len(parts) > 2 and self._discovery.has_built_in(parts[1])):
            _require_get(request)
            check_representations(accept, ACCEPTED)
        return Response(200, *encode_document(body, requested_format(request, convertible=False)))

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

    def _openapi_response(self, path: str, request: Request) -> Response:
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
        name = path.removeprefix("/openapi/v3").strip("/")
        if not name:
            return self._cached(request, self._openapi.v3_index_etag(), JSON, self._openapi.v3_index)
        media = v3_media_type(accept)
        return Response(406, b"", TEXT) if media is None else self._versioned(request, name, media)

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
        return _indented({"paths": sorted(self._paths())})

    def _paths(self) -> set[str]:
        paths = {"/flagz", "/metrics", _SLIS_PATH, "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/statusz", "/version"}
        paths |= {*self._health.paths(), *self._discovery.paths()}
        if self._issuer is not None:
            paths |= {_OPENID_CONFIGURATION_PATH, _JWKS_PATH}
        return paths


def _require_get(request: Request) -> None:
    if request.method != "GET":
        raise errors.generic_server_response(405)


def _indented(document: Mapping[str, Any]) -> bytes:
    """Encode a document that upstream indents for every client."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _version(git_version: str) -> bytes:
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return _indented(
        {
            "major": major,
            "minor": minor,
            "emulationMajor": major,
            "emulationMinor": minor,
            "minCompatibilityMajor": major,
            "minCompatibilityMinor": str(int(minor) - 1),
            "gitVersion": git_version,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": f"python{platform.python_version()}",
            "compiler": f"{platform.python_implementation().lower()}+kubeloop.{__version__}",
            "platform": f"{platform.system().lower()}/{_architecture()}",
        }
    )


def _architecture() -> str:
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _is_valid_issuer(issuer: str) -> bool:
    """Return True if the issuer is a plain https URL, from which keys could be fetched."""
    return issuer.startswith("https://") and "?" not in issuer and "#" not in issuer


def openid_configuration_response(tokens: ServiceAccountTokens, keys_uri: str) -> Response:
    """Return the OpenID discovery document, by which others verify service account tokens."""
    document = {
        "issuer": tokens.issuer,
        "jwks_uri": keys_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key.scheme.algorithm for key in tokens.public_keys}),
    }
    return Response(200, msgspec.json.encode(document), headers=_CACHED_HEADERS)


def jwks_response(tokens: ServiceAccountTokens) -> Response:
    """Return the JSON Web Key Set as response."""
    document = {"keys": [key.to_jwk() for key in tokens.public_keys]}
    return Response(200, msgspec.json.encode(document), "application/jwk-set+json", _CACHED_HEADERS)
