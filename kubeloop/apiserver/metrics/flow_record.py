# SPDX-License-Identifier: Apache-2.0
"""Samples of the plain requests in a flow: those that belong to one series, with the same outcome.

A request of this kind appends one sample. A batch of samples is added to the series of requests, of flow control and of
authentication at once: to each of them by a sum, in the usual case that all values are in its first bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kubeloop.api.kinds import Resource

if TYPE_CHECKING:
    from kubeloop.apiserver.flowcontrol.request_flow import RequestFlow
    from kubeloop.apiserver.metrics.filters import AuthenticationMetrics
    from kubeloop.apiserver.metrics.requests import RequestSeries

# Seconds of a request, seconds of its authentication, and bytes: of the response to a read, of the body of a write.
RequestSample: TypeAlias = tuple[float, float, int]


class FlowRecord:
    """Samples of plain requests in one flow, with one resource version and one status code."""

    __slots__ = ("code", "flow", "is_sized", "resource", "samples", "series", "username")

    def __init__(self, flow: RequestFlow, series: RequestSeries, resource: Resource, code: int) -> None:
        self.flow = flow
        self.series = series
        self.resource = resource
        self.code = code
        self.is_sized = series.is_sized
        self.username = flow.attributes.user.name
        self.samples: list[RequestSample] = []

    def end(self) -> None:
        """End the record; the next request of the flow begins another."""
        if self.flow.record is self:
            self.flow.record = None

    def fold(self, authentication: AuthenticationMetrics) -> None:
        """Add the samples to all series."""
        if not self.samples:
            return
        samples, self.samples = self.samples, []
        seconds, authentications, sizes = zip(*samples, strict=True)
        authentication.count_all(self.username, authentications)
        self.flow.counts.observe_all(seconds)
        self.series.observe_all(seconds)
        self.series.observe_sizes(sizes)
