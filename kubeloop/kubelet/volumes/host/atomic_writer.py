# SPDX-License-Identifier: Apache-2.0
"""Replaces the files of a volume all at once: readers see the old files or the new ones, never a mixture.

volume/..2026_11_18_01_02_03.1234/   files of this version
volume/..data ─▶ that folder         replaced by a rename
volume/name ─▶ ..data/name           one link for each first path segment
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

_DATA, _NEXT_DATA = "..data", "..data_tmp"


class FileContent(NamedTuple):
    """Content, mode and owner of a file; an owner of None is that of the kubelet."""

    data: bytes
    mode: int
    uid: int | None = None


def write_atomically(folder: Path, files: Mapping[str, FileContent], now: datetime) -> bool:
    """Write the files of a volume, by relative path; returns False if they are there already.

    A crash at any step leaves a volume that the next call completes.
    """
    folder.mkdir(mode=0o777, parents=True, exist_ok=True)
    current = _current(folder)
    if current is not None and _has_files(current, files):
        _link(folder, files)
        return False
    target = _new_folder(folder, now)
    for path, content in files.items():
        _write(target / path, content)
    next_link = folder / _NEXT_DATA
    next_link.unlink(missing_ok=True)
    next_link.symlink_to(target.name)
    os.replace(next_link, folder / _DATA)
    _link(folder, files)
    _remove_stale(folder, target, files)
    return True


def _current(folder: Path) -> Path | None:
    try:
        return folder / os.readlink(folder / _DATA)
    except OSError:
        return None


def _has_files(current: Path, files: Mapping[str, FileContent]) -> bool:
    if {str(one.relative_to(current)) for one in current.rglob("*") if not one.is_dir()} != files.keys():
        return False
    for path, content in files.items():
        found = current / path
        try:
            if found.read_bytes() != content.data or found.stat().st_mode & 0o7777 != content.mode:
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
    path.write_bytes(content.data)
    if content.uid is not None:
        os.chown(path, content.uid, -1)
    path.chmod(content.mode)


def _link(folder: Path, files: Mapping[str, FileContent]) -> None:
    for name in {path.partition("/")[0] for path in files}:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"{_DATA}/{name}")


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
