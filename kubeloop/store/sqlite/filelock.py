# SPDX-License-Identifier: Apache-2.0
"""Lock of the operating system for one process at a time."""

from __future__ import annotations

import fcntl
import os

from kubeloop.store.errors import StoreInUse


class FileLock:
    """Exclusive lock that ends with the process, however it ends. The file itself stays."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def acquire(self, what: str) -> None:
        """Take the lock or raise `StoreInUse` with the name of the data and the holder's PID."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StoreInUse(f"{what} is in use by another process (pid {holder})") from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
