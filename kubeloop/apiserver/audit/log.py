# SPDX-License-Identifier: Apache-2.0
"""Audit log file: one JSON line per event, with rotation by size."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kubeloop.clock import Clock

_MEGABYTE = 1 << 20
_DEFAULT_MEGABYTES = 100
_STAMP = "%Y-%m-%dT%H-%M-%S.%f"


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Rotation limits: size, number and age of old files; 0 means default size, all files, no age limit."""

    megabytes: int = 0
    backups: int = 0
    days: int = 0


class AuditLog:
    """Audit log that writes each line immediately, before the client receives the response."""

    def __init__(self, path: str, limits: LogLimits, clock: Clock) -> None:
        self._path = Path(path)
        self._limits = limits
        self._clock = clock
        self._standard = path == "-"
        self._file = sys.stdout.fileno() if self._standard else self._open()
        self._size = 0 if self._standard else os.fstat(self._file).st_size

    def write(self, line: bytes) -> None:
        """Append a complete line; rotate first if the file would become too large."""
        limit = (self._limits.megabytes or _DEFAULT_MEGABYTES) * _MEGABYTE
        if not self._standard and self._size and self._size + len(line) > limit:
            self._rotate()
        self._size += len(line)
        while line:
            line = line[os.write(self._file, line) :]

    def close(self) -> None:
        """Close the file."""
        if not self._standard:
            os.close(self._file)

    def _open(self) -> int:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _rotate(self) -> None:
        os.close(self._file)
        stamp = self._clock.now().strftime(_STAMP)[:-3]
        os.rename(self._path, self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}"))
        self._file = self._open()
        self._size = 0
        self._delete_old()

    def _delete_old(self) -> None:
        limits = self._limits
        aside = sorted(self._rotated_files(), reverse=True)
        oldest = self._clock.now() - timedelta(days=limits.days)
        for index, (moment, path) in enumerate(aside):
            if (limits.backups and index >= limits.backups) or (limits.days and moment < oldest):
                path.unlink(missing_ok=True)

    def _rotated_files(self) -> list[tuple[datetime, Path]]:
        """Return the rotated files with their times."""
        found = []
        prefix, suffix = f"{self._path.stem}-", self._path.suffix
        for path in self._path.parent.iterdir():
            if path.name.startswith(prefix) and path.name.endswith(suffix):
                stamp = path.name[len(prefix) : len(path.name) - len(suffix)]
                try:
                    found.append((datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC), path))
                except ValueError:
                    continue  # not a file of this log
        return found
