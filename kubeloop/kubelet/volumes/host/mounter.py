# SPDX-License-Identifier: Apache-2.0
"""Sets up the volumes of a pod on the machine, and removes them when the pod is gone."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from kubeloop.api.generated.core_v1 import EmptyDirVolumeSource, HostPathVolumeSource, Pod, Volume
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.clock import Clock
from kubeloop.kubelet.cri.config.linux_resources import pod_memory_limit
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.sync.containers import all_containers_of
from kubeloop.kubelet.volumes.host.atomic_writer import InvalidPathError, write_atomically
from kubeloop.kubelet.volumes.host.mounts import is_mount_point, mount_tmpfs, remove_tree, unmount_all
from kubeloop.kubelet.volumes.host.payloads import PayloadError, PayloadReader

_EMPTY_DIR = "kubernetes.io~empty-dir"
_PLUGINS = {
    "config_map": "kubernetes.io~configmap",
    "secret": "kubernetes.io~secret",
    "downward_api": "kubernetes.io~downward-api",
    "projected": "kubernetes.io~projected",
    "empty_dir": _EMPTY_DIR,
}
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
_GROUP_MODE, _READ_ONLY_GROUP_MODE, _GROUP_FOLDER_MODE = 0o660, 0o440, 0o2110


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
                elif volume.empty_dir is not None:
                    self._set_up_empty_dir(pod, volume, volume.empty_dir, allocatable)
                else:
                    await self._write(pod, volume, allocatable)
            except PayloadError as error:
                raise error.of_volume(volume.name) from None

    async def refresh(self, pod: Pod, allocatable: Mapping[str, str]) -> None:
        """Update the contents that the kubelet writes. Raises `PayloadError`."""
        for volume in pod.spec.volumes:
            if volume.host_path is None and volume.empty_dir is None:
                await self._write(pod, volume, allocatable)

    async def _write(self, pod: Pod, volume: Volume, allocatable: Mapping[str, str]) -> None:
        folder = self.path_of(pod, volume)
        files = await self._payloads.read(pod, volume, allocatable)
        if files is None:
            raise PayloadError(f'volume "{volume.name}" is of a kind that this kubelet does not support')
        size = tmpfs_size(pod, None, allocatable) if volume.config_map is None else None
        _make_folder(folder, size)
        for path in nested_mount_points(pod, volume.name):
            (folder / path).mkdir(mode=0o755, parents=True, exist_ok=True)
        group = fs_group_of(pod)
        try:
            write_atomically(folder, files, self._clock.now(), lambda: _set_group(folder, group, is_read_only=True))
        except InvalidPathError as error:
            raise PayloadError(str(error)) from None

    def _set_up_empty_dir(
        self, pod: Pod, volume: Volume, source: EmptyDirVolumeSource, allocatable: Mapping[str, str]
    ) -> None:
        """Create a volume once: its mode and owner are the containers' from then on."""
        folder, ready = (
            self.path_of(pod, volume),
            self._paths.plugin(pod.metadata.uid, _EMPTY_DIR, volume.name) / "ready",
        )
        is_memory = source.medium == "Memory"
        if source.medium not in (None, "", "Memory"):
            raise PayloadError(f'unknown storage medium "{source.medium}"')
        if ready.exists() and folder.is_dir() and (not is_memory or is_mount_point(folder)):
            return
        _make_folder(folder, tmpfs_size(pod, source.size_limit, allocatable) if is_memory else None)
        if source.mode is not None:
            folder.chmod(source.mode)
        _set_group(folder, fs_group_of(pod), is_read_only=False)
        ready.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        ready.touch()

    def path_of(self, pod: Pod, volume: Volume) -> Path:
        """Return the path of a volume on the machine. Raises `PayloadError` for a kind that is not supported."""
        if volume.host_path is not None:
            return Path(volume.host_path.path)
        plugin = next((name for field, name in _PLUGINS.items() if getattr(volume, field) is not None), None)
        if plugin is None:
            raise PayloadError(f'volume "{volume.name}" is of a kind that this kubelet does not support')
        return self._paths.volumes(pod.metadata.uid) / plugin / volume.name

    def tear_down(self, uid: str) -> None:
        """Remove the volumes of a pod; what is mounted into them and cannot be unmounted is kept."""
        self._payloads.remove_pod(uid)
        folder = self._paths.volumes(uid)
        unmount_all(folder)
        remove_tree(folder)


def is_read_only(volume: Volume) -> bool:
    """Return True for a volume whose contents the kubelet writes: containers cannot."""
    return volume.host_path is None and volume.empty_dir is None


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


def tmpfs_size(pod: Pod, size_limit: str | None, allocatable: Mapping[str, str]) -> int:
    """Return the size of a volume in memory: the least of its limit, the pod's, and what the node has; 0 for any."""
    node, own = (parse_quantity(one or "0").value() for one in (allocatable.get("memory"), size_limit))
    return min((one for one in (node, pod_memory_limit(pod), own) if one > 0), default=0)


def nested_mount_points(pod: Pod, name: str) -> tuple[str, ...]:
    """Return the folders of a volume in which other volumes are mounted, as paths within the volume."""
    found: dict[str, None] = {}
    for container in all_containers_of(pod):
        paths = sorted(os.path.normpath(one.mount_path) for one in container.volume_mounts)
        roots = [os.path.normpath(one.mount_path) for one in container.volume_mounts if one.name == name]
        for root in roots:
            outer: list[str] = []
            for path in paths:
                if path.startswith(f"{root}/") and not any(path.startswith(f"{one}/") for one in outer):
                    outer.append(path)
                    found[path.removeprefix(f"{root}/")] = None
    return tuple(found)


def fs_group_of(pod: Pod) -> int | None:
    """Return the group that owns the volumes of a pod, if it sets one."""
    return pod.spec.security_context.fs_group if pod.spec.security_context is not None else None


def _make_folder(folder: Path, size: int | None) -> None:
    """Create the folder of a volume with write access for all users; with a size, in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    if size is None:
        folder.chmod(0o777)
    elif not is_mount_point(folder):
        mount_tmpfs(folder, size)


def _set_group(folder: Path, group: int | None, *, is_read_only: bool) -> None:
    """Give a volume to a group, with modes that let it read, and write unless the volume is read-only."""
    if group is None:
        return
    mask = _READ_ONLY_GROUP_MODE if is_read_only else _GROUP_MODE
    for parent, folders, files in os.walk(folder, topdown=False):
        for path in (*(os.path.join(parent, name) for name in (*folders, *files)), parent):
            mode = os.lstat(path).st_mode
            os.lchown(path, -1, group)
            if not stat.S_ISLNK(mode):
                os.chmod(path, stat.S_IMODE(mode) | mask | (_GROUP_FOLDER_MODE if stat.S_ISDIR(mode) else 0))
