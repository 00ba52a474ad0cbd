# SPDX-License-Identifier: Apache-2.0
"""Faults of one process, as context managers that undo them at the end."""

from __future__ import annotations

import asyncio
import random
import resource
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kubeloop.chaos.checks.fault_timeline import Kind
from kubeloop.chaos.faults.clocks import ProcessClocks
from kubeloop.chaos.faults.partition import Network
from kubeloop.chaos.plan import ClockJump, CutWatches, DiskFull, FaultOccurrence, Partition, Pause
from kubeloop.chaos.processes import ManagedProcess

_REFUSES_WITHIN = 30.0
_LOOK_EVERY = 0.05
# Bytes to change: enough that no copy of what they belong to stays whole.
_FLIPS = 64


def kind_of(moment: FaultOccurrence, *, with_etcd: bool) -> Kind | None:
    """Return how dependents see a process during a fault; None if they are not affected."""
    fault = moment.fault
    if isinstance(fault, Pause | Partition):
        return "silent"
    if isinstance(fault, DiskFull) and moment.target.startswith("apiserver"):
        return None if with_etcd else "full"  # with etcd, an API server keeps nothing but its log
    return None if isinstance(fault, ClockJump | CutWatches) else "dead"


class GuaranteeViolated(Exception):
    """Fault that did not end as it should; the message has the reason."""


@asynccontextmanager
async def kill_process(process: ManagedProcess) -> AsyncIterator[None]:
    """Kill a process, and start it at the end."""
    await process.kill()
    yield
    await process.start()


@asynccontextmanager
async def suspend_process(process: ManagedProcess) -> AsyncIterator[None]:
    """Stop a process by SIGSTOP, and continue it at the end."""
    process.suspend()
    yield
    process.resume()


@asynccontextmanager
async def partition_process(network: Network, process: ManagedProcess) -> AsyncIterator[None]:
    """Disconnect a process from the network, and reconnect it at the end."""
    network.cut_off(process.name)
    yield
    network.join(process.name)


@asynccontextmanager
async def set_clock(clocks: ProcessClocks, process: ManagedProcess, seconds: float) -> AsyncIterator[None]:
    """Set a process's clock wrong, and right at the end."""
    clocks.set(process.name, seconds)
    yield
    clocks.set(process.name, 0)


@asynccontextmanager
async def fill_disk(process: ManagedProcess) -> AsyncIterator[None]:
    """Forbid a process to write files, by a limit on the file size; needs no disk of its own."""
    pid = process.pid
    if pid is not None:
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    if pid is not None and process.is_running:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    else:
        await process.start()


@asynccontextmanager
async def lose_data(
    process: ManagedProcess, folder: Path, replace: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Kill a process and delete its data; `replace` registers an empty member in its place."""
    await process.kill()
    shutil.rmtree(folder)
    yield
    await replace()
    await process.start("--initial-cluster-state=existing")


@asynccontextmanager
async def damage_store(process: ManagedProcess, path: Path, chance: random.Random) -> AsyncIterator[None]:
    """Damage a stopped server's store, check that it refuses to start, and repair it at the end."""
    await process.stop()
    kept = _damaged(path, chance)
    await process.start()
    try:
        await _refused(process, path)
        yield
    finally:
        await process.kill()
        kept.replace(path)
        await process.start()


async def _refused(process: ManagedProcess, path: Path) -> None:
    waited = 0.0
    while process.is_running and waited < _REFUSES_WITHIN:
        await asyncio.sleep(_LOOK_EVERY)
        waited += _LOOK_EVERY
    if process.is_running:
        raise GuaranteeViolated(f"{process.name} serves from {path.name}, which is corrupt")
    if path.name not in (said := process.log_tail(1)):
        raise GuaranteeViolated(f"{process.name} does not report that {path.name} is corrupt: {said}")


def _damaged(path: Path, chance: random.Random) -> Path:
    """Damage a file; returns the path of the intact copy."""
    kept = path.rename(path.with_suffix(".kept"))
    path.write_bytes(flip_bits(kept.read_bytes(), chance))
    return kept


def flip_bits(whole: bytes, chance: random.Random) -> bytes:
    """Return the bytes with bits of many bytes flipped, the first ones among them."""
    changed = bytearray(whole)
    for offset in (*range(min(16, len(changed))), *(chance.randrange(len(changed)) for _ in range(_FLIPS))):
        changed[offset] ^= 0xFF
    return bytes(changed)
