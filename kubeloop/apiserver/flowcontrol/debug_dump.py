# SPDX-License-Identifier: Apache-2.0
"""`/debug/api_priority_and_fairness/*`: tables of priority levels, queues and requests, in upstream's text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from kubeloop.apiserver.flowcontrol.controller import FlowController
from kubeloop.apiserver.flowcontrol.priority_level import ESTIMATED_SERVICE_SECONDS, FairQueue, PriorityLevel
from kubeloop.apiserver.flowcontrol.request_flow import FlowSchemaCounters, Seat
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import PageNotFound
from kubeloop.apiserver.response.documents import TEXT
from kubeloop.clock import Clock
from kubeloop.http import Request, Response

_DETAILS_PARAMETER: Final = "includeRequestDetails"
_PRIORITY_LEVELS: Final = (
    *("PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests"),
    *("DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests"),
)
_QUEUES: Final = (
    *("PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR"),
    *("InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum"),
)
_REQUESTS: Final = (  # upstream misspells the distinguisher, too
    *("PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime"),
    *("InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"),
)
_DETAILS: Final = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
_NO_QUEUE: Final = -1
_NOT_STARTED: Final = "0001-01-01T00:00:00Z"
_NARROWEST: Final = 8  # columns
_WORK_DIGITS: Final = 8


def dump_response(control: FlowController, clock: Clock, request: Request) -> Response:
    """Return the table of a path under `/debug/api_priority_and_fairness`."""
    details = bool(Query(request.query).text(_DETAILS_PARAMETER))
    table = FlowControlDump(control, clock).table(request.path.rpartition("/")[2], with_details=details)
    if table is None:
        raise PageNotFound
    return Response(200, table.encode(), TEXT)


class FlowControlDump:
    """Tables of a flow controller's current state."""

    def __init__(self, control: FlowController, clock: Clock) -> None:
        self._control = control
        self._clock = clock

    def table(self, name: str, *, with_details: bool) -> str | None:
        """Return a table by upstream's name, None for an unknown one. Details are the requests' users and targets."""
        match name:
            case "dump_priority_levels":
                return _aligned(_PRIORITY_LEVELS, map(self._level_row, self._levels()))
            case "dump_queues":
                return _aligned(_QUEUES, self._queue_rows())
            case "dump_requests":
                columns = (*_REQUESTS, *_DETAILS) if with_details else _REQUESTS
                return _aligned(columns, (row[: len(columns)] for row in self._request_rows()))
        return None

    def _levels(self) -> list[PriorityLevel]:
        return [level for _, level in sorted(self._control.levels.items())]

    def _level_row(self, level: PriorityLevel) -> tuple[str, ...]:
        schemas = list(self._schemas_of(level))
        executing = sum(len(one.executing) for one in schemas) + sum(1 for _ in self._control.held_seats(level))
        timed_out = sum(one.rejected.get("time-out", 0) for one in schemas)
        numbers = (
            level.waiting,
            executing,
            sum(one.dispatched for one in schemas),
            sum(sum(one.rejected.values()) for one in schemas),
            0,  # upstream counts no request as timed out: those whose wait ended are cancelled
            timed_out,
        )
        is_idle = not executing and not level.waiting
        return (
            level.name,
            str(sum(bool(queue.requests) for queue in level.queues)),
            _text(is_idle),
            _text(self._control.is_quiescing(level)),
            *map(str, numbers),
        )

    def _schemas_of(self, level: PriorityLevel) -> Iterator[FlowSchemaCounters]:
        return (counts for (_, name), counts in self._control.counts.items() if name == level.name)

    def _queue_rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of all queues; what executes has left its queue."""
        for level in self._levels():
            for index, queue in enumerate(level.queues):
                seats = sum(one.seats for one in queue.requests)
                pending = str(len(queue.requests))
                sums = (str(seats), str(seats), _work(seats))
                yield level.name, str(index), pending, "0", "0", _work(queue.credit), *sums

    def _request_rows(self) -> Iterator[tuple[str, ...]]:
        for level in self._levels():
            for index, queue in enumerate(level.queues):
                yield from self._waiting_rows(index, queue)
            executing = [seat for counts in self._schemas_of(level) for seat in counts.executing]
            for seat in (*executing, *self._control.held_seats(level)):
                yield self._request_row(seat, _NO_QUEUE, _NO_QUEUE)

    def _waiting_rows(self, index: int, queue: FairQueue) -> Iterator[tuple[str, ...]]:
        for position, one in enumerate(queue.requests):
            if one.seat is not None:
                yield self._request_row(one.seat, index, position)

    def _request_row(self, seat: Seat, queue: int, position: int) -> tuple[str, ...]:
        flow, source = seat.flow, seat.source
        asked = flow.attributes
        request, name = (source, "") if isinstance(source, Request) else (source.request, source.target.name)
        started = _NOT_STARTED if queue != _NO_QUEUE else self._time(seat.started)
        version = f"{asked.group}/{asked.version}" if asked.group else asked.version
        return (
            *(flow.level.name, flow.schema, str(queue), str(position), flow.distinguisher),
            *(self._time(seat.arrived), str(seat.width), "0", "0s", started),
            *(asked.user.name, asked.verb, request.path, asked.namespace, name),
            *(version, asked.resource, asked.subresource),
        )

    def _time(self, moment: float | None) -> str:
        """Return a reading of the monotonic clock as UTC time; now for None."""
        now = self._clock.now()
        ago = self._clock.monotonic() - moment if moment is not None else 0.0
        return _rfc3339_nano(now - timedelta(seconds=ago))


def _rfc3339_nano(moment: datetime) -> str:
    """Return a time as Go's RFC3339Nano: with its fraction of a second, without trailing zeros."""
    moment = moment.astimezone(UTC)
    fraction = f"{moment.microsecond:06d}".rstrip("0")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{'.' if fraction else ''}{fraction}Z"


def _work(seats: float) -> str:
    """Return the work of requests in seat-seconds, by upstream's estimate of a request's duration."""
    return f"{seats * ESTIMATED_SERVICE_SECONDS:.{_WORK_DIGITS}f}ss"


def _text(value: bool) -> str:
    return "true" if value else "false"


def _aligned(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells end with a comma, except the last of a row, padded to the width of their column."""
    lines = [list(columns), *map(list, rows)]
    widths = [max(_NARROWEST, *(len(line[at]) + 2 for line in lines)) for at in range(len(columns) - 1)]
    return "".join(
        "".join(f"{cell},".ljust(width) for cell, width in zip(line, widths, strict=False)) + f"{line[-1]}\n"
        for line in lines
    )
