# SPDX-License-Identifier: Apache-2.0
"""Sets up the volumes of a pod on the machine, and removes them when the pod is gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import EmptyDirVolumeSource, PersistentVolume, Pod, Volume
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.clock import Clock
from kubeloop.kubelet.cri.config.linux_resources import pod_memory_limit
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.sync.containers import all_containers_of
from kubeloop.kubelet.volumes.claims import used_volumes
from kubeloop.kubelet.volumes.host.atomic_writer import InvalidPathError, write_atomically
from kubeloop.kubelet.volumes.host.host_path import check_host_path
from kubeloop.kubelet.volumes.host.mounts import is_mount_point, mount_tmpfs, remove_tree, unmount_all
from kubeloop.kubelet.volumes.host.ownership import fs_group_of, set_group
from kubeloop.kubelet.volumes.host.payload_error import PayloadError
from kubeloop.kubelet.volumes.host.payloads import PayloadReader
from kubeloop.kubelet.volumes.host.persistent import MountedVolume, PersistentVolumeMounter

_EMPTY_DIR = "kubernetes.io~empty-dir"
_PLUGINS = {
    "config_map": "kubernetes.io~configmap",
    "secret": "kubernetes.io~secret",
    "downward_api": "kubernetes.io~downward-api",
    "projected": "kubernetes.io~projected",
    "empty_dir": _EMPTY_DIR,
}
_WRITTEN = ("config_map", "secret", "downward_api", "projected")

FindVolume = Callable[[Pod, Volume], PersistentVolume | None]  # volume of a claim


class VolumeMounter:
    """Folders and files of the volumes of one node's pods."""

    def __init__(self, paths: NodePaths, payloads: PayloadReader, clock: Clock) -> None:
        self._paths = paths
        self._payloads = payloads
        self._clock = clock
        self._persistent = PersistentVolumeMounter(paths)
        self._claimed: dict[str, dict[str, MountedVolume]] = {}  # by pod UID and volume name

    async def set_up(self, pod: Pod, allocatable: Mapping[str, str], volume_of: FindVolume) -> list[PayloadError]:
        """Create the volumes that a pod uses; returns the failures of those that are not available."""
        used = used_volumes(pod)

        async def try_volume(volume: Volume) -> PayloadError | None:
            try:
                await self._set_up_volume(pod, volume, allocatable, volume_of)
            except PayloadError as error:
                return error.of_volume(error.volume or volume.name, volume.name)
            except (ApiError, OSError) as error:
                return PayloadError(str(error)).of_volume(volume.name, volume.name)
            return None

        tries = await asyncio.gather(*(try_volume(one) for one in pod.spec.volumes if one.name in used))
        return [one for one in tries if one is not None]

    async def _set_up_volume(
        self, pod: Pod, volume: Volume, allocatable: Mapping[str, str], volume_of: FindVolume
    ) -> None:
        if is_claimed(volume):
            self._set_up_claimed(pod, volume, volume_of)
        elif volume.host_path is not None:
            check_host_path(volume.host_path)
        elif volume.empty_dir is not None:
            self._set_up_empty_dir(pod, volume, volume.empty_dir, allocatable)
        elif volume.image is None:  # the runtime mounts images
            await self._write(pod, volume, allocatable)

    async def refresh(self, pod: Pod, allocatable: Mapping[str, str]) -> None:
        """Update the contents that the kubelet writes. Raises `PayloadError`."""
        used = used_volumes(pod)
        for volume in pod.spec.volumes:
            if volume.name in used and has_payload(volume):
                await self._write(pod, volume, allocatable)

    def _set_up_claimed(self, pod: Pod, volume: Volume, volume_of: FindVolume) -> None:
        found, claim = volume_of(pod, volume), volume.persistent_volume_claim
        if found is None:
            raise PayloadError("the volume of the claim is not known")
        read_only = claim is not None and bool(claim.read_only)
        mounted = self._persistent.set_up(pod, found, read_only=read_only)
        self._claimed.setdefault(pod.metadata.uid, {})[volume.name] = mounted

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
            write_atomically(folder, files, self._clock.now(), lambda: set_group(folder, group, is_read_only=True))
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
        set_group(folder, fs_group_of(pod), is_read_only=False)
        ready.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        ready.touch()

    def locate(self, pod: Pod, volume: Volume) -> MountedVolume:
        """Return the path of a volume on the machine, and whether containers can write to it. Raises `PayloadError`."""
        if is_claimed(volume):
            found = self._claimed.get(pod.metadata.uid, {}).get(volume.name)
            if found is None:
                raise PayloadError(f'volume "{volume.name}" is not mounted')
            return found
        return MountedVolume(self.path_of(pod, volume), has_payload(volume), can_relabel=volume.host_path is None)

    def path_of(self, pod: Pod, volume: Volume) -> Path:
        """Return the path of a volume that is no claim. Raises `PayloadError` for a kind that is not supported."""
        if volume.host_path is not None:
            return Path(volume.host_path.path)
        plugin = next((name for field, name in _PLUGINS.items() if getattr(volume, field) is not None), None)
        if plugin is None:
            raise PayloadError(f'volume "{volume.name}" is of a kind that this kubelet does not support')
        return self._paths.volumes(pod.metadata.uid) / plugin / volume.name

    def tear_down(self, uid: str) -> None:
        """Remove the volumes of a pod; what is mounted into them and cannot be unmounted is kept."""
        self._payloads.remove_pod(uid)
        self._claimed.pop(uid, None)
        folder = self._paths.volumes(uid)
        unmount_all(folder)
        remove_tree(folder)
        self._persistent.release_devices()


def is_claimed(volume: Volume) -> bool:
    """Return True for a persistent volume, by a claim of its own or of the pod."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def has_payload(volume: Volume) -> bool:
    """Return True for a volume whose contents the kubelet writes: containers cannot."""
    return any(getattr(volume, field) is not None for field in _WRITTEN)


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


def _make_folder(folder: Path, size: int | None) -> None:
    """Create the folder of a volume with write access for all users; with a size, in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    if size is None:
        folder.chmod(0o777)
    elif not is_mount_point(folder):
        mount_tmpfs(folder, size)
