# SPDX-License-Identifier: Apache-2.0
"""Audit trail of one request: emits an event at each stage from receipt to response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.scalars.times import format_micro_time
from kubeloop.apiserver.audit.backends import AuditSink
from kubeloop.apiserver.audit.bodies import (
    is_large_response,
    request_object,
    response_object,
    response_status,
    without_managed_fields,
)
from kubeloop.apiserver.audit.latency import LayerLatency
from kubeloop.apiserver.audit.policy import LEVELS, REQUEST, RESPONSE, AuditPolicy, RequestAuditConfig
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, AuthorizationDecision
from kubeloop.apiserver.background.offload import WorkerThread, is_expensive_body
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.response.observed_stream import ObservedStream
from kubeloop.http import Request, Response, StreamResponse, UpgradeResponse

if TYPE_CHECKING:
    from kubeloop.api.generated.meta_v1 import DeleteOptions
    from kubeloop.api.kinds import Resource
    from kubeloop.apiserver.authorization.impersonation import ImpersonationResult

_ANONYMOUS = User("")
# Requests whose response is logged when it starts and when it is complete.
_LONG_RUNNING_VERBS = frozenset(("watch", "proxy"))
_LONG_RUNNING_SUBRESOURCES = frozenset(("attach", "exec", "log", "portforward", "proxy"))
_SLOW_SECONDS = 0.5
_LONG_AGENT = 1024
_PATCHES = "patch.webhook.admission.k8s.io/"
_PANIC = {"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500}
_TIMEOUT = {
    "metadata": {},
    "status": "Failure",
    "message": "Timeout: request did not complete within the allotted timeout",
    "reason": "Timeout",
    "code": 504,
}


class AuditContext:
    """Audit trail of one request. `known` is called first, unless the authentication failed."""

    def __init__(
        self,
        request: Request,
        audit_id: str,
        policy: AuditPolicy,
        sink: AuditSink,
        now: Callable[[], datetime],
    ) -> None:
        self._request = request
        self._policy = policy
        self._sink = sink
        self._pending: list[Awaitable[bool]] = []
        self._stored = True
        self._now = now
        self._received_at = now()
        self._received = format_micro_time(self._received_at)
        self.audit_id = audit_id
        self._judgement: RequestAuditConfig | None = None
        self._event: dict[str, Any] = {}
        self._is_long_running = False
        self._has_latency = True
        self._request_object: Any | None = None
        self._has_patch = False
        self.latency = LayerLatency()
        self.annotations: dict[str, str] = {}  # handlers may add annotations until the response is sent

    async def begin(self, user: User, asked: AuthorizationAttributes, worker_thread: WorkerThread) -> None:
        """Set user and attributes, from which the policy derives the level, and emit RequestReceived."""
        await worker_thread.run_if(is_expensive_body(self._request), self._begin, user, asked)
        self._emit("RequestReceived")

    @property
    def is_blocked(self) -> bool:
        """True if `wait_stored` has to be awaited before the request goes on."""
        return bool(self._pending) or not self._stored

    async def wait_stored(self) -> bool:
        """Wait until the emitted events are stored; False if they could not be."""
        pending, self._pending = self._pending, []
        results = [await one for one in pending]
        stored, self._stored = self._stored, True
        return stored and all(results)

    def set_impersonation(self, other: ImpersonationResult) -> None:
        """Record the impersonated user."""
        self._event["impersonatedUser"] = _user_info(other.user)
        if other.constraint:
            self._event["authenticationMetadata"] = {"impersonationConstraint": other.constraint}

    def annotate_deprecation(self, resource: Resource) -> None:
        """Record that the API version is deprecated, and the release that removes it."""
        if resource.deprecation:
            self.annotations["k8s.io/deprecated"] = "true"
            if resource.removed_release:
                self.annotations["k8s.io/removed-release"] = resource.removed_release

    @property
    def wants_request_object(self) -> bool:
        """True if the level includes the objects of requests."""
        return self._judgement is not None and self._judgement.level >= REQUEST

    def log_request_object(self, obj: Any) -> None:
        """Record the decoded and defaulted object of a create or an update: its identity and, if wanted, the whole."""
        reference, meta = self._event.get("objectRef"), obj.metadata
        if reference is None or self._request_object is not None:
            return
        named = {
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        }
        found = {field: value for field, value in named.items() if value and field not in reference}
        self._event["objectRef"] = {**reference, **found}
        if self.wants_request_object:
            self._request_object = msgspec.json.decode(codec.encode(codec.to_plain(obj)))

    def log_delete_options(self, options: DeleteOptions) -> None:
        """Record the options in the body of a delete, as upstream's internal type."""
        if self.wants_request_object:
            plain = codec.to_plain(options)
            self._request_object = {**plain, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal"}

    def log_request_patch(self) -> None:
        """Record that the body is a patch, which is logged as it was sent."""
        self._has_patch = True

    def observe_storage(self, seconds: float) -> None:
        """Record the seconds of one operation of the store."""
        self.latency.storage += seconds

    def set_decision(self, decision: AuthorizationDecision, seconds: float) -> None:
        """Record the authorization decision as annotations, and the seconds that it took."""
        self.latency.authorization = max(self.latency.authorization, seconds)
        if decision.error and not decision.allowed:
            self.annotations["authorization.k8s.io/reason"] = "internal error"
            return
        self.annotations["authorization.k8s.io/decision"] = "allow" if decision.allowed else "forbid"
        self.annotations["authorization.k8s.io/reason"] = decision.reason

    def finish(self, response: Response, asked: Callable[[], AuthorizationAttributes]) -> Response:
        """Emit the response stage; for a stream return a wrapper that emits its end."""
        if self._judgement is None:
            self._begin(_ANONYMOUS, asked()._replace(user=_ANONYMOUS))
            self._event["responseStatus"] = status = response_status(response)
            if response.status == 401:
                self._event["responseStatus"] = {**status, "message": _attempted(self._request)}
            self._emit("ResponseStarted")
            return response
        if not self._judgement.level:
            return response
        if isinstance(response, StreamResponse):
            self._emit("ResponseStarted")
            return ObservedStream(response, lambda: self._emit_end)
        if isinstance(response, UpgradeResponse):
            self._emit("ResponseStarted")
            response.on_close = _in_turn(response.on_close, self._emit_end)
            return response
        if self._is_long_running:
            self._emit("ResponseStarted")  # also of an error, or of a response that is complete at once
        self._emit_complete()
        return response

    def emit_timeout(self) -> None:
        """Emit the end of a request that was abandoned: its time was over, or its client left."""
        self._event["responseStatus"] = _TIMEOUT
        self._emit_end()

    def emit_panic(self, error: BaseException) -> None:
        """Emit the Panic stage for an internal error."""
        self._event["responseStatus"] = {**_PANIC, "message": f"APIServer panic'd: {type(error).__name__}"}
        self._emit("Panic")

    def _emit_end(self) -> None:
        """Emit the end of a stream; its storage is not awaited."""
        self._emit_complete()
        if self.is_blocked:
            self._sink.detach(self.wait_stored())

    def _emit_complete(self) -> None:
        """Emit the end; the event of a slow request says where its time went."""
        total = (self._now() - self._received_at).total_seconds()
        if total > _SLOW_SECONDS and self._has_latency:
            self.annotations.update(self.latency.annotations(total))
        self._emit("ResponseComplete")

    def _begin(self, user: User, asked: AuthorizationAttributes) -> None:
        request = self._request
        self._judgement = self._policy.evaluate(asked)
        self._is_long_running = asked.verb in _LONG_RUNNING_VERBS or asked.subresource in _LONG_RUNNING_SUBRESOURCES
        self._has_latency = asked.verb != "watch"
        if not self._judgement.level:
            return
        self._event = {
            "level": LEVELS[self._judgement.level],
            "auditID": self.audit_id,
            "requestURI": f"{request.path}?{request.query}" if request.query else request.path,
            "verb": asked.verb,
            "user": _user_info(user),
            "sourceIPs": _sources(request),
            "userAgent": _agent(request.headers.get("user-agent", "")),
        }
        if asked.path is None:
            self._event["objectRef"] = _reference(asked)

    async def add_bodies(self, response: Response, worker_thread: WorkerThread) -> None:
        """Add the bodies that the level includes; large ones are decoded in the worker thread."""
        judgement = self._judgement
        if judgement is not None and judgement.level:
            is_large = is_expensive_body(self._request) or is_large_response(response)
            await worker_thread.run_if(is_large, self._add_bodies, judgement, response)

    def _add_bodies(self, judgement: RequestAuditConfig, response: Response) -> None:
        self._event["responseStatus"] = response_status(response)
        if judgement.level >= REQUEST and "objectRef" in self._event:
            self._add("requestObject", self._logged_request(judgement.omit_managed_fields))
        if judgement.level >= RESPONSE and "objectRef" in self._event:
            self._add("responseObject", response_object(response, judgement.omit_managed_fields))

    def _logged_request(self, omit_managed_fields: bool) -> Any | None:
        """Return the object or the patch of the request; None for a request that no handler has decoded."""
        if self._has_patch:
            return request_object(self._request, omit_managed_fields)
        return without_managed_fields(self._request_object, omit_managed_fields)

    def _add(self, field: str, body: Any | None) -> None:
        if body is not None:
            self._event[field] = body

    def _emit(self, stage: str) -> None:
        judgement = self._judgement
        if judgement is None or not judgement.level or stage in judgement.omit_stages:
            return
        told = self._event
        line = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "stage": stage,
            **{field: told[field] for field in _FIELDS if field in told},
            "requestReceivedTimestamp": self._received,
            "stageTimestamp": format_micro_time(self._now()),
        }
        if self.annotations:
            line["annotations"] = dict(self._shown_annotations(judgement))
        stored = self._sink.process([line])
        if isinstance(stored, bool):
            self._stored = self._stored and stored
        else:
            self._pending.append(stored)

    def _shown_annotations(self, judgement: RequestAuditConfig) -> dict[str, str]:
        """Return the annotations; patches of webhooks only at levels that include bodies."""
        if judgement.level >= REQUEST:
            return self.annotations
        return {key: value for key, value in self.annotations.items() if not key.startswith(_PATCHES)}


