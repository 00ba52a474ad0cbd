# SPDX-License-Identifier: Apache-2.0
"""Paths within volumes (subPath), bound so that a container cannot redirect them by symbolic links.

The path is resolved once, opened segment by segment without following links, and the open file is bind-mounted to a
folder of the kubelet. What the container renames afterwards changes nothing.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path


class SubPathError(Exception):
    """Raised for a path that leaves its volume, or cannot be bound."""


def make_folder(volume: Path, sub_path: str) -> None:
    """Create a missing folder within a volume, with the volume's mode. Raises `SubPathError`."""
    mode = stat.S_IMODE(volume.stat().st_mode)
    at = os.open(volume, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for segment in _segments(sub_path):
            try:
                os.mkdir(segment, mode, dir_fd=at)
                os.chmod(segment, mode, dir_fd=at)
            except FileExistsError:
                pass
            below = _open(at, segment)
            os.close(at)
            at = below
    except OSError as error:
        raise SubPathError(str(error)) from None
    finally:
        os.close(at)


def bind(volume: Path, sub_path: str, target: Path) -> Path:
    """Bind a path within a volume to a target and return that; may be repeated. Raises `SubPathError`."""
    if os.path.ismount(target):
        return target
    real = Path(os.path.realpath(volume / sub_path))
    root = Path(os.path.realpath(volume))
    if real != root and root not in real.parents:
        raise SubPathError(f"subpath {sub_path} not within volume path")
    descriptor = _open_below(root, str(real.relative_to(root)))
    try:
        target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            target.mkdir(mode=0o750, exist_ok=True)
        else:
            target.touch(mode=0o640)
        command = ["mount", "--no-canonicalize", "--bind", f"/proc/self/fd/{descriptor}", str(target)]
        done = subprocess.run(command, pass_fds=(descriptor,), capture_output=True, text=True, check=False)
    finally:
        os.close(descriptor)
    if done.returncode:
        raise SubPathError(done.stderr.strip())
    return target


def release(folder: Path) -> None:
    """Unmount and remove everything that was bound below a folder."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if os.path.ismount(path):
            subprocess.run(["umount", str(path)], capture_output=True, check=False)
    if not any(map(os.path.ismount, folder.rglob("*"))):  # never remove the contents of a volume
        shutil.rmtree(folder, ignore_errors=True)


def _open_below(root: Path, relative: str) -> int:
    at = os.open(root, os.O_PATH | os.O_CLOEXEC)
    try:
        for segment in _segments(relative):
            below = _open(at, segment)
            os.close(at)
            at = below
    except OSError as error:
        os.close(at)
        raise SubPathError(str(error)) from None
    return at


def _open(at: int, segment: str) -> int:
    descriptor = os.open(segment, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SubPathError(f"unexpected symbolic link {segment}")
    return descriptor


def _segments(path: str) -> list[str]:
    found = [one for one in path.split("/") if one not in ("", ".")]
    if ".." in found:
        raise SubPathError("must not contain '..'")
    return found
