# SPDX-License-Identifier: Apache-2.0
"""Context of one resource request, over HTTP or in process, and the authenticated user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.api.kinds import Resource
from kubeloop.api.struct_patch import StructPatch
from kubeloop.apiserver.request.negotiation import ResponseFormat
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Target
from kubeloop.apiserver.request.warning_recorder import WarningRecorder
from kubeloop.http import Request

if TYPE_CHECKING:
    from kubeloop.apiserver.audit.trail import AuditContext
    from kubeloop.apiserver.flowcontrol.request_flow import RequestFlow


@dataclass(frozen=True, slots=True)
class User:
    """Authenticated user: name, groups, UID and extra fields."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


AUTHENTICATED = "system:authenticated"
# Keys of a user's extra that identify the certificate or token of the request.
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class RequestLatency:
    """Seconds of a request that the service level indicator leaves out: webhooks, and the queue of flow control.

    Mutating webhooks are called one after the other, validating ones at once: the slowest of these counts.
    """

    __slots__ = ("mutating_webhooks", "queue", "validating_webhooks")

    def __init__(self) -> None:
        self.mutating_webhooks = 0.0
        self.validating_webhooks = 0.0
        self.queue = 0.0

    @property
    def excluded(self) -> float:
        """Seconds that are left out."""
        return self.mutating_webhooks + self.validating_webhooks + self.queue

    def observe_webhook(self, seconds: float, *, mutating: bool) -> None:
        """Add the call of a webhook."""
        if mutating:
            self.mutating_webhooks += seconds
        else:
            self.validating_webhooks = max(self.validating_webhooks, seconds)


@dataclass(slots=True)
class RequestContext:
    """Resource request with its resolved target, authenticated user and negotiated response format."""

    request: Request
    target: Target
    query: Query
    user: User
    format: ResponseFormat
    read_clock: Callable[[], datetime]
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log
    audit: AuditContext | None = None  # None if the request is not audited
    dry_run: bool = False
    resets_managed_fields: bool = False  # the client sent an empty managedFields list, which resets field management
    latency: RequestLatency | None = None  # set once a part of the request's time is left out
    has_seat: bool = False  # set once a write has its seat
    _now: datetime | None = None
    flow: RequestFlow | None = None  # flow of priority and fairness; None for in-process callers
    received: float | None = None  # reading of the monotonic clock when the request arrived
    _warnings: WarningRecorder | None = None

    @property
    def now(self) -> datetime:
        """Time of the request in whole seconds, read on first use: most reads have none."""
        if self._now is None:
            self._now = self.read_clock().replace(microsecond=0)
        return self._now

    @property
    def resource(self) -> Resource:
        """Resource of the target."""
        return self.target.resource

    def ensure_latency(self) -> RequestLatency:
        """Return the part of the request's time that its service level indicator leaves out, to be added to."""
        if self.latency is None:
            self.latency = RequestLatency()
        return self.latency

    def exclude_queue_wait(self, seconds: float) -> None:
        """Leave the time in a queue of flow control out of the request's service level indicator."""
        latency = self.ensure_latency()
        latency.queue = max(latency.queue, seconds)

    @property
    def warnings(self) -> WarningRecorder:
        """Recorder of warnings, made on first use: most reads have none."""
        if self._warnings is None:
            self._warnings = WarningRecorder()
        return self._warnings

    @property
    def has_warnings(self) -> bool:
        """True if a warning has been recorded."""
        return self._warnings is not None and bool(self._warnings)

    def warn(self, message: str) -> None:
        """Add a Warning header to the response; each text appears once."""
        self.warnings.add(message)


@dataclass(slots=True)
class InProcessRequest(RequestContext):
    """Resource request of a caller in this process, which passes structs instead of bytes."""

    wants_object: bool = False  # the response is the object instead of its bytes
    has_typed_body: bool = False  # the body was encoded from a struct of the resource's own class
    struct_patch: StructPatch | None = None  # the patch as a struct


def has_typed_body(ctx: RequestContext) -> bool:
    """Return True if the body was encoded from a struct of the resource's own class."""
    return isinstance(ctx, InProcessRequest) and ctx.has_typed_body
