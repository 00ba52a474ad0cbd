# SPDX-License-Identifier: Apache-2.0
"""Samples of the plain requests in a flow: those without a query, with the same outcome.

A request of this kind appends one sample. A batch of samples is added to the series of requests, of flow control and of
authentication at once: in the usual case, that all of them are in the first buckets, by a few sums.
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
    """Samples of plain requests in one flow, with one resource version and one status code.

    `limits` are the largest values of a sample in the first bucket of every histogram.
    """

    __slots__ = ("_limits", "code", "flow", "is_sized", "resource", "samples", "series", "username")

    def __init__(
        self,
        flow: RequestFlow,
        series: RequestSeries,
        resource: Resource,
        code: int,
        limits: tuple[float, float, float],
    ) -> None:
        self.flow = flow
        self.series = series
        self.resource = resource
        self.code = code
        self.is_sized = series.is_sized
        self.username = flow.attributes.user.name
        self.samples: list[RequestSample] = []
        self._limits = limits

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
        slowest, slowest_authentication, largest = self._limits
        if (
            max(seconds) <= slowest
            and min(seconds) > 0
            and max(authentications) <= slowest_authentication
            and max(sizes) <= largest
            and min(sizes) > 0
        ):
            self._add(authentication, len(samples), sum(seconds), (sum(authentications), sum(sizes)))
        else:
            for one in samples:
                self._observe(authentication, *one)

    def _add(self, authentication: AuthenticationMetrics, count: int, seconds: float, sums: tuple[float, int]) -> None:
        """Add sums of samples in the first buckets: seconds of requests; of their authentication, and bytes."""
        flow, series = self.flow, self.series
        flow.counts.fast += count
        flow.counts.fast_seconds += seconds
        authentication.add_fast(self.username, sums[0], count)
        series.fast += count
        series.seconds += seconds
        if series.is_sized:
            series.small += count
            series.size += sums[1]
        elif series.bodies is not None:
            series.bodies.counts[0] += count
            series.bodies.total += sums[1]

    def _observe(
        self, authentication: AuthenticationMetrics, seconds: float, authentication_seconds: float, size: int
    ) -> None:
        authentication.count(self.username, authentication_seconds)
        self.flow.counts.observe(seconds)
        series = self.series
        series.observe(seconds, 0.0)
        if series.is_sized:
            series.observe_size(size)
        elif series.bodies is not None and size:
            series.bodies.observe(size)
