# SPDX-License-Identifier: Apache-2.0
"""Wrong clocks per process, by libfaketime between a process and its C library.

So everything in the process sees the wrong time, including certificate checks within OpenSSL, and no code has to
support it. The monotonic clock stays right: only the wall clock is wrong, as on a machine whose clock was set.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_LIBRARIES = "/usr/lib", "/usr/lib64", "/usr/local/lib"
_PATTERN = "**/faketime/libfaketimeMT.so.1"


class FaketimeMissing(RuntimeError):
    """libfaketime is not available."""


class ProcessClocks:
    """Clocks of processes by name; right until one is set."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = _library()

    def environment(self, process: str) -> Mapping[str, str]:
        """Return the environment variables that a process must be started with."""
        self.set(process, 0)
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file(process)),
            "FAKETIME_CACHE_DURATION": "1",  # seconds until it is read again
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, process: str, seconds: float) -> None:
        """Set the offset of a process's clock in seconds."""
        new = self._file(process).with_suffix(".new")
        new.write_text(f"{seconds:+g}\n")
        new.rename(self._file(process))  # atomic for readers

    def _file(self, process: str) -> Path:
        return self._folder / f"{process}.clock"


def _library() -> Path:
    for folder in map(Path, _LIBRARIES):
        for found in folder.glob(_PATTERN):
            return found
    raise FaketimeMissing("clock faults need libfaketime: install Debian's package libfaketime")