_FIELDS = (
    "level",
    "auditID",
    "requestURI",
    "verb",
    "user",
    "impersonatedUser",
    "authenticationMetadata",
    "sourceIPs",
    "userAgent",
    "objectRef",
    "responseStatus",
    "requestObject",
    "responseObject",
)


def _in_turn(first: Callable[[], None] | None, second: Callable[[], None]) -> Callable[[], None]:
    """Return a callback that calls both."""
    if first is None:
        return second

    def call() -> None:
        first()
        second()

    return call


def _user_info(user: User) -> dict[str, Any]:
    told: dict[str, Any] = {"username": user.name} if user.name else {}
    if user.uid:
        told["uid"] = user.uid
    if user.groups:
        told["groups"] = user.groups
    if user.extra:
        told["extra"] = dict(user.extra)
    return told


def _reference(asked: AuthorizationAttributes) -> dict[str, str]:
    named = {
        "resource": asked.resource,
        "namespace": asked.namespace,
        "name": asked.name,
        "apiGroup": asked.group,
        "apiVersion": asked.version,
        "subresource": asked.subresource,
    }
    return {field: value for field, value in named.items() if value}


def _sources(request: Request) -> list[str]:
    """Return the source IPs: those claimed by proxies, then the peer's; invalid ones are left out."""
    claimed = [part.strip() for part in request.headers.get("x-forwarded-for", "").split(",")]
    found = [one for one in (*claimed, request.headers.get("x-real-ip", ""), request.remote[0]) if _is_address(one)]
    return list(dict.fromkeys(found))


def _is_address(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _agent(text: str) -> str:
    return text if len(text) <= _LONG_AGENT else text[:_LONG_AGENT] + "...TRUNCATED"


def _attempted(request: Request) -> str:
    methods = []
    if request.headers.get("authorization", "").strip().lower().startswith("bearer "):
        methods.append("bearer")
    if request.peer_certificate is not None:
        methods.append("x509")
    if methods:
        return f"Authentication failed, attempted: {', '.join(methods)}"
    return "Authentication failed, no credentials provided"
