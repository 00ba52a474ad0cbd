# SPDX-License-Identifier: Apache-2.0
"""Desired state of the plugin manager: the sockets in a folder and its subfolders."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class SocketIdentity(NamedTuple):
    """Identity of a socket file; a socket that was removed and created again has another one."""

    device: int
    inode: int
    modified_ns: int  # set by bind; neither connections nor a chmod change it


def find_sockets(folder: Path) -> dict[str, SocketIdentity]:
    """Return the sockets by path. Hidden files and folders are left out, and files that vanish meanwhile."""
    return dict(_iter_sockets(folder))


def _iter_sockets(folder: Path) -> Iterator[tuple[str, SocketIdentity]]:
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.startswith("."):
                continue
            whole = os.path.join(path, name)
            try:
                found = os.stat(whole)
            except OSError:
                continue
            if stat.S_ISSOCK(found.st_mode):
                yield whole, SocketIdentity(found.st_dev, found.st_ino, found.st_mtime_ns)
