# SPDX-License-Identifier: Apache-2.0
"""API server application: maps one HTTP request to one response.

request ─ authenticate ─ authorize ─┬─ non-resource path: health, version, metrics, discovery, OpenAPI
                                    └─ resource: route ─ verb ─ handler ─ store
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from kubeloop.api import errors
from kubeloop.api.features.resource_config import APIResourceConfig
from kubeloop.api.kinds import Resource
from kubeloop.api.kubelet_requests import VirtualGroup
from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.admission.dynamic.lazy import LazyDynamicAdmission
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.aggregator.autoregister import AutoRegistration
from kubeloop.apiserver.aggregator.lazy import AggregatorConfig, LazyAggregator
from kubeloop.apiserver.apiextensions.lazy import LazyCRDs
from kubeloop.apiserver.authentication import Authenticator
from kubeloop.apiserver.authentication.bearer_token import EXTRA_SPACE_WARNING, has_extra_space
from kubeloop.apiserver.authorization import ADMINISTRATORS, DEFAULT_MODES, UnionAuthorizer, authorizer_of
from kubeloop.apiserver.authorization.attributes import (
    AuthorizationAttributes,
    AuthorizationDecision,
    AuthorizationFailed,
    attributes_of_path,
    attributes_of_target,
    attributes_of_unserved,
    authorization_failure_text,
    enforce,
)
from kubeloop.apiserver.background.offload import WorkerThread
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.handlers.delete import delete_collection, delete_object
from kubeloop.apiserver.handlers.read import get_object, list_objects
from kubeloop.apiserver.handlers.subresources import SUBRESOURCES, VIRTUAL_RESOURCES
from kubeloop.apiserver.handlers.subresources.componentstatuses import ComponentProbes
from kubeloop.apiserver.handlers.virtual_group import virtual_group_response
from kubeloop.apiserver.handlers.watch import watch_objects
from kubeloop.apiserver.handlers.write import create_object, patch_object, replace_object
from kubeloop.apiserver.kubelet_client.nodes import NodeConnections
from kubeloop.apiserver.metrics import ApiServerMetrics
from kubeloop.apiserver.nonresource.handler import NonResourceHandler
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.nonresource.openapi.schemas import DefinitionsSource, built_in_definitions
from kubeloop.apiserver.registry.consistency import (
    OBJECT_WRITES,
    StoreState,
    retry_stale_rejection,
    wait_for_request_revision,
)
from kubeloop.apiserver.registry.storage import Conversion, ResourceStorage, StorageRegistry
from kubeloop.apiserver.registry.store import ObjectStore
from kubeloop.apiserver.request.context import ANONYMOUS, RequestContext, User
from kubeloop.apiserver.request.deadline import time_limit_of
from kubeloop.apiserver.request.fault_injection import FaultInjector, serve_with_faults
from kubeloop.apiserver.request.list_options import ListOptions, has_long_selector, parse_list_options
from kubeloop.apiserver.request.negotiation import (
    PLAIN,
    accepts_plain,
    check_routed_format,
    requested_object_format,
)
from kubeloop.apiserver.request.query import NO_OPTIONS, Query
from kubeloop.apiserver.request.routing import MissingSubresource, PageNotFound, Router, Target
from kubeloop.apiserver.request.run_options import DEFAULT_RUN_OPTIONS, ServerRunOptions
from kubeloop.apiserver.request.trace import RequestTrace
from kubeloop.apiserver.response.documents import NO_SNIFF, TEXT, not_found_response, status_response
from kubeloop.apiserver.response.writers import DeferredResponse
from kubeloop.clock import Clock, new_uid
from kubeloop.http import Request, Response, StreamResponse, UpgradeResponse
from kubeloop.metrics import MetricRegistry
from kubeloop.store import DependentConflict, StoreError, StoreFull

if TYPE_CHECKING:
    from kubeloop.apiserver.audit import Auditor
    from kubeloop.apiserver.audit.trail import AuditContext
    from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens
    from kubeloop.apiserver.flowcontrol.controller import FlowController
    from kubeloop.apiserver.flowcontrol.request_flow import RequestFlow, Seat
    from kubeloop.apiserver.kubelet_client.dialer import KubeletClient
    from kubeloop.apiserver.kubelet_client.kubelet_tls import KubeletClientConfig

log = logging.getLogger(__name__)

_WRITES = {
    "create": create_object,
    "update": replace_object,
    "patch": patch_object,
    "delete": delete_object,
    "deletecollection": delete_collection,
}
_READS = ("get", "list", "watch")
_NOT_CACHED = (("Cache-Control", "no-cache, private"),)
_IMPERSONATE = "impersonate-"
_LONGEST_AUDIT_ID = 64
# Percent-decoding takes about 0.4 microseconds per escaped character.
_LONGEST_PATH = 64 << 10
_LONG_QUERY = 16 << 10
# Debug endpoint that lists the causes of an object's writes; not part of Kubernetes.
_CAUSES_PATH = "/kubeloop/why/"
_NO_OBJECT = f"no object has this path; expected {_CAUSES_PATH}api/v1/namespaces/NAMESPACE/RESOURCE/NAME or similar"
_FEWEST_SLASHES = 4  # in the path of an object: /api/v1/nodes/NAME
_SNAPSHOT = "/kubeloop/snapshot"
# Seconds before which no request is checked for its timeout.
_SHORTEST_TIMEOUT = 0.5
_FLOW_CONTROL_DUMPS = "/debug/api_priority_and_fairness/"


@dataclass(frozen=True, slots=True)
class ApiServerDependencies:
    """Collaborators and settings of an API server; the optional ones are features that a server may lack."""

    registry: StorageRegistry
    clock: Clock
    authenticator: Authenticator
    admission: AdmissionChain
    writes: InFlightLimiter
    health: HealthChecks
    server_address: Callable[[], str]
    tokens: ServiceAccountTokens | Callable[[], ServiceAccountTokens] | None = None
    authorizer: UnionAuthorizer | None = None
    keys_uri: str = ""
    auditor: Auditor | None = None
    aggregator: AggregatorConfig | None = None
    serving: APIResourceConfig | None = None
    run_options: ServerRunOptions = DEFAULT_RUN_OPTIONS
    flags: Mapping[str, str] | None = None  # of the program, for /flagz
    metrics: MetricRegistry | None = None
    flowcontrol_seats: int = 0  # for clients outside of the process; 0: no priority and fairness
    kubelet_client: KubeletClientConfig | None = None  # without it, kubelets of other processes cannot be reached


class ApiServer:
    """Handles requests between the HTTP layer and the store."""

    def __init__(self, dependencies: ApiServerDependencies) -> None:
        registry, clock = dependencies.registry, dependencies.clock
        admission, writes = dependencies.admission, dependencies.writes
        serving = dependencies.serving or APIResourceConfig()
        self.clock = clock
        self.registry = registry
        families = dependencies.metrics or MetricRegistry()
        self.metrics = ApiServerMetrics(registry, writes, serving.features, families, clock)
        self.worker_thread = WorkerThread()
        self.run_options = dependencies.run_options
        self.object_store = ObjectStore(
            registry,
            admission,
            clock,
            serving.features,
            self.worker_thread,
            allow_privileged=self.run_options.allow_privileged,
            authorize_create=self._authorize_create,
        )
        self.authenticator = dependencies.authenticator
        self.authorizer = dependencies.authorizer or authorizer_of(DEFAULT_MODES, registry, RegistryLookup(registry))
        self._tokens = dependencies.tokens
        self._auditor = dependencies.auditor
        self._audit_prefix = new_uid(clock)[:24]
        self._audit_numbers = count()
        self._built_in = serving.resources
        self._disabled_resources = frozenset(serving.stored_resources()) - frozenset(serving.resources)
        self._router = Router(self._built_in)
        issuer = self._issuer if dependencies.tokens is not None else None
        self.nonresource = NonResourceHandler(
            self._built_in,
            dependencies.health,
            self.metrics,
            dependencies.server_address,
            clock,
            issuer,
            dependencies.keys_uri,
            dependencies.flags,
            self.run_options.git_version,
        )
        self._virtual_groups: dict[str, VirtualGroup] = {}
        self._served_crds: tuple[Sequence[Resource], DefinitionsSource] = ((), built_in_definitions)
        self._crds = LazyCRDs(registry, clock, self._serve_custom, families)
        self._crds.start()
        config, set_versions = dependencies.aggregator or AggregatorConfig(), self.nonresource.set_remote_versions
        self.aggregator = LazyAggregator(registry, clock, config, set_versions, families)
        self.aggregator.start()
        self._constrained_impersonation = serving.features.is_enabled("ConstrainedImpersonation")
        self.registration = AutoRegistration(registry, clock, serving.features)
        self.registration.start()
        worker = self.worker_thread
        self._dynamic_admission = LazyDynamicAdmission(registry, admission, self.authorizer, families, clock, worker)
        self._dynamic_admission.start()
        self._mutating_in_flight = writes
        self.fault_injector: FaultInjector | None = None  # fault injection for calls from outside of the process
        self.components = ComponentProbes()
        self.nodes = NodeConnections(self._new_kubelet_client(dependencies.kubelet_client))
        self.flowcontrol = self._new_flowcontrol(dependencies.flowcontrol_seats)

    def _new_kubelet_client(self, config: KubeletClientConfig | None) -> KubeletClient | None:
        if config is None:
            return None
        from kubeloop.apiserver.kubelet_client.dialer import KubeletClient

        return KubeletClient(partial(self.registry.get_object, "nodes", ""), config, self.metrics.log_tls_failures)

    def _new_flowcontrol(self, seats: int) -> FlowController | None:
        """Return API priority and fairness with this many seats; the store has to be open."""
        if not seats:
            return None
        from kubeloop.apiserver.flowcontrol.controller import FlowController
        from kubeloop.apiserver.flowcontrol.flow_schema_status import DanglingConditions
        from kubeloop.apiserver.flowcontrol.metrics import register_flowcontrol_metrics

        keep = DanglingConditions(self.registry, self.clock).reconcile
        metrics = self.metrics.registry
        control = FlowController(self.registry.store, self.clock, seats, keep, metrics)
        register_flowcontrol_metrics(metrics, control, self.metrics.filters)
        return control

    def inject_faults(self, injector: FaultInjector | None) -> None:
        """Inject faults into calls from outside of the process; None ends that."""
        self.fault_injector = injector

    def serve_virtual_group(self, group: VirtualGroup) -> None:
        """Serve a read-only API group that is computed on request instead of stored."""
        first = group.resources[0]
        self._virtual_groups[first.group] = group
        self.registration.register_virtual(first.group, first.version)
        self._serve_custom(*self._served_crds)

    def is_virtual(self, resource: Resource) -> bool:
        """Return True if the resource belongs to a virtual (computed) API group."""
        return resource.group in self._virtual_groups

    def is_stored(self, resource: Resource) -> bool:
        """Return True if objects of the resource are read from the store."""
        return resource.is_stored and resource.group not in self._virtual_groups

    @cached_property
    def tokens(self) -> ServiceAccountTokens | None:
        """Issuer and verifier of service account tokens, created on first use."""
        return self._tokens() if callable(self._tokens) else self._tokens

    def _issuer(self) -> ServiceAccountTokens:
        assert self.tokens is not None
        return self.tokens

    def _serve_custom(self, custom: Sequence[Resource], definitions: DefinitionsSource) -> None:
        """Serve exactly these custom resources beside the built-in ones."""
        self._served_crds = custom, definitions
        provided = [resource for group in self._virtual_groups.values() for resource in group.resources]
        resources = (*self._built_in, *custom)
        self._router = Router((*resources, *provided))
        self.nonresource.set_resources(resources, definitions, undescribed=provided)

    def resolve_resource(self, resource: Resource) -> Resource:
        """Return the server's own Resource for a resource named by an in-process caller; raises NotFound."""
        if not self.is_stored(resource):
            return resource
        try:
            found = self.registry.storage_of(resource).resource
        except KeyError:
            raise errors.generic_server_response(404) from None
        if found in self._disabled_resources:
            raise errors.generic_server_response(404)
        return found

    async def handle(self, request: Request) -> Response:
        """Handle one request; every failure becomes a Status response."""
        audit_id = request.headers.get("audit-id", "")[:_LONGEST_AUDIT_ID] or self._new_audit_id()
        query = NO_OPTIONS
        if text := request.query:
            query = Query(text) if len(text) <= _LONG_QUERY else await self.worker_thread.run(Query, text)
        if self._auditor is None:
            response = await self._handle(request, query, audit_id, None)
        else:
            response = await self._handle_audited(request, query, self._auditor.trail(request, audit_id))
        response.headers = (*response.headers, ("Audit-Id", audit_id), *_cache_control(response))
        return response

    async def _handle_audited(self, request: Request, query: Query, trail: AuditContext) -> Response:
        try:
            response = await self._handle(request, query, trail.audit_id, trail)
        except asyncio.CancelledError:
            trail.emit_timeout()
            raise
        except BaseException as error:
            trail.emit_panic(error)
            raise
        await trail.add_bodies(response, self.worker_thread)
        audited = trail.finish(response, lambda: self._attributes_of(ANONYMOUS, request, query))
        if trail.is_blocked:
            await trail.wait_stored()
        return audited

    def _new_audit_id(self) -> str:
        """Return an audit ID as long and unique as a UUID, but cheaper to make: every response carries one."""
        return f"{self._audit_prefix}{next(self._audit_numbers):012x}"

    async def _handle(self, request: Request, query: Query, audit_id: str, trail: AuditContext | None) -> Response:
        started = self.clock.monotonic()
        course = RequestTrace(request.method, query, trail, started)
        if (header := request.headers.get("authorization")) is not None and has_extra_space(header):
            course.warnings = (EXTRA_SPACE_WARNING,)
        try:
            if query is not NO_OPTIONS and query.text("timeout"):
                time_limit_of(self._attributes_of(ANONYMOUS, request, query), query, self.run_options.request_timeout)
            try:
                user = self.authenticator.authenticate(request) or await self.authenticator.wait_user(request)
            except errors.ApiError:
                self.metrics.authentication.failure.observe(self.clock.monotonic() - started)
                raise
            course.authentication_seconds = self.clock.monotonic() - started
            course.username = user.name
            if trail is not None:
                trail.latency.trace = course
                await self._begin_audit(trail, user, request, query)
            if len(request.path) > _LONGEST_PATH:
                raise self._uri_too_long(request)
            if _IMPERSONATE in "".join(request.headers):
                user = await self._impersonate(user, request, course)
            if not _is_resource_path(request.path) or self.aggregator.remote_for(request.path) is not None:
                return await self._handle_unrouted(user, request, audit_id, course, started)
            try:
                course.target = target = self._router.find(request.method, request.path)
            except (PageNotFound, errors.ApiError) as error:
                await self._wait_unserved(user, request, course, error)
                raise
            course.verb = verb = _verb_of(target, query)
            if trail is not None or ADMINISTRATORS not in user.groups:
                waiting = self._authorize(attributes_of_target(user, request.method, target, verb, query), trail)
                if waiting is not None:
                    await waiting
            else:
                self.metrics.authorization.allowed.fast += 1
            ctx = self._context_of(user, request, query, course)
            if trail is not None:
                ctx.annotations, ctx.audit = trail.annotations, trail
                trail.annotate_deprecation(ctx.resource)
            if self.flowcontrol is not None:
                waiting = self._acquire_seat(self.flowcontrol, ctx, course)
                if waiting is not None:
                    await waiting
            if self.fault_injector is None:
                read = self._read_stored(ctx) if verb == "get" else None
                response = read if read is not None else await self.serve(ctx, verb)
            else:
                response = await serve_with_faults(self.fault_injector, ctx, verb, partial(self.serve, ctx, verb))
        except (AuthorizationFailed, errors.ApiError, PageNotFound, StoreError) as error:
            response = _failure_response(error, request, course)
        if course.ctx is not None:
            if not self.metrics.requests.record(course, course.ctx, response):
                response = self._observe(course, course.ctx, response)
        elif course.username:
            self.metrics.authentication.count(course.username, course.authentication_seconds)
        if course.flow is not None:
            response.headers += course.flow.headers
        return response

    async def _wait_unserved(self, user: User, request: Request, course: RequestTrace, error: Exception) -> None:
        """Reveal a missing resource only to users who are authorized for the path; raises Forbidden for others."""
        asked = attributes_of_unserved(user, request.method, request.path, course.query)
        await self._wait_authorized(asked, course.audit)
        if isinstance(error, MissingSubresource):
            course.warnings = error.warnings

    async def _begin_audit(self, trail: AuditContext, user: User, request: Request, query: Query) -> None:
        """Emit the audit event of a received request; raises AuthorizationFailed if it must be stored and was not."""
        began = self.clock.monotonic()
        await trail.begin(user, self._attributes_of(user, request, query), self.worker_thread)
        self.metrics.filters.audit.observe(self.clock.monotonic() - began)
        if trail.is_blocked and not await trail.wait_stored():
            self.metrics.audit_rejections.value += 1
            raise AuthorizationFailed("failed to store audit event")

    def _observe(self, course: RequestTrace, ctx: RequestContext, response: Response) -> Response:
        """Count a finished request that is not plain, or return a response that is counted at its end."""
        started, requests, flow = course.received, self.metrics.requests, course.flow
        seconds = self.clock.monotonic() - started
        self.metrics.authentication.count(course.username, course.authentication_seconds)
        verb = course.verb
        if flow is not None:
            if response.status == 429 and not ctx.has_seat:
                requests.count_dropped(ctx, verb)
                return response
            flow.counts.observe(seconds)
        if isinstance(response, StreamResponse):
            return requests.observe_stream(ctx, verb, response, lambda: self.clock.monotonic() - started)
        if isinstance(response, UpgradeResponse):
            requests.observe_upgrade(ctx, verb, response, lambda: self.clock.monotonic() - started)
        else:
            requests.observe(ctx, verb, response, seconds)
        return response

    def _authorize(self, asked: AuthorizationAttributes, audit: AuditContext | None) -> Awaitable[None] | None:
        """Authorize a request; raises Forbidden. What is returned must be awaited, if anything."""
        started = self.clock.monotonic()
        decision = self.authorizer.decide(asked)
        if not isinstance(decision, AuthorizationDecision):
            return self._wait_authorized(asked, audit, decision)
        seconds = self.clock.monotonic() - started
        self.metrics.authorization.observe(decision, seconds)
        if audit is not None:
            audit.set_decision(decision, seconds)
        enforce(asked, decision)
        return None

    def _authorize_create(self, ctx: RequestContext) -> Awaitable[None] | None:
        """Authorize an update or a patch that creates its object; raises Forbidden."""
        return self.authorize(ctx.user, ctx.request.method, ctx.target, "create", ctx.query)

    async def _wait_authorized(
        self,
        asked: AuthorizationAttributes,
        audit: AuditContext | None,
        pending: Awaitable[AuthorizationDecision] | None = None,
    ) -> None:
        """Authorize a request, after waiting for other servers if necessary; raises Forbidden."""
        started = self.clock.monotonic()
        decision = await (pending or self.authorizer.wait_decision(asked))
        seconds = self.clock.monotonic() - started
        self.metrics.authorization.observe(decision, seconds)
        if audit is not None:
            audit.set_decision(decision, seconds)
        enforce(asked, decision)

    def _context_of(self, user: User, request: Request, query: Query, course: RequestTrace) -> RequestContext:
        """Return the context of an authorized request, with its response format; raises Method Not Allowed."""
        target = course.target
        assert target is not None
        if not course.verb:
            raise _not_allowed(request.method, target)
        form, is_plain = PLAIN, accepts_plain(request)
        if not is_plain:
            check_routed_format(request, target, course.verb)
        if target.resource.deprecation:  # also in the response to a format that is not supported
            course.warnings = (*course.warnings, target.resource.deprecation)
        if not is_plain:
            form = requested_object_format(request, target)
        ctx = course.ctx = RequestContext(request, target, query, user, form, self.clock.now)
        ctx.received = course.received
        if query is not NO_OPTIONS:
            ctx.dry_run = bool(query.text("dryRun"))
        for text in course.warnings:
            ctx.warn(text)
        if request.exceeded_body_limit and (course.verb not in _READS or target.subresource):
            raise _too_large(request)
        return ctx

    def _uri_too_long(self, request: Request) -> errors.ApiError:
        """Count a request whose path is too long, and return the error for it."""
        self.metrics.requests.count_rejected(414, request.method)
        return errors.ApiError("Request-URI Too Long", code=414)

    def _acquire_seat(
        self, fairness: FlowController, ctx: RequestContext, course: RequestTrace
    ) -> Awaitable[None] | None:
        """Acquire seats for a read; a write acquires its seat just before it begins.

        What is returned must be awaited, if anything.
        """
        verb, target = course.verb, ctx.target
        ctx.flow = course.flow = flow = fairness.flow_of(ctx.user, verb, target)
        if verb in _READS and not target.subresource:
            width = self._seats_of_list(target, flow) if verb == "list" else 1
            if not fairness.try_acquire(flow, width, ctx):
                return self._wait_seat(fairness, flow, width, ctx)
        return None

    async def _wait_seat(self, fairness: FlowController, flow: RequestFlow, width: int, ctx: RequestContext) -> None:
        ctx.exclude_queue_wait(await fairness.acquire(flow, width, ctx))

    async def _handle_unrouted(
        self, user: User, request: Request, audit_id: str, course: RequestTrace, started: float
    ) -> Response:
        """Authorize and answer a request for a non-resource path or for an aggregated server."""
        self.metrics.authentication.count(course.username, course.authentication_seconds)
        course.username = ""  # counted
        if course.audit is not None or ADMINISTRATORS not in user.groups:
            waiting = self._authorize(self._attributes_of(user, request, course.query), course.audit)
            if waiting is not None:
                await waiting
        else:
            self.metrics.authorization.allowed.fast += 1
        remote = self.aggregator.remote_for(request.path)
        if remote is not None:
            if request.exceeded_body_limit:
                raise _too_large(request)
            self.authenticator.clear_credentials(request)
            asked = self._attributes_of(user, request, course.query)
            limit = time_limit_of(asked, course.query, self.run_options.request_timeout)
            return await remote.forward(request, user, audit_id, limit.seconds if limit is not None else None)
        flow: RequestFlow | None = None
        if self.flowcontrol is not None:
            flow = self.flowcontrol.flow_of_path(user, request.method, request.path)
            if not self.flowcontrol.try_acquire(flow, 1, request):
                await self.flowcontrol.acquire(flow, 1, request)
        response = await self._serve_nonresource(request)
        seconds = self.clock.monotonic() - started
        self.metrics.requests.observe_nonresource(request, response, seconds)
        if flow is not None:
            flow.counts.observe(seconds)
            response.headers = (*response.headers, *flow.headers)
        return response

    async def _serve_nonresource(self, request: Request) -> Response:
        if request.path.startswith(_CAUSES_PATH):
            return self._list_causes(request)
        if request.path == _SNAPSHOT:
            from kubeloop.apiserver.nonresource.snapshot import snapshot_response

            return await snapshot_response(self.registry.store, request)
        if request.path.startswith(_FLOW_CONTROL_DUMPS) and self.flowcontrol is not None:
            from kubeloop.apiserver.flowcontrol.debug_dump import dump_response

            return dump_response(self.flowcontrol, self.clock, request)
        return self.nonresource.handle(request)

    def _seats_of_list(self, target: Target, flow: RequestFlow) -> int:
        """Return the number of seats that a list request occupies."""
        if self.flowcontrol is None or not self.is_stored(target.resource):
            return 1
        return self.flowcontrol.seats_of_list(flow, self.registry.storage_of(target.resource).prefix(target.namespace))

    def _list_causes(self, request: Request) -> Response:
        """Return the recorded causes of writes to one object: `/kubeloop/why/api/v1/namespaces/…/pods/…`."""
        path = "/" + request.path.removeprefix(_CAUSES_PATH)
        if path.count("/") < _FEWEST_SLASHES or not path.startswith(("/api/", "/apis/")):
            raise errors.NotFound(_NO_OBJECT)
        try:
            target = self._router.find("GET", path)
        except (PageNotFound, errors.ApiError):
            raise errors.NotFound(_NO_OBJECT) from None
        if not target.name or not target.resource.is_stored:
            raise errors.NotFound(_NO_OBJECT)
        key = self.registry.storage_of(target.resource).key(target.namespace, target.name)
        reasons = [reason.to_document() for reason in self.object_store.causes.entries_of(key)]
        return Response(200, msgspec.json.encode({"items": reasons}))

    def authorize_path(self, user: User, method: str, path: str) -> Awaitable[None] | None:
        """Authorize a call for a non-resource path; raises Forbidden. What is returned must be awaited, if anything."""
        if ADMINISTRATORS in user.groups:
            self.metrics.authorization.allowed.fast += 1
            return None
        return self._authorize(attributes_of_path(user, method, path), None)

    def authorize(self, user: User, method: str, target: Target, verb: str, query: Query) -> Awaitable[None] | None:
        """Authorize a call for a resource, likewise. The verb is empty if the method is not supported."""
        if ADMINISTRATORS in user.groups:
            self.metrics.authorization.allowed.fast += 1
            return None
        return self._authorize(attributes_of_target(user, method, target, verb, query), None)

    async def _impersonate(self, user: User, request: Request, course: RequestTrace) -> User:
        from kubeloop.apiserver.authorization.impersonation import impersonate, requested_user

        wanted = requested_user(request)
        if wanted is None:
            return user
        began = self.clock.monotonic()
        asked, constrained = self._attributes_of(user, request, course.query), self._constrained_impersonation
        found = await impersonate(user, wanted, asked, self.authorizer, constrained=constrained)
        seconds = self.clock.monotonic() - began
        self.metrics.filters.impersonation.observe(seconds)
        if course.audit is not None:
            course.audit.latency.impersonation = seconds
            course.audit.set_impersonation(found)
        return found.user

    def _attributes_of(self, user: User, request: Request, query: Query) -> AuthorizationAttributes:
        """Return the authorization attributes of a request, even if its resource is not served."""
        if len(request.path) > _LONGEST_PATH or not _is_resource_path(request.path):
            return attributes_of_path(user, request.method, request.path)
        try:
            target = self._router.find(request.method, request.path)
        except (PageNotFound, errors.ApiError):
            return attributes_of_unserved(user, request.method, request.path, query)
        return attributes_of_target(user, request.method, target, _verb_of(target, query), query)

    async def serve(self, ctx: RequestContext, verb: str) -> Response:
        """Serve a request that has been authorized."""
        store = self.registry.store
        if verb in _READS and not store.is_shared:
            response = await self._serve(ctx, verb)
            return await self._encode(response) if isinstance(response, DeferredResponse) else response
        try:
            if verb in _READS:
                began = self.clock.monotonic()
                await wait_for_request_revision(store, verb, ctx.query)
                seconds = self.clock.monotonic() - began
                self.metrics.storage.observe_read_wait(ctx.resource, seconds)
                if ctx.audit is not None:
                    ctx.audit.observe_storage(seconds)
                response = await self._serve(ctx, verb)
            elif verb in OBJECT_WRITES:
                before = store.revision, store.rollbacks
                try:  # here and not in a function, because nearly all writes need one attempt
                    response = await self._serve(ctx, verb)
                except (errors.ApiError, DependentConflict) as rejection:
                    again = partial(self._serve, ctx, verb)
                    response = await retry_stale_rejection(store, StoreState(*before), rejection, again)
            else:
                if store.is_shared:
                    await wait_for_request_revision(store, verb, ctx.query)
                response = await self._serve(ctx, verb)
            return await self._encode(response) if isinstance(response, DeferredResponse) else response
        except DependentConflict:
            raise errors.conflict(ctx.resource.group, ctx.resource.plural, ctx.target.name) from None
        except StoreError as error:
            self.metrics.storage.count_error(verb, ctx.resource)
            raise store_error_to_api_error(error) from None

    async def _encode(self, response: DeferredResponse) -> Response:
        """Encode a response that was deferred because its encoding takes long."""
        return await self.worker_thread.run(response.encode)

    def _read_stored(self, ctx: RequestContext) -> Response | None:
        """Return the response to a plain get of a stored object, which waits for nothing; None for other gets."""
        target = ctx.target
        if target.subresource or ctx.format is not PLAIN or self.registry.store.is_shared:
            return None
        if not self.is_stored(target.resource):
            return None
        storage = self.registry.storage_of(target.resource)
        return get_object(ctx, storage) if storage.conversion is None else None

    async def _serve(self, ctx: RequestContext, verb: str) -> Response:
        target = ctx.target
        if (
            target.resource.plural in VIRTUAL_RESOURCES and not target.resource.is_custom
        ) or target.subresource in SUBRESOURCES:
            endpoint = SUBRESOURCES.get(target.subresource) or VIRTUAL_RESOURCES[target.resource.plural]
            limiter = self._limiter_of(ctx)
            if not limiter.try_enter() and (waited := await limiter.enter()):
                ctx.exclude_queue_wait(waited)
            ctx.has_seat = True
            try:
                return await endpoint(ctx, self)
            finally:
                limiter.leave()
        if self._virtual_groups and self.is_virtual(target.resource):
            return virtual_group_response(ctx, self._virtual_groups[target.resource.group])
        storage = self.registry.storage_of(target.resource)
        if verb == "get":
            if storage.conversion is None:
                return get_object(ctx, storage)
            return await self._read_converted(ctx, storage, storage.conversion)
        if verb in _READS:
            long, is_watch = has_long_selector(ctx.query), verb == "watch"
            if long:
                options = await self.worker_thread.run(parse_list_options, ctx.query, storage.field_cache, is_watch)
            else:
                options = parse_list_options(ctx.query, storage.field_cache, is_watch)
            if is_watch:
                return watch_objects(ctx, storage, options, self.clock, self.run_options.min_request_timeout)
            if storage.conversion is None:
                return await list_objects(ctx, storage, options)
            return await self._read_converted(ctx, storage, storage.conversion, options)
        limiter = self._limiter_of(ctx)
        if not limiter.try_enter() and (waited := await limiter.enter()):
            ctx.exclude_queue_wait(waited)
        ctx.has_seat = True
        try:
            if ctx.flow is not None and (watchers := storage.hub.watchers):
                ctx.flow.counts.observe_watchers(watchers)
            return await _WRITES[verb](ctx, storage, self.object_store)
        finally:
            limiter.leave()

    async def _read_converted(
        self, ctx: RequestContext, storage: ResourceStorage, conversion: Conversion, options: ListOptions | None = None
    ) -> Response:
        """Get an object, or list objects if there are options, after converting them to the requested version."""
        from kubeloop.apiserver.apiextensions.conversion.reads import read_converted

        async def read() -> Response:
            return get_object(ctx, storage) if options is None else await list_objects(ctx, storage, options)

        return await read_converted(storage, conversion, ctx.target.namespace, ctx.target.name, read)

    def _limiter_of(self, ctx: RequestContext) -> InFlightLimiter | Seat:
        """Return the limiter that a write acquires: a seat of its flow, or the separate limit of in-process writes."""
        return self._mutating_in_flight if ctx.flow is None else ctx.flow.seat_of(ctx)

    def count_terminated_watch(self, request: Request) -> None:
        """Count a watch that was closed because its client read too slowly."""
        with suppress(PageNotFound, errors.ApiError):
            resource = self._router.find(request.method, request.path).resource
            self.metrics.count_terminated_watch(resource.group, resource.plural)

    def timeout_response(self, request: Request, seconds: float) -> Response | None:
        """Return the response to a request that has been handled for too long; None if it may go on."""
        if seconds < _SHORTEST_TIMEOUT:
            return None
        if len(request.query) > _LONG_QUERY:  # too long to be parsed here
            query = Query("watch=1" if "watch=" in request.query else "")
        else:
            query = Query(request.query)
        try:
            asked = self._attributes_of(ANONYMOUS, request, query)
            limit = time_limit_of(asked, query, self.run_options.request_timeout)
        except errors.ApiError:  # it has been answered for that
            return None
        if limit is None or seconds < limit.seconds:
            return None
        response = status_response(limit.error(), request=request)
        response.headers = (*response.headers, *_NOT_CACHED)
        return response

    def rejection_response(self, code: int, message: str) -> Response:
        """Count a request that the HTTP layer rejected, and return the Status response for it."""
        self.metrics.requests.count_rejected(code, "")
        error = errors.RequestEntityTooLarge if code == 413 else partial(errors.ApiError, code=code)
        return status_response(error(message))

    def internal_error_response(self, request: Request, error: BaseException) -> Response:
        """Log an internal error and return the 500 response for it."""
        if not isinstance(error, asyncio.CancelledError):  # a client that disconnected is no server error
            log.error("%s %s failed", request.method, request.path, exc_info=error)
        response = status_response(
            errors.internal_error("an error on the server has prevented the request from succeeding"), request=request
        )
        response.headers = (*response.headers, *_NOT_CACHED)
        return response

    def close(self) -> None:
        """Close flow control, controllers, connections to webhooks, and all watches."""
        self.authorizer.close()
        if self.authenticator.remote is not None:
            self.authenticator.remote.close()
        if self.flowcontrol is not None:
            self.flowcontrol.close()
        self.registration.close()
        self.aggregator.close()
        self._dynamic_admission.close()
        self._crds.close()
        self.registry.close_watches()
        self.metrics.close()


