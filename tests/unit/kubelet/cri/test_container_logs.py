# SPDX-License-Identifier: Apache-2.0
"""Logs in CRI's format: parts of lines, streams, limits, and rotation while they are followed."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubeloop.api.kubelet_requests import PodLogOptions
from kubeloop.kubelet.cri.container_logs import last_lines, read_log
from kubeloop.sim.loop import VirtualLoop, run_virtual

LINES = """2026-11-18T01:00:00.000000001Z stdout F one
2026-11-18T01:00:01.000000001Z stderr F two
2026-11-18T01:00:02.000000001Z stdout P thr
2026-11-18T01:00:02.000000002Z stdout P e
2026-11-18T01:00:02.000000003Z stdout F e
not a line
2026-11-18T01:00:03.000000001Z stdout F
2026-11-18T01:00:04.000000001Z stdout F:tag last
"""


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def read(path: Path, **options: object) -> bytes:
    async def collect() -> bytes:
        found = read_log(path, PodLogOptions(**options), lambda: False)  # type: ignore[arg-type]
        return b"".join([piece async for piece in found])

    return asyncio.run(collect())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "0.log").write_text(LINES)
    return tmp_path / "0.log"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, b"one\ntwo\nthree\n\nlast\n"),
        ({"stream": "Stderr"}, b"two\n"),
        ({"stream": "Stdout"}, b"one\nthree\n\nlast\n"),
        ({"stream": "All"}, b"one\ntwo\nthree\n\nlast\n"),
        ({"tail_lines": 0}, b""),
        ({"tail_lines": 1}, b"last\n"),
        ({"tail_lines": 100}, b"one\ntwo\nthree\n\nlast\n"),
        ({"limit_bytes": 6}, b"one\ntw"),
        ({"since": datetime(2026, 11, 18, 1, 0, 3, tzinfo=UTC)}, b"\nlast\n"),
        (
            {"timestamps": True, "limit_bytes": 109},
            b"2026-11-18T01:00:00.000000001Z one\n2026-11-18T01:00:01.000000001Z two\n"
            b"2026-11-18T01:00:02.000000001Z three\n20",
        ),
    ],
)
def test_selection(path: Path, options: dict[str, object], expected: bytes) -> None:
    assert read(path, **options) == expected


def test_an_incomplete_last_line_is_read(path: Path) -> None:
    with path.open("a") as file:
        file.write("2026-11-18T01:00:05.000000001Z stdout F cut")
    assert read(path) == b"one\ntwo\nthree\n\nlast\ncut\n"


def test_the_last_lines_within_a_number_of_bytes(path: Path) -> None:
    assert last_lines(path, 2, 2048) == "\nlast\n"
    assert last_lines(path, 80, 4) == "ast\n"


def test_a_followed_log_goes_on_across_rotations_until_the_container_ends(path: Path) -> None:
    async def scenario() -> None:
        running, got = True, bytearray()

        async def follow() -> None:
            async for piece in read_log(path, PodLogOptions(follow=True, tail_lines=0), lambda: running):
                got.extend(piece)

        task = asyncio.create_task(follow())
        await loop.advance(1)
        append(path, "2026-11-18T01:00:05Z stdout F five\n2026-11-18T01:00:05Z stdout F half")
        await loop.advance(1)
        assert got == b"five\n", "a line under construction is not read yet"
        os.rename(path, path.with_suffix(".old"))
        await loop.advance(1)
        append(path, "2026-11-18T01:00:06Z stdout F six\n")
        await loop.advance(1)
        assert got == b"five\nhalf\nsix\n"
        running = False
        await loop.advance(1)
        assert task.done()

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)
