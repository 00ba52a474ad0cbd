# SPDX-License-Identifier: Apache-2.0
"""Sets up the volumes of a pod on the machine, and removes them when the pod is gone."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kubeloop.api.generated.core_v1 import EmptyDirVolumeSource, HostPathVolumeSource, Pod, Volume
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.clock import Clock
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.volumes.host.atomic_writer import write_atomically
from kubeloop.kubelet.volumes.host.payloads import PayloadError, PayloadReader

_EMPTY_DIR = "kubernetes.io~empty-dir"
_PLUGINS = {
    "config_map": "kubernetes.io~configmap",
    "secret": "kubernetes.io~secret",
    "downward_api": "kubernetes.io~downward-api",
    "projected": "kubernetes.io~projected",
    "empty_dir": _EMPTY_DIR,
}
_HOST_PATH_CHECKS = {
    "Directory": (stat.S_ISDIR, "is not a directory"),
    "File": (stat.S_ISREG, "is not a file"),
    "Socket": (stat.S_ISSOCK, "is not a socket"),
    "CharDevice": (stat.S_ISCHR, "is not a character device"),
    "BlockDevice": (stat.S_ISBLK, "is not a block device"),
}


class VolumeMounter:
    """Folders and files of the volumes of one node's pods."""

    def __init__(self, paths: NodePaths, payloads: PayloadReader, clock: Clock) -> None:
        self._paths = paths
        self._payloads = payloads
        self._clock = clock

    async def set_up(self, pod: Pod, allocatable: Mapping[str, str]) -> None:
        """Create all volumes of a pod. Raises `PayloadError` for the first that is not available."""
        for volume in pod.spec.volumes:
            try:
                if volume.host_path is not None:
                    check_host_path(volume.host_path)
                    continue
                folder = self.path_of(pod, volume)
                if volume.empty_dir is not None:
                    _make_empty_dir(folder, volume.empty_dir)
                else:
                    await self._write(pod, volume, folder, allocatable)
                _set_group(folder, pod)
            except PayloadError as error:
                raise error.of_volume(volume.name) from None

    async def refresh(self, pod: Pod, allocatable: Mapping[str, str]) -> None:
        """Update the contents that the kubelet writes. Raises `PayloadError`."""
        for volume in pod.spec.volumes:
            if volume.host_path is None and volume.empty_dir is None:
                folder = self.path_of(pod, volume)
                if await self._write(pod, volume, folder, allocatable):
                    _set_group(folder, pod)

    async def _write(self, pod: Pod, volume: Volume, folder: Path, allocatable: Mapping[str, str]) -> bool:
        files = await self._payloads.read(pod, volume, allocatable)
        if files is None:
            raise PayloadError(f'volume "{volume.name}" is of a kind that this kubelet does not support')
        return write_atomically(folder, files, self._clock.now())

    def path_of(self, pod: Pod, volume: Volume) -> Path:
        """Return the path of a volume on the machine. Raises `PayloadError` for a kind that is not supported."""
        if volume.host_path is not None:
            return Path(volume.host_path.path)
        plugin = next((name for field, name in _PLUGINS.items() if getattr(volume, field) is not None), None)
        if plugin is None:
            raise PayloadError(f'volume "{volume.name}" is of a kind that this kubelet does not support')
        return self._paths.volumes(pod.metadata.uid) / plugin / volume.name

    def tear_down(self, uid: str) -> None:
        """Remove the volumes of a pod; what it mounts from elsewhere is kept."""
        self._payloads.remove_pod(uid)
        folder = self._paths.volumes(uid)
        for one in folder.glob(f"{_EMPTY_DIR}/*"):
            if os.path.ismount(one):
                subprocess.run(["umount", str(one)], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def check_host_path(source: HostPathVolumeSource) -> None:
    """Check a path of the machine by its type, and create it if the type says so. Raises `PayloadError`."""
    path, kind = Path(source.path), source.type or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        kind = "Directory"
    elif kind == "FileOrCreate":
        if not path.exists():
            path.touch(mode=0o644)
        kind = "File"
    if not kind:
        return
    check, complaint = _HOST_PATH_CHECKS[kind]
    try:
        found = path.stat().st_mode
    except OSError:
        found = 0
    if not check(found):
        raise PayloadError(f"hostPath type check failed: {source.path} {complaint}")


def _make_empty_dir(folder: Path, source: EmptyDirVolumeSource) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if source.medium == "Memory" and not os.path.ismount(folder):
        options = f",size={parse_quantity(source.size_limit).value()}" if source.size_limit is not None else ""
        command = ["mount", "-t", "tmpfs", "-o", f"mode=0777{options}", "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PayloadError(f"mount failed: {done.stderr.strip()}")
    folder.chmod(0o777 if source.mode is None else source.mode)


def _set_group(folder: Path, pod: Pod) -> None:
    """Give a volume to the pod's fsGroup, unless its root has that group already and the policy allows to trust it."""
    context = pod.spec.security_context
    if context is None or context.fs_group is None:
        return
    group = context.fs_group
    mode = folder.stat()
    if context.fs_group_change_policy == "OnRootMismatch" and mode.st_gid == group and mode.st_mode & stat.S_ISGID:
        return
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink():
            os.lchown(path, -1, group)
            continue
        os.chown(path, -1, group)
        found = path.stat().st_mode & 0o7777
        is_folder = path.is_dir()
        path.chmod(found | (0o2770 if is_folder else 0o660 if found & 0o200 else 0o440))
