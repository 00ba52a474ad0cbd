"""Retry policy of calls: client-go's rules, as pure functions."""

from __future__ import annotations

from kubeloop.api.errors import ApiError
from kubeloop.api.requests import Call
from kubeloop.client.errors import ConnectionLost

MAX_RETRIES = 10
# How long client-go waits before it tries again after a connection broke under a read.
_LOST_SECONDS = 1.0


def retry_delay(call: Call, error: Exception, attempt: int) -> float | None:
    """Return the seconds to wait before the next attempt, None if the error is final; `attempt` counts from 1.

    A server that answers 429 or 5xx with Retry-After has done nothing, whatever the verb. A connection that broke may
    have carried a write, so only reads are repeated then.
    """
    if attempt > MAX_RETRIES:
        return None
    if isinstance(error, ApiError):
        asked = error.retry_after_seconds
        return float(asked) if asked > 0 and (error.code == 429 or error.code >= 500) else None
    if isinstance(error, ConnectionLost) and call.verb in ("get", "list"):
        return _LOST_SECONDS
    return None
