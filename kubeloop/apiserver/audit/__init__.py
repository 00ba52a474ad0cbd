# SPDX-License-Identifier: Apache-2.0
"""Audit log: records users, requests, authorization decisions and responses.

request ─▶ AuditContext ─ begin (policy level) ─ impersonation ─ decision ─ finish ─▶ events ─▶ backends

Without a policy nothing of this is loaded. Differs from upstream: secrets and tokens are logged at the Metadata level
at most, whatever the policy.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kubeloop.api.scalars.times import format_micro_time
from kubeloop.apiserver.audit.backends import AuditBackend, AuditSink
from kubeloop.apiserver.audit.policy import AuditPolicy
from kubeloop.apiserver.audit.trail import AuditContext
from kubeloop.clock import Clock, new_uid
from kubeloop.http import Request
from kubeloop.metrics import MetricRegistry


class Auditor:
    """Creates the audit trail of each request."""

    def __init__(self, policy: AuditPolicy, backend: AuditBackend, clock: Clock, metrics: MetricRegistry) -> None:
        self._policy = policy
        self._sink = AuditSink(backend, metrics.counter("apiserver_audit_event_total").with_labels())
        self._clock = clock

    async def close(self) -> None:
        """Store what is buffered, and close the backend."""
        await self._sink.close()

    def trail(self, request: Request, audit_id: str) -> AuditContext:
        """Return the audit trail of a request."""
        return AuditContext(request, audit_id, self._policy, self._sink, self._clock.now)

    def log_rejected_certificate(self, why: str) -> None:
        """Log a client certificate that the TLS handshake rejected; there is no request for rules to match."""
        now = format_micro_time(self._clock.now())
        event = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": new_uid(self._clock),
            "stage": "ResponseStarted",
            "requestURI": "",
            "verb": "",
            "user": {},
            "responseStatus": {
                "metadata": {},
                "status": "Failure",
                "message": f"Authentication failed, attempted: x509: {why}",
                "reason": "Unauthorized",
                "code": 401,
            },
            "requestReceivedTimestamp": now,
            "stageTimestamp": now,
        }
        stored = self._sink.process([event])
        if not isinstance(stored, bool):
            self._sink.detach(_wait(stored))


async def _wait(stored: Awaitable[bool]) -> bool:
    return await stored
