"""One process at a time on one set of files, held to that by the operating system."""

from __future__ import annotations

import fcntl
import os

from kubeloop.store.errors import StoreInUse


class FileLock:
    """An exclusive lock that ends with the process, however it ends. The file itself stays."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def acquire(self, what: str) -> None:
        """Take the lock or raise `StoreInUse`, naming what is in use and by whom."""
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
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
