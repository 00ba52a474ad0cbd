# SPDX-License-Identifier: Apache-2.0
"""Whatever bytes come, in whatever pieces: nothing is raised, and every answer is a whole one."""

import asyncio
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.clock import SystemClock
from kubeloop.http import HttpHooks, HttpLimits, Request, Response
from kubeloop.http.connections import ServerState
from kubeloop.http.protocol import HttpServerConnection


class FakeTransport:
    """Accepts everything, and records the end."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def get_extra_info(self, _name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        assert not self.closed, "nothing may be written after the end"
        self.sent += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        return None

    resume_reading = pause_reading


async def handler(request: Request) -> Response:
    if request.path.startswith("/later"):
        await asyncio.sleep(0)
    return Response(200, request.body)


TOKENS = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /later HTTP/1.1\r\n",
        b"PATCH /a?b HTTP/1.0\r\n",
        b"Host: a\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: 99999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Connection: close\r\n",
        b"Connection: Upgrade\r\nUpgrade: x\r\n",
        b"Expect: 100-continue\r\n",
        b"\r\n",
        b"abc",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"\x00",
        b"\n",
        b" ",
    ]
)
WIRE = st.lists(st.one_of(TOKENS, st.binary(max_size=12)), max_size=25).map(b"".join)


async def run_connection(wire: bytes, cuts: list[int]) -> FakeTransport:
    limits = HttpLimits(head_bytes=200, body_bytes=50, pipelined=3)
    service = ServerState(handler, limits, HttpHooks(), SystemClock(), asyncio.get_running_loop())
    connection, transport = HttpServerConnection(service), FakeTransport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    edges = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    for start, end in itertools.pairwise(edges):
        if start != end:
            connection.data_received(wire[start:end])
        await asyncio.sleep(0)
    for _ in range(30):
        await asyncio.sleep(0)
    connection.check_timeouts(asyncio.get_running_loop().time() + 1000)
    connection.connection_lost(None)
    assert not service.tasks
    assert not service.connections
    return transport


def statuses(sent: bytes) -> list[int]:
    """The status of each answer; fails when something else than whole answers was sent."""
    found = []
    while sent:
        head, separator, sent = sent.partition(b"\r\n\r\n")
        assert separator
        assert head.startswith(b"HTTP/1.1 ")
        found.append(int(head.split()[1]))
        for line in head.split(b"\r\n"):
            if line.startswith(b"Content-Length: "):
                length = int(line[16:])
                assert len(sent) >= length
                sent = sent[length:]
    return found


@settings(max_examples=300, deadline=None)
@given(WIRE, st.lists(st.integers(0, 10_000), max_size=6))
def test_any_bytes_are_answered_or_dropped(wire: bytes, cuts: list[int]):
    transport = asyncio.run(run_connection(wire, cuts))
    found = statuses(transport.sent)
    assert set(found) <= {100, 200, 400, 408, 413, 417, 429, 431, 505}
    assert transport.closed
    refusals = [status for status in found if status >= 400]
    assert refusals == found[len(found) - len(refusals) :]
    assert len(refusals) <= 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["/", "/later"]), st.binary(max_size=20)), max_size=3),
    st.lists(st.integers(0, 999)),
)
def test_packet_boundaries_change_nothing(requests: list[tuple[str, bytes]], cuts: list[int]):
    head = "POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n"
    wire = b"".join(head.format(path, len(body)).encode() + body for path, body in requests)
    whole = asyncio.run(run_connection(wire, [])).sent
    pieces = asyncio.run(run_connection(wire, cuts)).sent
    assert _bodies(whole) == _bodies(pieces) == [body for _, body in requests]


def _bodies(sent: bytes) -> list[bytes]:
    bodies = []
    while sent:
        head, _, sent = sent.partition(b"\r\n\r\n")
        length = int(head.rpartition(b"Content-Length: ")[2])
        bodies.append(sent[:length])
        sent = sent[length:]
    return bodies
