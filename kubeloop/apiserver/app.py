"""The API server as one function: a request in, a response out.

request ─ who? ─ may they? ─┬─ path: health, version, metrics, discovery, OpenAPI
                            └─ resource: route ─ verb ─ endpoint ─ store
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from kubeloop.api import errors
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.admission import Chain
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.authorization import authorize_path, authorize_target
from kubeloop.apiserver.context import Context
from kubeloop.apiserver.endpoints.delete import delete_collection, delete_object
from kubeloop.apiserver.endpoints.read import get_object, list_objects, watch_objects
from kubeloop.apiserver.endpoints.subresources import SUBRESOURCES, UNSTORED
from kubeloop.apiserver.endpoints.write import create_object, patch_object, replace_object
from kubeloop.apiserver.health import Health
from kubeloop.apiserver.http import Request, Response
from kubeloop.apiserver.inflight import InFlight
from kubeloop.apiserver.metrics import Metrics
from kubeloop.apiserver.mutation import Mutations
from kubeloop.apiserver.negotiation import PLAIN, negotiate
from kubeloop.apiserver.paths import Paths
from kubeloop.apiserver.query import Query
from kubeloop.apiserver.routing import PageNotFound, Router, Target
from kubeloop.apiserver.storage import Registry
from kubeloop.clock import Clock
from kubeloop.store import StoreError

if TYPE_CHECKING:
    from kubeloop.apiserver.service_account_tokens import ServiceAccountTokens

log = logging.getLogger(__name__)

_WRITES = {
    "create": create_object,
    "update": replace_object,
    "patch": patch_object,
    "delete": delete_object,
    "deletecollection": delete_collection,
}
_TEXT = "text/plain; charset=utf-8"


class ApiServer:
    """Everything between the HTTP layer and the store."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        authenticator: Authenticator,
        admission: Chain,
        writes: InFlight,
        health: Health,
        server_address: Callable[[], str],
        tokens: ServiceAccountTokens | None = None,
    ) -> None:
        self.clock = clock
        self.registry = registry
        self.metrics = Metrics(registry, writes)
        self.mutations = Mutations(registry, admission, clock)
        self.authenticator = authenticator
        self.tokens = tokens
        self._router = Router(RESOURCES)
        self._paths = Paths(RESOURCES, health, self.metrics, server_address, clock)
        self._writes = writes

    async def handle(self, request: Request) -> Response:
        """Answer one request; every failure is a Status."""
        started = self.clock.monotonic()
        target: Target | None = None
        verb = request.method
        try:
            user = self.authenticator.authenticate(request)
            if not _is_resource_path(request.path):
                authorize_path(user, request.method, request.path)
                return self._paths.answer(request)
            target = self._router.find(request.method, request.path)
            query = Query(request.query)
            verb = _verb_of(target, query)
            authorize_target(user, target, verb or request.method.lower())
            if not verb:
                raise errors.generic(405)
            accept = request.headers.get("accept", "")
            plain = accept in ("", "*/*", "application/json")
            form = PLAIN if plain else negotiate(accept, "get" in target.resource.verbs)
            ctx = Context(request, target, query, user, form, self.clock.now().replace(microsecond=0))
            ctx.dry_run = bool(query) and bool(query.text("dryRun"))
            response = await self.serve(ctx, verb)
        except errors.ApiError as error:
            response = status_response(error)
        except PageNotFound:
            response = not_found_page()
        except StoreError as error:
            response = status_response(errors.internal_error(str(error)))
        self.metrics.observe(verb, target, response.status, self.clock.monotonic() - started)
        return response

    async def serve(self, ctx: Context, verb: str) -> Response:
        """Answer a request that may be made."""
        target = ctx.target
        if target.resource.plural in UNSTORED or target.subresource in SUBRESOURCES:
            endpoint = SUBRESOURCES.get(target.subresource) or UNSTORED[target.resource.plural]
            async with self._writes:
                return await endpoint(ctx, self)
        storage = self.registry.of(target.resource)
        if verb == "get":
            return get_object(ctx, storage)
        if verb == "list":
            return list_objects(ctx, storage)
        if verb == "watch":
            return watch_objects(ctx, storage, self.clock)
        async with self._writes:
            return await _WRITES[verb](ctx, storage, self.mutations)

    def failed(self, request: Request, error: BaseException) -> Response:
        """What a client gets when we are at fault."""
        if not isinstance(error, asyncio.CancelledError):  # a client that left is nobody's fault
            log.error("%s %s failed", request.method, request.path, exc_info=error)
        return status_response(
            errors.internal_error("an error on the server has prevented the request from succeeding")
        )

    def close(self) -> None:
        """End all watches."""
        self.registry.close_watches()


def rejected(code: int, message: str) -> Response:
    """A refusal of the HTTP layer, in Kubernetes' form."""
    return status_response(
        errors.RequestEntityTooLarge(message) if code == 413 else errors.ApiError(message, code=code)
    )


def status_response(error: errors.ApiError) -> Response:
    headers = tuple(error.headers.items())
    return Response(error.code, msgspec.json.encode(error.status()) + b"\n", headers=headers)


def not_found_page() -> Response:
    return Response(404, b"404 page not found\n", _TEXT)


def _is_resource_path(path: str) -> bool:
    """`/api/V/…` and `/apis/G/V/…` with something behind the version; what is shorter is discovery."""
    if path.startswith("/api/"):
        return len(path.rstrip("/").split("/")) > 3
    return path.startswith("/apis/") and len(path.rstrip("/").split("/")) > 4


def _verb_of(target: Target, query: Query) -> str:
    if target.watch_path and target.verb in ("get", "list"):
        return "watch"
    if target.verb == "list" and query and query.flag("watch"):
        return "watch"
    return target.verb
