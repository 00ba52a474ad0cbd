# SPDX-License-Identifier: Apache-2.0
"""Mount points of the machine: tmpfs mounts, unmounts, and removal of folders that never removes mounted data.

Mount points are read from the kernel's table: a bind mount within one file system looks like any other folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_DEVICE, _MOUNT_POINT = 2, 4  # positions of the device numbers and the mount point in a line of the table
_ESCAPE = re.compile(r"\\([0-7]{3})")


class MountError(OSError):
    """Raised if the machine refuses to mount."""


def mount_points(folder: Path) -> list[Path]:
    """Return the mount points at or below a folder, each as often as it is mounted, the latest first."""
    root = Path(os.path.realpath(folder))
    found = (_unescape(line.split(" ")[_MOUNT_POINT]) for line in _TABLE.read_text().splitlines())
    return [one for one in found if one == root or root in one.parents][::-1]


def mount_points_of_device(path: Path) -> list[Path]:
    """Return the mount points of the file system that a path is on."""
    device = path.stat().st_dev
    numbers = f"{os.major(device)}:{os.minor(device)}"
    lines = (line.split(" ") for line in _TABLE.read_text().splitlines())
    return [_unescape(line[_MOUNT_POINT]) for line in lines if line[_DEVICE] == numbers]


def is_mount_point(path: Path) -> bool:
    """Return True if something is mounted at a path."""
    return Path(os.path.realpath(path)) in mount_points(path)


def mount_tmpfs(folder: Path, size: int) -> None:
    """Mount a file system in memory, of this size in bytes if it is positive. Raises `MountError`."""
    options = ("-o", f"size={size}") if size > 0 else ()
    run_mount("-t", "tmpfs", *options, "tmpfs", str(folder))


def run_mount(*arguments: str, descriptor: int | None = None) -> None:
    """Run `mount`, which inherits the descriptor. Raises `MountError`."""
    kept = () if descriptor is None else (descriptor,)
    done = subprocess.run(["mount", *arguments], pass_fds=kept, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MountError(f"mount failed: {done.stderr.strip()}")


def unmount(path: Path, *, is_lazy: bool = False) -> None:
    """Unmount the latest mount at a path; failures show in the kernel's table."""
    options = ("--lazy",) if is_lazy else ()
    subprocess.run(["umount", *options, str(path)], capture_output=True, check=False)


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


def _unescape(text: str) -> Path:
    return Path(_ESCAPE.sub(lambda found: chr(int(found[1], 8)), text))
