# SPDX-License-Identifier: Apache-2.0
"""Ownership of volumes: gives the files of a volume to the group of a pod (fsGroup)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kubeloop.api.generated.core_v1 import Pod

_GROUP_MODE, _READ_ONLY_GROUP_MODE, _GROUP_FOLDER_MODE = 0o660, 0o440, 0o2110
_ON_ROOT_MISMATCH = "OnRootMismatch"


def fs_group_of(pod: Pod) -> int | None:
    """Return the group that owns the volumes of a pod, if it sets one."""
    return pod.spec.security_context.fs_group if pod.spec.security_context is not None else None


def set_group(folder: Path, group: int | None, *, is_read_only: bool) -> None:
    """Give a volume to a group, with modes that let it read, and write unless the volume is read-only."""
    if group is None:
        return
    mask = _READ_ONLY_GROUP_MODE if is_read_only else _GROUP_MODE
    for parent, folders, files in os.walk(folder, topdown=False):  # the root last: it shows that all below is done
        for path in (*(os.path.join(parent, name) for name in (*folders, *files)), parent):
            mode = os.lstat(path).st_mode
            os.lchown(path, -1, group)
            if not stat.S_ISLNK(mode):
                os.chmod(path, stat.S_IMODE(mode) | mask | (_GROUP_FOLDER_MODE if stat.S_ISDIR(mode) else 0))


def set_group_by_policy(folder: Path, pod: Pod) -> None:
    """Give a writable volume to the group of a pod, unless its fsGroupChangePolicy finds that it is done."""
    group, context = fs_group_of(pod), pod.spec.security_context
    if group is None or context is None:
        return
    if context.fs_group_change_policy == _ON_ROOT_MISMATCH and _has_group(folder, group):
        return
    set_group(folder, group, is_read_only=False)


def _has_group(folder: Path, group: int) -> bool:
    found, wanted = folder.stat(), _GROUP_MODE | _GROUP_FOLDER_MODE
    return found.st_gid == group and stat.S_IMODE(found.st_mode) & wanted == wanted
