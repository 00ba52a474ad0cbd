# SPDX-License-Identifier: Apache-2.0
"""Replaces the files of a volume all at once: readers see the old files or the new ones, never a mixture.

volume/..2026_11_18_01_02_03.1234/   files of this version
volume/..data ─▶ that folder         replaced by a rename
volume/name ─▶ ..data/name           one link for each first path segment
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

_DATA, _NEXT_DATA = "..data", "..data_tmp"
_LONGEST_PATH, _LONGEST_NAME = 4096, 255


class InvalidPathError(ValueError):
    """Raised for a path that is not within the volume."""


class FileContent(NamedTuple):
    """Content, mode and owner of a file; an owner of None is that of the kubelet."""

    data: bytes
    mode: int
    uid: int | None = None


def write_atomically(
    folder: Path,
    files: Mapping[str, FileContent],
    now: datetime,
    set_permissions: Callable[[], None] | None = None,
) -> bool:
    """Write the files of a volume, by relative path; returns False if they are there already.

    Files are compared by content alone: modes and owners of a pod's files never change. `set_permissions` is called
    before new files become visible. A crash at any step leaves a volume that the next call completes.
    Raises `InvalidPathError`.
    """
    files = {_clean(path): content for path, content in files.items()}
    folder.mkdir(mode=0o777, parents=True, exist_ok=True)
    target = _current(folder)
    is_changed = target is None or not _has_files(target, files)
    if target is None or is_changed:
        target = _new_folder(folder, now)
        for path, content in files.items():
            _write(target / path, content)
        if set_permissions is not None:
            set_permissions()
        next_link = folder / _NEXT_DATA
        next_link.unlink(missing_ok=True)
        next_link.symlink_to(target.name)
        os.replace(next_link, folder / _DATA)
    _link(folder, files)
    _remove_stale(folder, target, files)
    return is_changed


def _clean(path: str) -> str:
    segments = path.split("/")
    if not path or path.startswith("/"):
        raise InvalidPathError(f"invalid path: must be relative path: {path}")
    if len(path.encode()) > _LONGEST_PATH or any(len(one.encode()) > _LONGEST_NAME for one in segments):
        raise InvalidPathError(
            f"invalid path: must be at most {_LONGEST_PATH} characters with names of at most {_LONGEST_NAME}"
        )
    if ".." in segments or segments[0].startswith(".."):
        raise InvalidPathError(f"invalid path: must not contain or start with '..': {path}")
    return os.path.normpath(path)


def _current(folder: Path) -> Path | None:
    try:
        found = folder / os.readlink(folder / _DATA)
    except OSError:
        return None
    return found if found.is_dir() else None


def _has_files(current: Path, files: Mapping[str, FileContent]) -> bool:
    if {str(one.relative_to(current)) for one in current.rglob("*") if not one.is_dir()} != files.keys():
        return False
    for path, content in files.items():
        found = current / path
        try:
            if found.read_bytes() != content.data:
                return False
        except OSError:
            return False
    return True


def _new_folder(folder: Path, now: datetime) -> Path:
    base = now.strftime("..%Y_%m_%d_%H_%M_%S.")
    number = now.microsecond
    while True:
        target = folder / f"{base}{number}"
        try:
            target.mkdir(mode=0o755)
        except FileExistsError:  # of a version that was not completed
            number += 1
        else:
            target.chmod(0o755)
            return target


def _write(path: Path, content: FileContent) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, content.mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.data)
    if content.uid is not None:
        os.chown(path, content.uid, -1)
    path.chmod(content.mode)


def _link(folder: Path, files: Mapping[str, FileContent]) -> None:
    """Create the missing links; a folder in which another volume is mounted keeps its place."""
    for path, content in files.items():
        name = path.partition("/")[0]
        link = folder / name
        if not os.path.lexists(link):
            link.symlink_to(f"{_DATA}/{name}")
            if content.uid is not None:
                os.lchown(link, content.uid, -1)


def _remove_stale(folder: Path, target: Path, files: Mapping[str, FileContent]) -> None:
    """Remove links of files that are gone, and older versions."""
    kept = {path.partition("/")[0] for path in files} | {_DATA, target.name}
    for one in folder.iterdir():
        if one.name in kept:
            continue
        if one.is_symlink():
            one.unlink()
        elif one.name.startswith(".."):
            shutil.rmtree(one, ignore_errors=True)
