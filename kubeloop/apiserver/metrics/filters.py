# SPDX-License-Identifier: Apache-2.0
"""Metrics of authentication and authorization.

As with requests, a decision within the first bucket of its histogram is counted in plain attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubeloop.apiserver.authorization.attributes import AuthorizationDecision
from kubeloop.metrics import Histogram, MetricRegistry, exponential_bounds

_BOUNDS: Final = exponential_bounds(0.001, 2, 15)
_FAST_SECONDS: Final = _BOUNDS[0]
# Names that are reported as they are; others are only counted.
_KNOWN_USERS: Final = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)
_MAX_USERS: Final = 1000


class ResultSeries:
    """Decisions with one result."""

    __slots__ = ("fast", "seconds", "slow")

    def __init__(self) -> None:
        self.fast = 0
        self.seconds = 0.0
        self.slow: Histogram | None = None

    def observe(self, seconds: float) -> None:
        """Count a decision by its duration."""
        if seconds <= _FAST_SECONDS:
            self.fast += 1
            self.seconds += seconds
            return
        if self.slow is None:
            self.slow = Histogram(_BOUNDS)
        self.slow.observe(seconds)

    @property
    def count(self) -> int:
        """Number of decisions."""
        return self.fast + (sum(self.slow.counts) if self.slow is not None else 0)

    def histogram(self) -> Histogram:
        """Return the durations of all decisions."""
        found = Histogram(_BOUNDS)
        found.add([self.fast, *[0] * len(_BOUNDS)], self.seconds)
        if self.slow is not None:
            found.add(self.slow.counts, self.slow.total)
        return found


class AuthenticationMetrics:
    """Attempts to authenticate, and authenticated users by category."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.success = ResultSeries()
        self.failure = ResultSeries()
        self._users: dict[str, int] = {}
        self._categories: dict[tuple[str, ...], float] = {}
        registry.counter("authenticated_user_requests", "username").set_collector(self._requests_by_user)
        _register(registry, "authentication_attempts", "authentication_duration_seconds", self._results)

    def count(self, username: str, seconds: float) -> None:
        """Count a request with a user."""
        try:
            self._users[username] += 1
        except KeyError:
            self._add_user(username)
        success = self.success
        if seconds <= _FAST_SECONDS:
            success.fast += 1
            success.seconds += seconds
        else:
            success.observe(seconds)

    def _results(self) -> dict[str, ResultSeries]:
        return {"success": self.success, "failure": self.failure}

    def _requests_by_user(self) -> dict[tuple[str, ...], float]:
        self._fold_users()
        return self._categories

    def _add_user(self, username: str) -> None:
        if len(self._users) >= _MAX_USERS:
            self._fold_users()
        self._users[username] = 1

    def _fold_users(self) -> None:
        for name, count in self._users.items():
            key = (name if name in _KNOWN_USERS else "email_id" if "@" in name else "other",)
            self._categories[key] = self._categories.get(key, 0) + count
        self._users.clear()


class AuthorizationMetrics:
    """Authorization decisions."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._allowed = ResultSeries()
        self._denied = ResultSeries()
        self._no_opinion = ResultSeries()
        self._error = ResultSeries()
        _register(registry, "authorization_attempts_total", "authorization_duration_seconds", self._results)

    def observe(self, decision: AuthorizationDecision, seconds: float) -> None:
        """Count a decision by its duration."""
        if decision.allowed:
            self._allowed.observe(seconds)
        elif decision.error:
            self._error.observe(seconds)
        else:
            (self._denied if decision.denied else self._no_opinion).observe(seconds)

    def count_administrator(self) -> None:
        """Count a request of system:masters, which no authorizer is asked about; takes less than the clock resolves."""
        self._allowed.fast += 1

    def _results(self) -> dict[str, ResultSeries]:
        return {
            "allowed": self._allowed,
            "denied": self._denied,
            "no-opinion": self._no_opinion,
            "error": self._error,
        }


def _register(
    registry: MetricRegistry, attempts: str, durations: str, results: Callable[[], dict[str, ResultSeries]]
) -> None:
    """Register counter and histogram of results; a result that never occurred has no sample."""

    def counts() -> dict[tuple[str, ...], float]:
        return {(name,): one.count for name, one in results().items() if one.count}

    def histograms() -> dict[tuple[str, ...], Histogram]:
        return {(name,): one.histogram() for name, one in results().items() if one.count}

    registry.counter(attempts, "result").set_collector(counts)
    registry.histogram(durations, "result", bounds=_BOUNDS).set_collector(histograms)
