"""Audit log: records users, requests, authorization decisions and responses.

request ─▶ Trail ─ known (policy level) ─ impersonates ─ decided ─ finish ─▶ JSON lines ─▶ AuditLog

Without a policy nothing of this is loaded. Differs from upstream: secrets and tokens are logged at the Metadata level
at most, whatever the policy.
"""

from __future__ import annotations

import msgspec

from kubeloop.api.scalars.times import format_micro_time
from kubeloop.apiserver.audit.log import AuditLog
from kubeloop.apiserver.audit.policy import AuditPolicy
from kubeloop.apiserver.audit.trail import AuditContext
from kubeloop.clock import Clock, new_uid
from kubeloop.http import Request


class Auditor:
    """Creates the audit trail of each request."""

    def __init__(self, policy: AuditPolicy, log: AuditLog, clock: Clock) -> None:
        self._policy = policy
        self._log = log
        self._clock = clock

    def trail(self, request: Request, audit_id: str) -> AuditContext:
        """Return the audit trail of a request."""
        return AuditContext(request, audit_id, self._policy, self._log.write, self._clock.now)

    def refused_certificate(self, why: str) -> None:
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
        self._log.write(msgspec.json.encode(event) + b"\n")
