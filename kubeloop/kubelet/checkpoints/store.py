# SPDX-License-Identifier: Apache-2.0
"""Checkpoint manager: writes files atomically, and reads those with a checksum."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.kubelet.checkpoints.checksum import string_checksum


class CorruptCheckpoint(ValueError):
    """Raised for a checkpoint whose content cannot be read or does not have its checksum."""


class CheckpointStore:
    """Checkpoints in one folder. A write is complete or has not happened, whenever the process ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """Return the file of a checkpoint."""
        return self._folder / name

    def read(self, name: str) -> bytes | None:
        """Return the content of a checkpoint; None if there is none."""
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Replace a checkpoint."""
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=self._folder, prefix=f".{name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.path(name))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        """Remove a checkpoint."""
        self.path(name).unlink(missing_ok=True)


class _DataCheckpoint(msgspec.Struct):
    data: str = ""
    checksum: int = 0


def encode_data(data: Any) -> bytes:
    """Encode a checkpoint whose data is a string of JSON with a checksum of it."""
    text = msgspec.json.encode(data).decode()
    return msgspec.json.encode(_DataCheckpoint(text, string_checksum(text)))


def decode_data(content: bytes) -> Any:
    """Decode such a checkpoint. Raises `CorruptCheckpoint`."""
    try:
        found = msgspec.json.decode(content, type=_DataCheckpoint)
        if found.checksum != string_checksum(found.data):
            raise CorruptCheckpoint("checkpoint is corrupted")
        return msgspec.json.decode(found.data)
    except msgspec.MsgspecError as error:
        raise CorruptCheckpoint(str(error)) from None