def _failure_response(
    error: AuthorizationFailed | errors.ApiError | PageNotFound | StoreError, request: Request, course: RequestTrace
) -> Response:
    """Return the response to a request that failed."""
    if isinstance(error, AuthorizationFailed):
        return Response(500, authorization_failure_text(request, error), TEXT, NO_SNIFF)
    if isinstance(error, errors.ApiError):
        return status_response(error, course.current_warnings, request)
    if isinstance(error, PageNotFound):
        return not_found_response()
    return status_response(store_error_to_api_error(error), request=request)


def _cache_control(response: Response) -> tuple[tuple[str, str], ...]:
    """Return the header that keeps responses out of shared caches, unless the response has one of its own."""
    for name, _ in response.headers:
        if name == "Cache-Control":
            return ()
    return () if isinstance(response, UpgradeResponse) else _NOT_CACHED


def _too_large(request: Request) -> errors.ApiError:
    """Return the error for a request whose body exceeds the limit."""
    return errors.request_entity_too_large(f"limit is {request.exceeded_body_limit}")


def store_error_to_api_error(error: StoreError) -> errors.ApiError:
    """Return the API error for a store error; a full disk keeps etcd's message, as upstream's clients expect."""
    return errors.ApiError(str(error)) if isinstance(error, StoreFull) else errors.internal_error(str(error))


def _is_resource_path(path: str) -> bool:
    """Return True for `/api/V/…` and `/apis/G/V/…` with a part after the version; shorter ones are discovery."""
    if path.startswith("/api/"):
        return path.rstrip("/").count("/") > 2
    return path.startswith("/apis/") and path.rstrip("/").count("/") > 3


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
