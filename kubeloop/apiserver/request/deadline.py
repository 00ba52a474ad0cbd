# SPDX-License-Identifier: Apache-2.0
"""Time limits of requests: those that are not long-running are answered with 504 when theirs is over.

The limit is --request-timeout, a shorter one of the query (`timeout=5s`), and 34 seconds for writes of objects.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeloop.api import errors
from kubeloop.api.scalars.duration import SECOND, DurationError, parse_duration
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.request.query import Query

_LONG_RUNNING_VERBS: Final = frozenset({"watch", "proxy"})
_LONG_RUNNING_SUBRESOURCES: Final = frozenset({"attach", "exec", "proxy", "log", "portforward"})
_LONG_RUNNING_PATHS: Final = ("/debug/pprof/", "/kubeloop/snapshot")
_WRITES: Final = frozenset({"create", "update", "patch", "delete"})
_LONGEST_WRITE: Final = 34.0
_ALLOTTED: Final = "request did not complete within the allotted timeout"
_REQUESTED: Final = "request did not complete within requested timeout - context deadline exceeded"


class TimeLimit(NamedTuple):
    """Seconds within which a request has to be answered, and the message if it is not."""

    seconds: float
    message: str

    def error(self) -> errors.ApiError:
        """Return the error for a request that exceeds the limit."""
        return errors.timeout(self.message)


def time_limit_of(asked: AuthorizationAttributes, query: Query, longest: float) -> TimeLimit | None:
    """Return the limit of a request; None for a long-running one. Raises BadRequest for a malformed `timeout`."""
    if is_long_running(asked):
        return None
    text = query.text("timeout") if query else ""
    if text:
        try:
            wanted = parse_duration(text) / SECOND
        except DurationError as error:
            raise errors.bad_request(f"invalid timeout specified in the request URL - {error}") from None
        if 0 < wanted < longest:
            longest = wanted
    if asked.path is None and asked.verb in _WRITES:
        return TimeLimit(min(longest, _LONGEST_WRITE), _REQUESTED)
    return TimeLimit(longest, _ALLOTTED)


def is_long_running(asked: AuthorizationAttributes) -> bool:
    """Return True if a request may last as long as its client wants."""
    if asked.path is not None:
        return asked.path.startswith(_LONG_RUNNING_PATHS)
    return asked.verb in _LONG_RUNNING_VERBS or asked.subresource in _LONG_RUNNING_SUBRESOURCES
