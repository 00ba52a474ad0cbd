"""API server application: maps one HTTP request to one response.

request ─ authenticate ─ authorize ─┬─ non-resource path: health, version, metrics, discovery, OpenAPI
                                    └─ resource: route ─ verb ─ handler ─ store
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from kubeloop.api import errors
from kubeloop.api.features.resource_config import APIResourceConfig
from kubeloop.api.kinds import Resource
from kubeloop.api.node_calls import NodeDialer, VirtualGroup
from kubeloop.api.schema import definitions
from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.admission.dynamic.lazy import LazyDynamicAdmission
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.aggregator.autoregister import AutoRegistration
from kubeloop.apiserver.aggregator.lazy import AggregatorConfig
from kubeloop.apiserver.aggregator.lazy import LazyAggregator as Aggregation
from kubeloop.apiserver.apiextensions.lazy import DefinitionsSource, LazyCRDs
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.authorization import ADMINISTRATORS, DEFAULT_MODES, UnionAuthorizer, authorizer_of
from kubeloop.apiserver.authorization.attributes import (
    AuthorizationAttributes,
    attributes_of_path,
    attributes_of_target,
    attributes_of_unserved,
)
from kubeloop.apiserver.background.offload import WorkerThread
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.handlers.delete import delete_collection, delete_object
from kubeloop.apiserver.handlers.read import get_object, list_objects, watch_objects
from kubeloop.apiserver.handlers.subresources import SUBRESOURCES, VIRTUAL_RESOURCES
from kubeloop.apiserver.handlers.virtual_group import virtual_group_response
from kubeloop.apiserver.handlers.write import create_object, patch_object, replace_object
from kubeloop.apiserver.metrics import ApiServerMetrics
from kubeloop.apiserver.nonresource.handler import NonResourceHandler
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.registry.consistency import with_consistency
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.registry.store import ObjectStore
from kubeloop.apiserver.request.context import ANONYMOUS, RequestContext, User
from kubeloop.apiserver.request.fault_injection import FaultInjector, serve_with_faults
from kubeloop.apiserver.request.negotiation import PLAIN, negotiate
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import PageNotFound, Router, Target
from kubeloop.apiserver.response.writers import warning_headers
from kubeloop.clock import Clock, new_uid
from kubeloop.http import Request, Response
from kubeloop.store import DependentConflict, StoreError, StoreFull

if TYPE_CHECKING:
    from kubeloop.apiserver.audit import Auditor
    from kubeloop.apiserver.audit.trail import AuditContext
    from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens
    from kubeloop.apiserver.flowcontrol.controller import FlowController, RequestFlow
    from kubeloop.apiserver.kubelet_client.dialer import KubeletClient

log = logging.getLogger(__name__)

_WRITES = {
    "create": create_object,
    "update": replace_object,
    "patch": patch_object,
    "delete": delete_object,
    "deletecollection": delete_collection,
}
_READS = ("get", "list", "watch")
_TEXT = "text/plain; charset=utf-8"
_IMPERSONATE = "impersonate-"
_LONGEST_AUDIT_ID = 64
# Debug endpoint that lists the causes of an object's writes; not part of Kubernetes.
_CAUSES_PATH = "/kubeloop/why/"
_SNAPSHOT = "/kubeloop/snapshot"


class _RequestTrace:
    """State of one request that metrics and audit need, at whatever step the request ends."""

    __slots__ = ("flow", "target", "verb", "warnings")

    def __init__(self, method: str) -> None:
        self.verb = method
        self.target: Target | None = None
        self.flow: RequestFlow | None = None
        self.warnings: Sequence[str] = ()


class ApiServer:
    """Handles requests between the HTTP layer and the store."""

    def __init__(
        self,
        registry: StorageRegistry,
        clock: Clock,
        authenticator: Authenticator,
        admission: AdmissionChain,
        writes: InFlightLimiter,
        health: HealthChecks,
        server_address: Callable[[], str],
        tokens: ServiceAccountTokens | Callable[[], ServiceAccountTokens] | None = None,
        authorizer: UnionAuthorizer | None = None,
        keys_uri: str = "",
        auditor: Auditor | None = None,
        aggregator: AggregatorConfig | None = None,
        serving: APIResourceConfig | None = None,
    ) -> None:
        serving = serving or APIResourceConfig()
        self.clock = clock
        self.registry = registry
        self.metrics = ApiServerMetrics(registry, writes)
        self.aside = WorkerThread()
        self.mutations = ObjectStore(registry, admission, clock, self.aside)
        self.mutations.features = serving.features
        self.authenticator = authenticator
        self.authorizer = authorizer or authorizer_of(DEFAULT_MODES, registry, RegistryLookup(registry))
        self._tokens = tokens
        self._auditor = auditor
        self._audit_prefix = new_uid(clock)[:24]
        self._audit_numbers = count()
        self._built_in = serving.resources
        self._unserved = frozenset(serving.kept()) - frozenset(serving.resources)
        self._router = Router(self._built_in)
        issuer = self._issuer if tokens is not None else None
        self.paths = NonResourceHandler(self._built_in, health, self.metrics, server_address, clock, issuer, keys_uri)
        self._provided: dict[str, VirtualGroup] = {}
        self._custom_served: tuple[Sequence[Resource], DefinitionsSource] = ((), definitions)
        self._custom = LazyCRDs(registry, clock, self._serve_custom)
        self._custom.start()
        self.metrics.also(self._custom.metric_lines)
        self.aggregation = Aggregation(registry, clock, aggregator or AggregatorConfig(), self.paths.serve_remote)
        self.aggregation.start()
        self.metrics.also(self.aggregation.metric_lines)
        self.registration = AutoRegistration(registry, clock)
        self.registration.start()
        self._configured = LazyDynamicAdmission(registry, admission, self.authorizer, self.metrics, clock, self.aside)
        self._configured.start()
        self._writes = writes
        self.fairness: FlowController | None = None
        self.faults: FaultInjector | None = None  # fault injection for calls from outside of the process
        self.nodes: NodeDialer | None = None  # in-process kubelets, set by the program that runs them
        self.kubelets: KubeletClient | None = None  # dialer for remote kubelets, set likewise

    def share_fairly(self, seats: int) -> FlowController:
        """Enable API priority and fairness with this many seats for clients outside of the process."""
        from kubeloop.apiserver.flowcontrol.controller import FlowController
        from kubeloop.apiserver.flowcontrol.flow_schema_status import DanglingConditions
        from kubeloop.apiserver.flowcontrol.metrics import lines_of

        keep = DanglingConditions(self.registry, self.clock).keep
        control = self.fairness = FlowController(self.registry.store, self.clock, seats, keep)
        self.metrics.also(lambda: lines_of(control))
        return control

    def provide(self, group: VirtualGroup) -> None:
        """Serve a read-only API group that is computed on request instead of stored."""
        self._provided[group.resources[0].group] = group
        self._serve_custom(*self._custom_served)

    def is_provided(self, resource: Resource) -> bool:
        """Return True if the resource belongs to a virtual (computed) API group."""
        return resource.group in self._provided

    def is_kept(self, resource: Resource) -> bool:
        """Return True if objects of the resource are read from the store."""
        return resource.is_stored and not self.is_provided(resource)

    @cached_property
    def tokens(self) -> ServiceAccountTokens | None:
        """Issuer and verifier of service account tokens, created on first use."""
        return self._tokens() if callable(self._tokens) else self._tokens

    def _issuer(self) -> ServiceAccountTokens:
        assert self.tokens is not None
        return self.tokens

    def _serve_custom(self, custom: Sequence[Resource], definitions: DefinitionsSource) -> None:
        """Serve exactly these custom resources beside the built-in ones."""
        self._custom_served = custom, definitions
        provided = [resource for group in self._provided.values() for resource in group.resources]
        resources = (*self._built_in, *custom)
        self._router = Router((*resources, *provided))
        self.paths.serve(resources, definitions, undescribed=provided)

    def served(self, resource: Resource) -> Resource:
        """Return the server's own Resource for a resource named by an in-process caller; raises NotFound."""
        if not self.is_kept(resource):
            return resource
        try:
            found = self.registry.of(resource).resource
        except KeyError:
            raise errors.generic_server_response(404) from None
        if found in self._unserved:
            raise errors.generic_server_response(404)
        return found

    async def handle(self, request: Request) -> Response:
        """Handle one request; every failure becomes a Status response."""
        audit_id = request.headers.get("audit-id", "")[:_LONGEST_AUDIT_ID] or self._new_audit_id()
        if self._auditor is None:
            response = await self._answer(request, audit_id, None)
        else:
            response = await self._audited(request, audit_id, self._auditor.trail(request, audit_id))
        response.headers = (*response.headers, ("Audit-Id", audit_id))
        return response

    async def _audited(self, request: Request, audit_id: str, trail: AuditContext) -> Response:
        try:
            response = await self._answer(request, audit_id, trail)
        except BaseException as error:
            trail.failed(error)
            raise
        return trail.finish(response, lambda: self._asked(ANONYMOUS, request))

    def _new_audit_id(self) -> str:
        """Return an audit ID as long and unique as a UUID, but cheaper to make: every response carries one."""
        return f"{self._audit_prefix}{next(self._audit_numbers):012x}"

    async def _answer(self, request: Request, audit_id: str, trail: AuditContext | None) -> Response:
        started = self.clock.monotonic()
        course = _RequestTrace(request.method)
        try:
            user = self._who_asks(request, trail)
            remote = self.aggregation.remote_for(request.path)
            if remote is not None:
                if ADMINISTRATORS not in user.groups:
                    self.authorizer.demand(self._asked(user, request))
                return await remote.forward(request, user, audit_id)
            if not _is_resource_path(request.path):
                return await self._answer_path(user, request)
            ctx = self._understood(user, request, course)
            if trail is not None:
                ctx.annotations = trail.annotations
            if self.fairness is not None:
                await self._take_turn(self.fairness, ctx, course)
            if self.faults is None:
                response = await self.serve(ctx, course.verb)
            else:
                response = await serve_with_faults(self.faults, ctx, course.verb, partial(self.serve, ctx, course.verb))
        except errors.ApiError as error:
            response = status_response(error, course.warnings)
        except PageNotFound:
            response = not_found_response()
        except StoreError as error:
            response = status_response(store_error_to_api_error(error))
        self.metrics.observe(course.verb, course.target, response.status, self.clock.monotonic() - started)
        if course.flow is not None:
            response.headers = (*response.headers, *course.flow.headers)
        return response

    def _who_asks(self, request: Request, trail: AuditContext | None) -> User:
        """Authenticate the request; raises Unauthorized, or Forbidden if impersonation is not allowed."""
        user = self.authenticator.authenticate(request)
        if trail is not None:
            trail.known(user, self._asked(user, request))
        if _IMPERSONATE in "".join(request.headers):
            user = self._impersonated(user, request, trail)
        if trail is not None:
            trail.decided(self.authorizer.decide(self._asked(user, request)))
        return user

    def _understood(self, user: User, request: Request, course: _RequestTrace) -> RequestContext:
        """Resolve target, verb and response format of an authorized request into its Context."""
        query = Query(request.query)
        course.target = target = self._find(user, request, query)
        course.verb = verb = _verb_of(target, query)
        self.authorize(user, request.method, target, verb, query)
        if not verb:
            raise _not_allowed(request.method, target)
        accept = request.headers.get("accept", "")
        plain = accept in ("", "*/*", "application/json")
        form = PLAIN if plain else negotiate(accept, "get" in target.resource.verbs)
        ctx = RequestContext(request, target, query, user, form, self.clock.now().replace(microsecond=0))
        ctx.dry_run = bool(query) and bool(query.text("dryRun"))
        course.warnings = ctx.warnings
        if target.resource.deprecation:
            ctx.warn(target.resource.deprecation)
        return ctx

    async def _take_turn(self, fairness: FlowController, ctx: RequestContext, course: _RequestTrace) -> None:
        """Acquire seats for a read; a write acquires its seat just before it begins."""
        ctx.flow = course.flow = flow = fairness.flow_of(ctx.user, course.verb, ctx.target)
        if course.verb in _READS and not ctx.target.subresource:
            width = self._width(ctx.target, flow) if course.verb == "list" else 1
            if not fairness.take_turn(flow, width):
                await fairness.await_turn(flow, width)

    async def _answer_path(self, user: User, request: Request) -> Response:
        """Authorize and answer a request for a non-resource path."""
        self.authorize_path(user, request.method, request.path)
        flow: RequestFlow | None = None
        if self.fairness is not None:
            flow = self.fairness.flow_of_path(user, request.method, request.path)
            if not self.fairness.take_turn(flow, 1):
                await self.fairness.await_turn(flow, 1)
        response = await self._page(request)
        if flow is not None:
            response.headers = (*response.headers, *flow.headers)
        return response

    async def _page(self, request: Request) -> Response:
        if request.path.startswith(_CAUSES_PATH):
            return self._why(request)
        if request.path == _SNAPSHOT:
            from kubeloop.apiserver.nonresource.snapshot import snapshot_response

            return await snapshot_response(self.registry.store, request)
        return self.paths.answer(request)

    def _width(self, target: Target, flow: RequestFlow) -> int:
        """Return the number of seats that a list request occupies."""
        if self.fairness is None or not self.is_kept(target.resource):
            return 1
        return self.fairness.width_of(flow, self.registry.of(target.resource).prefix(target.namespace))

    def _why(self, request: Request) -> Response:
        """Return the recorded causes of writes to one object: `/kubeloop/why/api/v1/namespaces/…/pods/…`."""
        target = self._router.find("GET", "/" + request.path.removeprefix(_CAUSES_PATH))
        if not target.name or not target.resource.is_stored:
            raise errors.generic_server_response(404)
        key = self.registry.of(target.resource).key(target.namespace, target.name)
        reasons = [reason.shown() for reason in self.mutations.causes.of(key)]
        return Response(200, msgspec.json.encode({"items": reasons}))

    def _find(self, user: User, request: Request, query: Query) -> Target:
        """Return the target; reveals a missing resource only to users who are authorized for the path."""
        try:
            return self._router.find(request.method, request.path)
        except (PageNotFound, errors.ApiError):
            if ADMINISTRATORS not in user.groups:
                self.authorizer.demand(attributes_of_unserved(user, request.method, request.path, query))
            raise

    def authorize_path(self, user: User, method: str, path: str) -> None:
        """Authorize a request for a non-resource path; raises Forbidden."""
        if ADMINISTRATORS not in user.groups:
            self.authorizer.demand(attributes_of_path(user, method, path))

    def authorize(self, user: User, method: str, target: Target, verb: str, query: Query) -> None:
        """Authorize a request for a resource; raises Forbidden. The verb is empty if the method is not supported."""
        if ADMINISTRATORS not in user.groups:
            self.authorizer.demand(attributes_of_target(user, method, target, verb, query))

    def _impersonated(self, user: User, request: Request, trail: AuditContext | None) -> User:
        from kubeloop.apiserver.authorization.impersonation import impersonate, requested_user

        wanted = requested_user(request.headers)
        if wanted is None:
            return user
        found = impersonate(user, wanted, self._asked(user, request), self.authorizer)
        if trail is not None:
            trail.impersonates(found)
        return found.user

    def _asked(self, user: User, request: Request) -> AuthorizationAttributes:
        """Return the authorization attributes of a request, even if its resource is not served."""
        if not _is_resource_path(request.path):
            return attributes_of_path(user, request.method, request.path)
        query = Query(request.query)
        try:
            target = self._router.find(request.method, request.path)
        except (PageNotFound, errors.ApiError):
            return attributes_of_unserved(user, request.method, request.path, query)
        return attributes_of_target(user, request.method, target, _verb_of(target, query), query)

    async def serve(self, ctx: RequestContext, verb: str) -> Response:
        """Serve a request that has been authorized."""
        store = self.registry.store
        if verb in _READS and not store.shared:
            return await self._serve(ctx, verb)
        try:
            return await with_consistency(store, verb, ctx.query, partial(self._serve, ctx, verb))
        except DependentConflict:
            raise errors.conflict(ctx.resource.group, ctx.resource.plural, ctx.target.name) from None
        except StoreError as error:
            raise store_error_to_api_error(error) from None

    async def _serve(self, ctx: RequestContext, verb: str) -> Response:
        target = ctx.target
        if (
            target.resource.plural in VIRTUAL_RESOURCES and not target.resource.is_custom
        ) or target.subresource in SUBRESOURCES:
            endpoint = SUBRESOURCES.get(target.subresource) or VIRTUAL_RESOURCES[target.resource.plural]
            async with self._seat(ctx):
                return await endpoint(ctx, self)
        if self._provided and self.is_provided(target.resource):
            return virtual_group_response(ctx, self._provided[target.resource.group])
        storage = self.registry.of(target.resource)
        if storage.conversion is not None and verb in ("get", "list"):
            from kubeloop.apiserver.apiextensions.conversion.reads import read_converted

            read = partial(get_object if verb == "get" else list_objects, ctx, storage)
            return await read_converted(storage, storage.conversion, target.namespace, target.name, read)
        if verb == "get":
            return get_object(ctx, storage)
        if verb == "list":
            return list_objects(ctx, storage)
        if verb == "watch":
            return watch_objects(ctx, storage, self.clock)
        async with self._seat(ctx):
            return await _WRITES[verb](ctx, storage, self.mutations)

    def _seat(self, ctx: RequestContext) -> InFlightLimiter | RequestFlow:
        """Return the limiter that a write acquires: its flow, or the separate limit of in-process writes."""
        return ctx.flow or self._writes

    def failed(self, request: Request, error: BaseException) -> Response:
        """Log an internal error and return the 500 response for it."""
        if not isinstance(error, asyncio.CancelledError):  # a client that disconnected is no server error
            log.error("%s %s failed", request.method, request.path, exc_info=error)
        return status_response(
            errors.internal_error("an error on the server has prevented the request from succeeding")
        )

    def close(self) -> None:
        """Close flow control, controllers and all watches."""
        if self.fairness is not None:
            self.fairness.close()
        self.registration.close()
        self.aggregation.close()
        self._configured.close()
        self._custom.close()
        self.registry.close_watches()


