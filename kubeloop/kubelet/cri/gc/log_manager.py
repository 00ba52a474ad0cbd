# SPDX-License-Identifier: Apache-2.0
"""Rotates the logs of running containers by size, and compresses older ones, as upstream's container log manager."""

from __future__ import annotations

import asyncio
import gzip
import logging
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from kubeloop.clock import Clock
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.messages.container import Container, ContainerState, ContainerStatusResponse

MONITOR_SECONDS = 10.0
_COMPRESSED, _TEMPORARY = ".gz", ".tmp"
_TIME_FORMAT = "%Y%m%d-%H%M%S"

log = logging.getLogger(__name__)


class LogRotationPolicy(NamedTuple):
    """Size from which a log is rotated, number of files of one container, the present one included, and interval."""

    max_size: int = 10 << 20
    max_files: int = 5
    monitor_seconds: float = MONITOR_SECONDS


class LogService(Protocol):
    """Calls of `kubeloop.kubelet.cri.services.RuntimeService` for logs."""

    async def list_containers(self, labels: Mapping[str, str], sandbox: str = "") -> tuple[Container, ...]:
        """Return the containers with these labels."""

    async def container_status(self, id: str, *, verbose: bool = False) -> ContainerStatusResponse:
        """Return the state of a container."""

    async def reopen_container_log(self, id: str) -> None:
        """Open the log of a container again, after its file was renamed."""


class ContainerLogManager:
    """Logs of the containers of one node."""

    def __init__(self, runtime: LogService, clock: Clock, policy: LogRotationPolicy) -> None:
        self._runtime = runtime
        self._clock = clock
        self._policy = policy

    async def run(self) -> None:
        """Rotate forever."""
        while True:
            try:
                await self.rotate_logs()
            except RpcError as error:
                log.warning("logs could not be rotated: %s", error.format())
            await asyncio.sleep(self._policy.monitor_seconds)

    async def rotate_logs(self) -> None:
        """Rotate the logs that are too large. Raises `RpcError` if containers cannot be listed."""
        for one in await self._runtime.list_containers({}):
            if one.state != ContainerState.RUNNING:
                continue
            try:
                await self._rotate_if_large(one.id)
            except (RpcError, OSError) as error:
                log.warning("the log of container %s could not be rotated: %s", one.id, error)

    async def _rotate_if_large(self, id: str) -> None:
        status = (await self._runtime.container_status(id)).status
        if status is None or not status.log_path:
            return
        path = Path(status.log_path)
        if (size := _size(path)) is None:  # a rotation was interrupted
            await self._runtime.reopen_container_log(id)
            return
        if size < self._policy.max_size:
            return
        rotated = _remove_unused(path.parent.glob(f"{path.name}.*"))
        kept = _remove_excess(rotated, max(self._policy.max_files - 2, 0))
        for file in kept:
            if file.suffix != _COMPRESSED:
                await asyncio.to_thread(_compress, file)
        await self._rotate_latest(id, path)

    async def _rotate_latest(self, id: str, path: Path) -> None:
        """Rename the log and let the runtime open a new one; readers can finish the old one."""
        rotated = path.with_name(f"{path.name}.{self._clock.now().strftime(_TIME_FORMAT)}")
        _rename(path, rotated)
        try:
            await self._runtime.reopen_container_log(id)
        except RpcError:
            _rename(rotated, path)  # the next round tries again
            raise


def remove_logs(path: Path) -> None:
    """Remove a log and the files that were rotated from it."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink(missing_ok=True)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _rename(old: Path, new: Path) -> None:
    old.rename(new)


def _remove_unused(files: Iterable[Path]) -> list[Path]:
    """Remove what an interrupted rotation has left; return the other files."""
    found = set(files)
    unused = {
        file
        for file in found
        if file.suffix == _TEMPORARY
        or (file.suffix != _COMPRESSED and file.with_name(file.name + _COMPRESSED) in found)
    }
    for file in unused:
        file.unlink()
    return sorted(found - unused)


def _remove_excess(files: list[Path], most: int) -> list[Path]:
    """Remove the oldest files; return the others."""
    excess = max(len(files) - most, 0)
    for file in files[:excess]:
        file.unlink()
    return files[excess:]


def _compress(file: Path) -> None:
    temporary = file.with_name(file.name + _TEMPORARY)
    try:
        with file.open("rb") as source, gzip.open(temporary, "wb") as target:
            shutil.copyfileobj(source, target)
        temporary.chmod(file.stat().st_mode & 0o777)
        temporary.rename(file.with_name(file.name + _COMPRESSED))
    finally:
        temporary.unlink(missing_ok=True)
    file.unlink()
