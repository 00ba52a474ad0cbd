# SPDX-License-Identifier: Apache-2.0
"""Latency of the layers of one audited request, as annotations of the audit event of a slow request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubeloop.api.scalars.duration import SECOND, format_duration

if TYPE_CHECKING:
    from kubeloop.apiserver.request.trace import RequestTrace

_PREFIX = "apiserver.latency.k8s.io/"


class LayerLatency:
    """Seconds that a request spent in layers of the server; the trace has those of the others."""

    __slots__ = ("authorization", "impersonation", "storage", "trace")

    def __init__(self) -> None:
        self.authorization = 0.0
        self.impersonation = 0.0
        self.storage = 0.0
        self.trace: RequestTrace | None = None  # set once the request is authenticated

    def annotations(self, total: float) -> dict[str, str]:
        """Return the annotations of a request that took this many seconds in total; none if no layer was measured."""
        found = {layer: round(seconds * SECOND) for layer, seconds in self._layers()}
        shown = {_PREFIX + layer: format_duration(nanoseconds) for layer, nanoseconds in found.items() if nanoseconds}
        return {**shown, f"{_PREFIX}total": format_duration(round(total * SECOND))} if shown else {}

    def _layers(self) -> Iterator[tuple[str, float]]:
        yield "authorization", self.authorization
        yield "impersonation", self.impersonation
        yield "etcd", self.storage
        if self.trace is None:
            return
        yield "authentication", self.trace.authentication_seconds
        if self.trace.ctx is not None and (latency := self.trace.ctx.latency) is not None:
            yield "mutating-webhook", latency.mutating_webhooks
            yield "validating-webhook", latency.validating_webhooks
            yield "apf-queue-wait", latency.queue
