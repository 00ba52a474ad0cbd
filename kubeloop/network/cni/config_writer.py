# SPDX-License-Identifier: Apache-2.0
"""Writes the CNI configuration atomically, and only if it has changed: runtimes watch its folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

CONFIG_NAME: Final = "10-kubeloop.conflist"


class ConfigWriter:
    """File of the CNI configuration."""

    def __init__(self, folder: Path, name: str = CONFIG_NAME) -> None:
        self._path = folder / name

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._path

    def write(self, content: bytes) -> bool:
        """Write the file if its content differs; returns True if it was written. Raises OSError."""
        try:
            if self._path.read_bytes() == content:
                return False
        except FileNotFoundError:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, content, 0o644)
        return True


def write_atomically(path: Path, content: bytes, mode: int) -> None:
    """Write a file so that readers see the old content or the new one, also after a crash. Raises OSError."""
    temporary = path.with_name(f".{path.name}.tmp")  # runtimes ignore names without a known extension
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        os.fchmod(descriptor, mode)
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
