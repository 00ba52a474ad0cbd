# SPDX-License-Identifier: Apache-2.0
"""Checks of paths of the machine (hostPath) by their type."""

from __future__ import annotations

import stat
from pathlib import Path

from kubeloop.api.generated.core_v1 import HostPathVolumeSource
from kubeloop.kubelet.volumes.host.payload_error import PayloadError

_FILE_TYPES = {
    stat.S_IFDIR: "Directory",
    stat.S_IFREG: "File",
    stat.S_IFSOCK: "Socket",
    stat.S_IFCHR: "CharDevice",
    stat.S_IFBLK: "BlockDevice",
}
_FILE_TYPE_NAMES = {
    "Directory": "directory",
    "File": "file",
    "Socket": "socket file",
    "CharDevice": "character device",
    "BlockDevice": "block device",
}


def check_host_path(source: HostPathVolumeSource) -> None:
    """Check a path of the machine by its type, and create it if the type says so. Raises `PayloadError`."""
    path, kind = Path(source.path), source.type or ""
    if not kind:
        return
    if kind in ("DirectoryOrCreate", "FileOrCreate"):
        kind = kind.removesuffix("OrCreate")
        if not path.exists():
            if kind == "Directory":
                path.mkdir(mode=0o755, parents=True, exist_ok=True)
            else:
                path.touch(mode=0o644)
            return
    wanted = _FILE_TYPE_NAMES[kind]
    try:
        found = _FILE_TYPES.get(stat.S_IFMT(path.stat().st_mode))
    except OSError:
        raise PayloadError(
            f"hostPath type check failed, {path} is not a {wanted}, unable to determine its type: "
            f'path "{path}" does not exist'
        ) from None
    if found != kind:
        raise PayloadError(f"hostPath type check failed: {path} is not a {wanted}, it's a {found or 'unknown file'}")
