# SPDX-License-Identifier: Apache-2.0
"""Registry of the clusters on this machine: a folder of records, each locked by the process that runs its cluster.

The lock, not the content, tells whether a cluster runs: it ends with the process, however that ends. The process of a
cluster holds an exclusive lock. A reader takes a shared one for a moment, which a process that starts waits for.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from kubeloop.cli.program.files import write_private
from kubeloop.clock import SystemClock

DEFAULT_NAME: Final = "kubeloop"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_DETAILS: Final = "cluster.json"
_READER_SECONDS: Final = 5.0  # a reader holds its lock for microseconds, unless it is paused


class ClusterError(Exception):
    """Cluster that cannot be started, found or stopped; the message is one sentence for a user."""


class KubeconfigEntry(msgspec.Struct, frozen=True):
    """Context that a cluster has in a kubeconfig."""

    file: str
    context: str


class ClusterRecord(msgspec.Struct, frozen=True, rename="camel"):
    """Record of a running cluster, written by its process."""

    name: str
    pid: int
    version: str = ""
    started: str = ""  # RFC 3339; empty until it is ready
    server: str = ""  # URL
    kubeconfig: str = ""
    data_dir: str = ""  # empty if all state is in memory
    log: str = ""  # file, if it runs in the background
    ports: dict[str, int] = {}
    real_node: str = ""  # name of the node that runs containers on this host
    runtime: str = ""  # endpoint of its container runtime
    network_port: int = 0  # of loopback, with the health of its network; 0 if the host's is left alone

    @property
    def is_ready(self) -> bool:
        """True once the cluster serves."""
        return bool(self.started)


def state_dir() -> Path:
    """Return the folder of all clusters by the XDG convention."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "kubeloop"


def valid_name(text: str) -> str:
    """Return a valid name, or raise ClusterError."""
    if not _NAME.fullmatch(text):
        raise ClusterError(
            f"{text!r} is not a name: use lower case letters, digits, '-' and '.', at most 63 characters"
        )
    return text


class ClusterLock:
    """Name of a cluster, held by this process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self.name = path.stem

    def publish(self, record: ClusterRecord) -> None:
        """Replace the record; in place, as the lock belongs to the file."""
        content = msgspec.json.encode(record)
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))

    def release(self) -> None:
        """Remove the record and release the name."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


class ClusterRegistry:
    """Clusters below one folder."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or state_dir()
        self._run = self._root / "run"

    def data_dir(self, name: str) -> Path:
        """Return the data folder of a cluster that has no other."""
        return self._root / "clusters" / name

    def log_file(self, name: str) -> Path:
        """Return the log of a cluster in the background."""
        return self._run / f"{name}.log"

    def claim(self, name: str) -> ClusterLock:
        """Take a name for this process; without one, the first that is free. Raises ClusterError if it is taken."""
        self._run.mkdir(mode=0o700, parents=True, exist_ok=True)
        if name:
            found = self._try_claim(valid_name(name))
            if found is None:
                raise ClusterError(f"cluster {name!r} is running already: see 'kubeloop status'")
            return found
        candidates = (DEFAULT_NAME if number == 1 else f"{DEFAULT_NAME}-{number}" for number in count(1))
        return next(lock for one in candidates if (lock := self._try_claim(one)) is not None)

    @contextmanager
    def reserved(self, name: str) -> Iterator[str]:
        """Hold a name, or without one the first that is free, for another process to claim afterwards."""
        lock = self.claim(name)
        try:
            yield lock.name
        finally:
            lock.release()

    def running(self) -> list[ClusterRecord]:
        """Return the records of running clusters by name, without those of processes that were killed."""
        return [one for path in sorted(self._run.glob("*.json")) if (one := self._running_record(path)) is not None]

    def find(self, name: str) -> ClusterRecord | None:
        """Return the record of a running cluster."""
        return self._running_record(self._run / f"{name}.json")

    def stored(self) -> list[str]:
        """Return the names of clusters with data, running or not."""
        return sorted(path.parent.name for path in (self._root / "clusters").glob("*/store.db"))

    def kubeconfig_entry(self, name: str) -> KubeconfigEntry | None:
        """Return the context of a cluster with data in a kubeconfig of the user."""
        try:
            return msgspec.json.decode((self.data_dir(name) / _DETAILS).read_bytes(), type=KubeconfigEntry)
        except (OSError, msgspec.DecodeError):
            return None

    def save_kubeconfig_entry(self, name: str, entry: KubeconfigEntry) -> None:
        """Save the context, which is removed with the cluster."""
        write_private(self.data_dir(name) / _DETAILS, msgspec.json.encode(entry))

    def remove_data(self, name: str) -> bool:
        """Remove the data and the log of a cluster; returns True if there were any."""
        folder = self.data_dir(name)
        self.log_file(name).unlink(missing_ok=True)
        if (self._run / f"{name}.json").exists() and (stale := self._try_claim(name)) is not None:
            stale.release()  # of a process that was killed
        if not folder.is_dir():
            return False
        shutil.rmtree(folder)
        return True

    def _try_claim(self, name: str) -> ClusterLock | None:
        """Return the lock of a name, or None if another process holds it; waits for readers."""
        path, clock = self._run / f"{name}.json", SystemClock()
        give_up = clock.monotonic() + _READER_SECONDS
        while clock.monotonic() < give_up:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _try_lock(descriptor, fcntl.LOCK_EX) and os.fstat(descriptor).st_nlink:
                lock = ClusterLock(path, descriptor)
                lock.publish(ClusterRecord(name, os.getpid()))
                return lock
            # A file without a name was removed by its last owner between the two calls.
            is_held = os.fstat(descriptor).st_nlink > 0 and not _try_lock(descriptor, fcntl.LOCK_SH)
            os.close(descriptor)
            if is_held:
                return None
        return None

    def _running_record(self, path: Path) -> ClusterRecord | None:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if _try_lock(descriptor, fcntl.LOCK_SH):  # its process was killed; the next one takes the file over
                return None
            content = os.pread(descriptor, 1 << 16, 0)
        finally:
            os.close(descriptor)
        try:
            return msgspec.json.decode(content, type=ClusterRecord)
        except msgspec.DecodeError:  # it is being written
            return ClusterRecord(path.stem, 0)


def _try_lock(descriptor: int, kind: int) -> bool:
    """Take a lock of a file, exclusive or shared; returns False if another process has one that forbids it."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
