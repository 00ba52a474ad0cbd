# SPDX-License-Identifier: Apache-2.0
"""Frees addresses of host-local whose sandbox no longer exists.

host-local keeps a file per address, with the sandbox's ID. A node that loses power, or a runtime that is removed with
its state, leaves files behind. A file is removed only if all of this is true: the runtime has listed its sandboxes
twice in a row without this ID, the file is older than ten minutes, and its content is the same under host-local's lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from kubeloop.api.addresses import parse_ip
from kubeloop.clock import Clock

MIN_AGE_SECONDS: Final = 600.0  # longer than a runtime takes from the address to the listed sandbox

ListSandboxes = Callable[[], Awaitable[frozenset[str]]]


class AddressFile(NamedTuple):
    """Reservation of an address."""

    name: str  # the address, with `_` in place of `:` on some systems
    sandbox: str
    modified: float  # seconds since 1970


class LeakedAddressCollector:
    """Removes leaked reservations of one network."""

    def __init__(self, folder: Path, list_sandboxes: ListSandboxes, clock: Clock) -> None:
        self._folder = folder
        self._list_sandboxes = list_sandboxes
        self._clock = clock
        self._suspects: frozenset[str] = frozenset()  # IDs that the last listing did not have

    async def collect(self) -> list[str]:
        """Remove what is leaked, and return the addresses. Errors of the listing are the caller's."""
        before = list(read_reservations(self._folder))
        sandboxes = await self._list_sandboxes()
        missing = frozenset(one.sandbox for one in before) - sandboxes
        confirmed, self._suspects = missing & self._suspects, missing
        oldest = self._clock.now().timestamp() - MIN_AGE_SECONDS
        leaked = [one for one in before if one.sandbox in confirmed and one.modified < oldest]
        return self._remove(leaked) if leaked else []

    def _remove(self, leaked: list[AddressFile]) -> list[str]:
        removed = []
        with _locked(self._folder) as has_lock:
            present = {one.name: one for one in read_reservations(self._folder)} if has_lock else {}
            for one in leaked:
                if present.get(one.name) == one:
                    with suppress(FileNotFoundError):
                        (self._folder / one.name).unlink()
                        removed.append(one.name)
        return removed


def read_reservations(folder: Path) -> Iterator[AddressFile]:
    """Yield the reservations of a network; files that are none are left out."""
    with suppress(FileNotFoundError):
        for path in sorted(folder.iterdir()):
            if parse_ip(path.name.replace("_", ":")) is None:
                continue
            with suppress(OSError, UnicodeDecodeError):
                sandbox = path.read_text().partition("\n")[0].strip()
                if sandbox:
                    yield AddressFile(path.name, sandbox, path.stat().st_mtime)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold host-local's lock; False if another process holds it now."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
