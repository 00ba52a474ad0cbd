# SPDX-License-Identifier: Apache-2.0
"""Health of the proxy: it is unhealthy if a change waits too long for its sync. Pages have upstream's form."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from kubeloop.api.generated.core_v1 import Node
from kubeloop.clock import Clock
from kubeloop.http import Request, Response
from kubeloop.proxy.metrics import ProxyMetrics

TO_BE_DELETED_TAINT: Final = "ToBeDeletedByClusterAutoscaler"
_ZERO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)
_HEADERS: Final = (("X-Content-Type-Options", "nosniff"),)
_TEXT: Final = "text/plain; charset=utf-8"


class ProxyHealth:
    """Times of syncs by IP family."""

    def __init__(self, clock: Clock, timeout_seconds: float) -> None:
        self._clock = clock
        self._timeout = timedelta(seconds=timeout_seconds)
        self._updated: dict[str, datetime] = {}
        self._queued: dict[str, datetime] = {}  # oldest change that no sync has followed

    def mark_updated(self, family: str) -> None:
        """Note that the family's table is up to date."""
        self._queued.pop(family, None)
        self._updated[family] = self._clock.now()

    def mark_queued(self, family: str) -> None:
        """Note that the family's table needs a sync."""
        self._queued.setdefault(family, self._clock.now())

    @property
    def has_synced(self) -> bool:
        """True once the table of a family was written."""
        return bool(self._updated)

    @property
    def is_healthy(self) -> bool:
        """True if no family's sync is late."""
        return not any(map(self._is_late, self._updated))

    def status(self) -> dict[str, Any]:
        """Return the status as a document, by family and in total."""
        families = {
            family: {"lastUpdated": _text(time), "healthy": not self._is_late(family)}
            for family, time in sorted(self._updated.items())
        }
        now = self._clock.now()
        latest = now if self.is_healthy else max(self._updated.values(), default=_ZERO_TIME)
        found = {"lastUpdated": _text(latest), "currentTime": _text(now), "healthy": self.is_healthy}
        return {**found, "status": families} if families else found

    def _is_late(self, family: str) -> bool:
        queued = self._queued.get(family)
        return queued is not None and self._clock.now() - queued >= self._timeout


class HealthzHandler:
    """Serves `/healthz`, which also fails on a node that is about to be deleted, and `/livez`."""

    def __init__(self, health: ProxyHealth, node: Callable[[], Node | None], metrics: ProxyMetrics) -> None:
        self._health = health
        self._node = node
        self._metrics = metrics

    async def handle(self, request: Request) -> Response:
        """Handle a request."""
        if request.path not in ("/healthz", "/livez"):
            return Response(404, b"404 page not found\n", _TEXT)
        document = self._health.status()
        is_ok = self._health.is_healthy
        if request.path == "/healthz":
            eligible = is_eligible(self._node())
            is_ok = is_ok and eligible
            document = _with_eligibility(document, eligible)
        status = 200 if is_ok else 503
        self._metrics.count_probe(request.path, status)
        return Response(status, msgspec.json.encode(document), "application/json", _HEADERS)


def is_eligible(node: Node | None) -> bool:
    """Return True if load balancers may use the node: it exists, and nothing is about to delete it."""
    if node is None or node.metadata.deletion_timestamp:
        return False
    return all(taint.key != TO_BE_DELETED_TAINT for taint in node.spec.taints)


def _with_eligibility(document: dict[str, Any], eligible: bool) -> dict[str, Any]:
    """Return the document with the field `nodeEligible` at upstream's place."""
    order = ("lastUpdated", "currentTime", "nodeEligible", "healthy", "status")
    complete = {**document, "nodeEligible": eligible}
    return {name: complete[name] for name in order if name in complete}


def _text(time: datetime) -> str:
    """Return a time as Go writes it in JSON."""
    text = time.isoformat().replace("+00:00", "Z")
    whole, point, fraction = text.removesuffix("Z").partition(".")
    return f"{whole}{point}{fraction.rstrip('0')}Z" if point else text
