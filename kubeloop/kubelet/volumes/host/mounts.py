# SPDX-License-Identifier: Apache-2.0
"""Mount points of the machine: tmpfs mounts, unmounts, and removal of folders that never removes mounted data.

Mount points are read from the kernel's table: a bind mount within one file system looks like any other folder. Common
mounts are system calls: starting the program `mount` takes longer than all other work on a volume.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_DEVICE, _MOUNT_POINT = 2, 4  # positions of the device numbers and the mount point in a line of the table
_ESCAPE = re.compile(r"\\([0-7]{3})")
_MS_BIND, _MNT_DETACH = 4096, 2  # flags of mount(2) and umount2(2)


class MountError(OSError):
    """Raised if the machine refuses to mount."""


def mount_points(folder: Path) -> list[Path]:
    """Return the mount points at or below a folder, each as often as it is mounted, the latest first."""
    root = os.path.realpath(folder)
    below = f"{root}/"
    found = (_unescape(line.split(" ", _MOUNT_POINT + 1)[_MOUNT_POINT]) for line in _TABLE.read_text().splitlines())
    return [Path(one) for one in found if one == root or one.startswith(below)][::-1]


def mount_points_of_device(path: Path) -> list[Path]:
    """Return the mount points of the file system that a path is on."""
    device = path.stat().st_dev
    numbers = f"{os.major(device)}:{os.minor(device)}"
    lines = (line.split(" ") for line in _TABLE.read_text().splitlines())
    return [Path(_unescape(line[_MOUNT_POINT])) for line in lines if line[_DEVICE] == numbers]


def is_mount_point(path: Path) -> bool:
    """Return True if something is mounted at a path."""
    return Path(os.path.realpath(path)) in mount_points(path)


def mount_tmpfs(folder: Path, size: int) -> None:
    """Mount a file system in memory, of this size in bytes if it is positive. Raises `MountError`."""
    _mount("tmpfs", folder, "tmpfs", 0, f"size={size}" if size > 0 else "")


def bind_mount(source: Path, target: Path) -> None:
    """Mount a folder or file at another place as well. Raises `MountError`."""
    _mount(str(source), target, "", _MS_BIND)


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    words = (os.fsencode(one) or None for one in (source, str(target), kind))
    if _libc().mount(*words, ctypes.c_ulong(flags), os.fsencode(options) or None):
        raise MountError(f"mount failed: {target}: {os.strerror(ctypes.get_errno())}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def run_mount(*arguments: str) -> None:
    """Run the program `mount`, which knows the options of file systems. Raises `MountError`."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MountError(f"mount failed: {done.stderr.strip()}")


def unmount(path: Path, *, is_lazy: bool = False) -> None:
    """Unmount the latest mount at a path; failures show in the kernel's table."""
    _libc().umount2(os.fsencode(path), _MNT_DETACH if is_lazy else 0)


def unmount_all(folder: Path) -> None:
    """Unmount everything at and below a folder."""
    for path in mount_points(folder):
        unmount(path)


def remove_tree(folder: Path) -> bool:
    """Remove a folder and its contents; returns False, and removes nothing, while something is mounted in it."""
    if mount_points(folder):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text) if "\\" in text else text
