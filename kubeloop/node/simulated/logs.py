"""The logs of simulated containers: what their commands would have written by now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.node_calls import LogOptions
from kubeloop.api.times import format_micro_time
from kubeloop.clock import Clock
from kubeloop.node.simulated.process import Process

Entry = tuple[datetime, str]
_LOOK_SECONDS = 1.0  # how often somebody who follows is told of what is new


async def log_of(process: Process, pod: Pod, options: LogOptions, clock: Clock) -> AsyncIterator[bytes]:
    """Whole lines; with `follow`, until the container ends."""
    entries = _entries(process, pod)
    shown = _first(written(entries, clock.now(), options), options.tail_lines)
    left = options.limit_bytes
    last = clock.now()
    while True:
        for entry in shown:
            line = _line(entry, options.timestamps)
            if left is not None:
                line, left = line[:left], left - len(line)
            yield line
            if left is not None and left <= 0:
                return
        if not options.follow or not process.is_alive(clock.now()):
            return
        await asyncio.sleep(_LOOK_SECONDS)
        now = clock.now()
        shown = [entry for entry in entries if last < entry[0] <= now]
        last = now


def written(entries: list[Entry], now: datetime, options: LogOptions) -> list[Entry]:
    """What has been written by now, as far back as is asked for."""
    return [one for one in entries if one[0] <= now and (options.since is None or one[0] >= options.since)]


def _first(entries: list[Entry], tail: int | None) -> list[Entry]:
    if tail is None:
        return entries
    return entries[-tail:] if tail > 0 else []


def _entries(process: Process, pod: Pod) -> list[Entry]:
    if process.lines:
        return [(process.starts_at + timedelta(seconds=at), text) for at, text in process.lines]
    meta, container = pod.metadata, process.container
    text = f"simulated container {container.name} of pod {meta.namespace}/{meta.name} runs {container.image}"
    return [(process.starts_at, text)]


def _line(entry: Entry, timestamps: bool) -> bytes:
    moment, text = entry
    stamp = f"{format_micro_time(moment)[:-1]}000Z " if timestamps else ""
    return f"{stamp}{text}\n".encode()