def rejection_response(code: int, message: str) -> Response:
    """Return an HTTP-layer rejection as a Kubernetes Status response."""
    return status_response(
        errors.RequestEntityTooLarge(message) if code == 413 else errors.ApiError(message, code=code)
    )


def status_response(error: errors.ApiError, warnings: Sequence[str] = ()) -> Response:
    """Return the response for an API error, with the warnings collected so far."""
    headers = (*error.headers.items(), *(warning_headers(warnings) if warnings else ()))
    return Response(error.code, msgspec.json.encode(error.status()) + b"\n", headers=headers)


def store_error_to_api_error(error: StoreError) -> errors.ApiError:
    """Return the API error for a store error; a full disk keeps etcd's message, as upstream's clients expect."""
    return errors.ApiError(str(error)) if isinstance(error, StoreFull) else errors.internal_error(str(error))


def not_found_response() -> Response:
    """Return the plain-text 404 response of an unknown path."""
    return Response(404, b"404 page not found\n", _TEXT)


def _is_resource_path(path: str) -> bool:
    """Return True for `/api/V/…` and `/apis/G/V/…` with a part after the version; shorter ones are discovery."""
    if path.startswith("/api/"):
        return len(path.rstrip("/").split("/")) > 3
    return path.startswith("/apis/") and len(path.rstrip("/").split("/")) > 4


def _verb_of(target: Target, query: Query) -> str:
    if target.watch_path and target.verb in ("get", "list"):
        return "watch"
    if target.verb == "list" and query and query.flag("watch"):
        return "watch"
    return target.verb


def _not_allowed(method: str, target: Target) -> errors.ApiError:
    """Return the error for an unsupported method; custom resources have a different message than built-in ones."""
    resource = target.resource
    if resource.is_custom and target.subresource and method in ("POST", "DELETE"):
        return errors.method_not_supported(resource.group, resource.plural, "create" if method == "POST" else "delete")
    return errors.generic_server_response(405)
