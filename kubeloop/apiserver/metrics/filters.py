# SPDX-License-Identifier: Apache-2.0
"""Metrics of authentication and authorization.

As with requests, a decision within the first bucket of its histogram is counted in plain attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubeloop.apiserver.authorization.attributes import AuthorizationDecision
from kubeloop.metrics import FastHistogram, Histogram, MetricRegistry, exponential_bounds

_BOUNDS: Final = exponential_bounds(0.001, 2, 15)
FAST_FILTER_SECONDS: Final = _BOUNDS[0]
# Names that are reported as they are; others are only counted.
_KNOWN_USERS: Final = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)
_MAX_USERS: Final = 1000


class AuthenticationMetrics:
    """Attempts to authenticate, and authenticated users by category."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.success = FastHistogram(_BOUNDS)
        self.failure = FastHistogram(_BOUNDS)
        self._users: dict[str, int] = {}
        self._categories: dict[tuple[str, ...], float] = {}
        registry.counter("authenticated_user_requests", "username").set_collector(self._requests_by_user)
        _register(registry, "authentication_attempts", "authentication_duration_seconds", self._results)

    def count(self, username: str, seconds: float, times: int = 1) -> None:
        """Count a request with a user, or several that all were fast."""
        try:
            self._users[username] += times
        except KeyError:
            self._add_user(username, times)
        if times == 1:
            self.success.observe(seconds)
        else:
            self.success.fast += times
            self.success.total += seconds

    def _results(self) -> dict[str, FastHistogram]:
        return {"success": self.success, "failure": self.failure}

    def _requests_by_user(self) -> dict[tuple[str, ...], float]:
        self._fold_users()
        return self._categories

    def _add_user(self, username: str, times: int) -> None:
        if len(self._users) >= _MAX_USERS:
            self._fold_users()
        self._users[username] = times

    def _fold_users(self) -> None:
        for name, count in self._users.items():
            key = (name if name in _KNOWN_USERS else "email_id" if "@" in name else "other",)
            self._categories[key] = self._categories.get(key, 0) + count
        self._users.clear()


class AuthorizationMetrics:
    """Authorization decisions.

    A request of system:masters, which no authorizer is asked about, is added to `allowed.fast` directly: it takes less
    than the clock resolves.
    """

    def __init__(self, registry: MetricRegistry) -> None:
        self.allowed = FastHistogram(_BOUNDS)
        self._denied = FastHistogram(_BOUNDS)
        self._no_opinion = FastHistogram(_BOUNDS)
        self._error = FastHistogram(_BOUNDS)
        _register(registry, "authorization_attempts_total", "authorization_duration_seconds", self._results)

    def observe(self, decision: AuthorizationDecision, seconds: float) -> None:
        """Count a decision by its duration."""
        if decision.allowed:
            if seconds <= FAST_FILTER_SECONDS:
                self.allowed.fast += 1
                self.allowed.total += seconds
            else:
                self.allowed.observe(seconds)
        elif decision.error:
            self._error.observe(seconds)
        else:
            (self._denied if decision.denied else self._no_opinion).observe(seconds)

    def _results(self) -> dict[str, FastHistogram]:
        return {
            "allowed": self.allowed,
            "denied": self._denied,
            "no-opinion": self._no_opinion,
            "error": self._error,
        }


def _register(
    registry: MetricRegistry, attempts: str, durations: str, results: Callable[[], dict[str, FastHistogram]]
) -> None:
    """Register counter and histogram of results; a result that never occurred has no sample."""

    def counts() -> dict[tuple[str, ...], float]:
        return {(name,): one.count for name, one in results().items() if one.count}

    def histograms() -> dict[tuple[str, ...], Histogram]:
        return {(name,): one.histogram() for name, one in results().items() if one.count}

    registry.counter(attempts, "result").set_collector(counts)
    registry.histogram(durations, "result", bounds=_BOUNDS).set_collector(histograms)
