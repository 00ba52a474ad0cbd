# SPDX-License-Identifier: Apache-2.0
"""Metrics of the filters that a request passes: authentication, audit, impersonation, authorization, flow control.

As with requests, a decision within the first bucket of its histogram is counted in plain attributes. A duration is
counted once, in buckets from which those of several metrics are added up on collection. A filter that had nothing to
do for a request is counted for it with no duration, as it takes less than the clock resolves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kubeloop.api.features.gates import Features
from kubeloop.apiserver.authorization.attributes import AuthorizationDecision
from kubeloop.metrics import FastHistogram, Histogram, MetricRegistry, exponential_bounds

_BOUNDS: Final = exponential_bounds(0.001, 2, 15)
FILTER_BOUNDS: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0)
_ALL_BOUNDS: Final = tuple(sorted({*_BOUNDS, *FILTER_BOUNDS}))
FAST_FILTER_SECONDS: Final = _ALL_BOUNDS[0]
# Names that are reported as they are; others are only counted.
_KNOWN_USERS: Final = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)
_MAX_USERS: Final = 1000


class AuthenticationMetrics:
    """Attempts to authenticate, and authenticated users by category."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.success = FastHistogram(_ALL_BOUNDS)
        self.failure = FastHistogram(_ALL_BOUNDS)
        self._users: dict[str, int] = {}
        self._categories: dict[tuple[str, ...], float] = {}
        registry.counter("authenticated_user_requests", "username").set_collector(self._requests_by_user)
        _register(registry, "authentication_attempts", "authentication_duration_seconds", self.results)

    def count(self, username: str, seconds: float) -> None:
        """Count a request with a user."""
        self._count_user(username, 1)
        self.success.observe(seconds)

    def count_all(self, username: str, seconds: Sequence[float]) -> None:
        """Count several requests of a user, at least one."""
        self._count_user(username, len(seconds))
        self.success.observe_all(seconds)

    def _count_user(self, username: str, times: int) -> None:
        try:
            self._users[username] += times
        except KeyError:
            self._add_user(username, times)

    def results(self) -> dict[str, FastHistogram]:
        """Return the durations by result."""
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
        self.allowed = FastHistogram(_ALL_BOUNDS)
        self._denied = FastHistogram(_ALL_BOUNDS)
        self._no_opinion = FastHistogram(_ALL_BOUNDS)
        self._error = FastHistogram(_ALL_BOUNDS)
        _register(registry, "authorization_attempts_total", "authorization_duration_seconds", self.results)

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

    def results(self) -> dict[str, FastHistogram]:
        """Return the durations by result."""
        return {
            "allowed": self.allowed,
            "denied": self._denied,
            "no-opinion": self._no_opinion,
            "error": self._error,
        }


class FilterMetrics:
    """Durations of the filters by name; those of authentication and authorization are counted by their own metrics."""

    def __init__(
        self,
        registry: MetricRegistry,
        authentication: AuthenticationMetrics,
        authorization: AuthorizationMetrics,
        features: Features,
    ) -> None:
        is_constrained = features.is_enabled("ConstrainedImpersonation")
        self._impersonation_name = "constrainedimpersonation" if is_constrained else "impersonation"
        self._authentication = authentication
        self._authorization = authorization
        self._sources: list[Callable[[], dict[str, Histogram]]] = []
        self.audit = Histogram(FILTER_BOUNDS)
        self.impersonation = Histogram(FILTER_BOUNDS)
        registry.histogram("apiserver_request_filter_duration_seconds", "filter", bounds=FILTER_BOUNDS).set_collector(
            self._collect
        )

    def add_source(self, source: Callable[[], dict[str, Histogram]]) -> None:
        """Add a function that returns further filters on collection."""
        self._sources.append(source)

    def _collect(self) -> dict[tuple[str, ...], Histogram]:
        passed = self._authentication.success.count
        found = {
            "authentication": _sum_of(self._authentication.results()),
            "authorization": _sum_of(self._authorization.results()),
            "audit": with_idle(self.audit, passed),
            self._impersonation_name: with_idle(self.impersonation, passed),
        }
        for source in self._sources:
            found |= source()
        return {(name,): one for name, one in found.items() if any(one.counts)}


def with_idle(worked: Histogram, requests: int) -> Histogram:
    """Return the durations of a filter for all requests; those for which it had nothing to do took no time."""
    found = Histogram(worked.bounds)
    found.add(worked.counts, worked.total)
    found.counts[0] += max(requests - sum(worked.counts), 0)
    return found


def _sum_of(results: dict[str, FastHistogram]) -> Histogram:
    found = Histogram(FILTER_BOUNDS)
    for one in results.values():
        added = one.histogram().with_bounds(FILTER_BOUNDS)
        found.add(added.counts, added.total)
    return found


def _register(
    registry: MetricRegistry, attempts: str, durations: str, results: Callable[[], dict[str, FastHistogram]]
) -> None:
    """Register counter and histogram of results; a result that never occurred has no sample."""

    def counts() -> dict[tuple[str, ...], float]:
        return {(name,): one.count for name, one in results().items() if one.count}

    def histograms() -> dict[tuple[str, ...], Histogram]:
        return {(name,): one.histogram().with_bounds(_BOUNDS) for name, one in results().items() if one.count}

    registry.counter(attempts, "result").set_collector(counts)
    registry.histogram(durations, "result", bounds=_BOUNDS).set_collector(histograms)
