# SPDX-License-Identifier: Apache-2.0
"""Logs of simulated containers: the output that their commands would have written by now."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kubelet_requests import PodLogOptions
from kubeloop.api.scalars.times import format_micro_time
from kubeloop.clock import Clock
from kubeloop.kubelet.simulated.process import LogEntry, SimulatedProcess


async def stream_log(process: SimulatedProcess, pod: Pod, options: PodLogOptions, clock: Clock) -> AsyncIterator[bytes]:
    """Yield the log in whole lines; with `follow`, until the container exits."""
    left = options.limit_bytes
    shown = _select_entries(process.log_entries(clock.now(), default_log_line(process, pod)), options)
    async for entry in _all(shown, process, pod, options.follow, clock):
        line = _line(entry, options.timestamps)
        if left is not None:
            line, left = line[:left], left - len(line)
        yield line
        if left is not None and left <= 0:
            return


async def _all(
    shown: list[LogEntry], process: SimulatedProcess, pod: Pod, follow: bool, clock: Clock
) -> AsyncIterator[LogEntry]:
    count = len(process.log_entries(clock.now(), default_log_line(process, pod)))
    for entry in shown:
        yield entry
    if follow:
        async for entry in follow_lines(count, process, pod, clock):
            yield entry


async def follow_lines(count: int, process: SimulatedProcess, pod: Pod, clock: Clock) -> AsyncIterator[LogEntry]:
    """Yield the lines after the first `count` as they are written, until the container exits."""
    while True:
        now = clock.now()
        written = process.log_entries(now, default_log_line(process, pod))
        for entry in written[count:]:
            yield entry
        count = max(count, len(written))
        if not process.is_alive(now):
            return
        await process.wait_change(now)


def default_log_line(process: SimulatedProcess, pod: Pod) -> str:
    """Return the log line of a container without any other output."""
    meta, container = pod.metadata, process.container
    return f"simulated container {container.name} of pod {meta.namespace}/{meta.name} runs {container.image}"


def _select_entries(entries: list[LogEntry], options: PodLogOptions) -> list[LogEntry]:
    """Return the entries selected by since and tailLines."""
    found = [one for one in entries if options.since is None or one[0] >= options.since]
    if options.tail_lines is None:
        return found
    return found[-options.tail_lines :] if options.tail_lines > 0 else []


def _line(entry: LogEntry, timestamps: bool) -> bytes:
    moment, text = entry
    stamp = f"{format_micro_time(moment)[:-1]}000Z " if timestamps else ""
    return f"{stamp}{text}\n".encode()
