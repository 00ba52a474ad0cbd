# SPDX-License-Identifier: Apache-2.0
"""Paths within volumes (subPath), bound so that a container cannot redirect them by symbolic links.

The path is resolved once, opened segment by segment without following links, and the open file is bind-mounted to a
folder of the kubelet. What the container renames afterwards changes nothing.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kubeloop.kubelet.volumes.host.mounts import bind_mount, is_mount_point, remove_tree, unmount, unmount_all


class SubPathError(Exception):
    """Raised for a path that leaves its volume, or cannot be bound."""


def make_folder(volume: Path, sub_path: str) -> None:
    """Create a missing folder within a volume, with the volume's mode. Raises `SubPathError`.

    Links that are there already are followed within the volume.
    """
    mode, segments = stat.S_IMODE(volume.stat().st_mode), _segments(sub_path)
    existing, missing = volume, list(segments)
    while missing and (existing / missing[0]).exists():
        existing /= missing.pop(0)
    at = _open_within(volume, existing)
    try:
        for segment in missing:
            os.mkdir(segment, mode, dir_fd=at)
            below = os.open(segment, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
            os.fchmod(at, mode)  # of the folder that was opened, whatever has its name by now
    except OSError as error:
        raise SubPathError(str(error)) from None
    finally:
        os.close(at)


def bind(volume: Path, sub_path: str, target: Path) -> Path:
    """Bind a path within a volume to a target and return that; may be repeated. Raises `SubPathError`.

    A target that was bound to another file is bound again.
    """
    _segments(sub_path)
    descriptor = _open_within(volume, volume / sub_path)
    try:
        if is_mount_point(target):
            if os.path.samestat(os.fstat(descriptor), os.lstat(target)):
                return target
            unmount(target, is_lazy=True)
        target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            target.mkdir(mode=0o750, exist_ok=True)
        else:
            target.touch(mode=0o640)
        bind_mount(Path(f"/proc/self/fd/{descriptor}"), target)
    except OSError as error:
        raise SubPathError(str(error)) from None
    finally:
        os.close(descriptor)
    return target


def release(folder: Path) -> bool:
    """Unmount and remove everything that was bound below a folder; returns False if something is still mounted."""
    unmount_all(folder)
    return remove_tree(folder)


def _open_within(volume: Path, path: Path) -> int:
    """Open a path whose links lead to a place within the volume. Raises `SubPathError`."""
    root, real = Path(os.path.realpath(volume)), Path(os.path.realpath(path))
    if real != root and root not in real.parents:
        raise SubPathError(f"{path} not within volume path {volume}")
    return _open_below(root, str(real.relative_to(root)))


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
