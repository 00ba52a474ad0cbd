# SPDX-License-Identifier: Apache-2.0
"""Accumulated counts of the plain requests in a flow: fast, small, and with the same outcome.

A request of this kind changes one object. When metrics are read, its counts are added to the series of requests, of
flow control and of authentication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeloop.api.kinds import Resource

if TYPE_CHECKING:
    from kubeloop.apiserver.flowcontrol.request_flow import RequestFlow
    from kubeloop.apiserver.metrics.filters import AuthenticationMetrics
    from kubeloop.apiserver.metrics.requests import RequestSeries


class FlowRecord:
    """Counts of plain requests in one flow, with one resource version and one status code."""

    __slots__ = (
        *("authentication_seconds", "code", "count", "flow", "is_sized", "plain_size", "resource", "seconds"),
        *("series", "size", "username"),
    )

    def __init__(self, flow: RequestFlow, series: RequestSeries, resource: Resource, code: int) -> None:
        self.flow = flow
        self.series = series
        self.resource = resource
        self.code = code
        self.is_sized = series.is_sized
        self.plain_size = 0.0  # most bytes of what `size` counts
        self.username = flow.attributes.user.name
        self.count = 0
        self.seconds = 0.0
        self.authentication_seconds = 0.0
        self.size = 0  # bytes of responses to reads, of bodies of writes

    def fold(self, authentication: AuthenticationMetrics) -> None:
        """Add the counts to all series, and end the record."""
        flow, series, count = self.flow, self.series, self.count
        if flow.record is self:
            flow.record = None
        flow.counts.fast += count
        flow.counts.fast_seconds += self.seconds
        authentication.count(self.username, self.authentication_seconds, count)
        series.fast += count
        series.seconds += self.seconds
        if series.is_sized:
            series.small += count
            series.size += self.size
        elif series.bodies is not None and self.size:
            series.bodies.counts[0] += count
            series.bodies.total += self.size
