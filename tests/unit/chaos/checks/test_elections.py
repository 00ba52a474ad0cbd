# SPDX-License-Identifier: Apache-2.0
"""Tests of recorded lease renewals with their times, and of missed ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubeloop.api import errors
from kubeloop.api.generated.coordination_v1 import Lease, LeaseSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.requests import Call, ListResult, WatchEvent
from kubeloop.api.scalars.times import format_micro_time
from kubeloop.api.scalars.wire import MicroTime
from kubeloop.chaos.checks.elections import ElectionWatcher
from kubeloop.chaos.checks.leadership import LeaseWrite
from kubeloop.chaos.load import failure_of
from kubeloop.client.errors import CallTimeout, ConnectionLost, ProtocolError, TlsError
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)  # of virtual time
MANAGER = "kube-controller-manager"


class Server:
    """Answers a list with what is there, and a watch with what it was given, piece by piece."""

    def __init__(self) -> None:
        self.present: list[Lease] = []
        self.watches: list[list[Lease | Exception]] = []

    async def call(self, call: Call) -> Any:
        return ListResult(items=tuple(self.present), resource_version="100")

    async def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        for piece in self.watches.pop(0) if self.watches else ():
            if isinstance(piece, Exception):
                raise piece
            yield [WatchEvent("MODIFIED", piece, piece.metadata.resource_version)]
        await asyncio.get_running_loop().create_future()


def lease(revision: int, written: float, holder: str = "one", name: str = MANAGER) -> Lease:
    """Renewed so many seconds after the beginning of virtual time."""
    renewed = MicroTime(format_micro_time(BEGINNING + timedelta(seconds=written)))
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=4, renew_time=renewed)
    return Lease(metadata=ObjectMeta(name=name, resource_version=str(revision)), spec=spec)


def seen(first: list[Lease], later: list[Lease], *watches: list[Lease | Exception]) -> list[LeaseWrite]:
    """Return the recorded renewals of scripted lists and watches."""
    loop = VirtualLoop()

    async def scenario() -> list[LeaseWrite]:
        server = Server()
        watcher = ElectionWatcher(server, VirtualClock(loop), [600.0])  # type: ignore[arg-type]
        server.present, server.watches = first, list(watches)
        await watcher.begin()
        server.present = later
        watching = asyncio.ensure_future(watcher.watch())
        await loop.advance(1)
        watching.cancel()
        return watcher.renewals[MANAGER]

    return run_virtual(scenario(), loop=loop)


def test_renewals_are_recorded_once_in_order() -> None:
    one, other, two = lease(5, -0.5), lease(6, 0, name="apiserver-abc"), lease(7, -0.25, "")
    found = seen([one], [], [one, other, two])
    assert [(renewal.revision, renewal.holder, renewal.written) for renewal in found] == [
        (5, "one", -0.5),
        (7, "", -0.25),
    ]


def test_renewal_time_of_a_skewed_clock_is_corrected() -> None:
    (found,) = seen([], [], [lease(5, 600 - 0.5)])
    assert found.written == -0.5


def test_broken_watch_is_resumed() -> None:
    found = seen([], [], [lease(5, -1), ConnectionLost("the server closed the connection")], [lease(8, -0.5)])
    assert [(renewal.revision, renewal.is_next) for renewal in found] == [(5, True), (8, True)]


def test_history_lost_to_compaction_is_marked() -> None:
    found = seen([], [lease(11, -0.5)], [lease(5, -1), errors.expired()], [lease(12, 0)])
    assert [(renewal.revision, renewal.is_next) for renewal in found] == [(5, True), (11, False), (12, True)]


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (None, ""),
        (errors.not_found("", "configmaps", "a"), ""),
        (errors.conflict("", "configmaps", "a"), ""),
        (errors.already_exists("", "configmaps", "a"), ""),
        (ConnectionLost("gone"), "broken"),
        (TlsError("gone in the handshake"), "broken"),
        (CallTimeout("no answer"), "late"),
        (TimeoutError(), "late"),
        (errors.service_unavailable("etcd does not answer"), "refused"),
        (errors.generic_server_response(401, "Unauthorized", 0), "refused"),
        (ProtocolError("no HTTP"), "refused"),
    ],
)
def test_failures_are_classified(error: Exception | None, failure: str) -> None:
    assert failure_of(error) == failure
