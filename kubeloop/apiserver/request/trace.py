# SPDX-License-Identifier: Apache-2.0
"""State of one request over HTTP that metrics and audit need, at whatever step the request ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Target

if TYPE_CHECKING:
    from kubeloop.apiserver.audit.trail import AuditContext
    from kubeloop.apiserver.flowcontrol.request_flow import RequestFlow


class RequestTrace:
    """Progress of one request; `received` is a reading of the monotonic clock."""

    __slots__ = (
        *("audit", "authentication_seconds", "ctx", "flow", "query", "received", "target", "username", "verb"),
        "warnings",
    )

    def __init__(self, method: str, query: Query, audit: AuditContext | None, received: float) -> None:
        self.received = received
        self.verb = method
        self.query = query
        self.audit = audit
        self.username = ""  # of the authenticated user, before impersonation; empty until then
        self.authentication_seconds = 0.0
        self.target: Target | None = None
        self.ctx: RequestContext | None = None  # set once the request is authorized
        self.flow: RequestFlow | None = None
        self.warnings: Iterable[str] = ()  # those known before there is a context

    @property
    def current_warnings(self) -> Iterable[str]:
        """Warnings for the response to an error."""
        return self.warnings if self.ctx is None else self.ctx.warnings
