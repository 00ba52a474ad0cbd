# SPDX-License-Identifier: Apache-2.0
"""Sets up persistent volumes of the machine: hostPath and local, as file systems and as block devices.

A block device with a file system is mounted once for the node, and bound into each pod that uses it.
"""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import PersistentVolume, Pod
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.volumes.host.host_path import check_host_path
from kubeloop.kubelet.volumes.host.mounts import (
    MountError,
    bind_mount,
    is_mount_point,
    mount_points,
    mount_points_of_device,
    run_mount,
    unmount,
)
from kubeloop.kubelet.volumes.host.ownership import set_group_by_policy
from kubeloop.kubelet.volumes.host.payload_error import SET_UP_FAILED, PayloadError

LOCAL = "kubernetes.io~local-volume"
NEW_MOUNTER = "MountVolume.NewMounter initialization failed"
MOUNT_DEVICE = "MountVolume.MountDevice failed"
MAP_VOLUME = "MapVolume.SetUpDevice failed"
_DEFAULT_FS = "ext4"
_NO_FILE_SYSTEM = 2  # exit code of blkid for a device without any content that it knows
_MKFS_FLAGS = {"ext3": ("-F", "-m0"), "ext4": ("-F", "-m0")}


class MountedVolume(NamedTuple):
    """Volume of a pod that is set up."""

    path: Path
    read_only: bool = False
    can_relabel: bool = True  # SELinux labels of its files may be changed


class PersistentVolumeMounter:
    """Persistent volumes of one node's pods."""

    def __init__(self, paths: NodePaths) -> None:
        self._paths = paths

    def set_up(self, pod: Pod, volume: PersistentVolume, *, read_only: bool) -> MountedVolume:
        """Set a volume up for a pod; may be repeated. Raises `PayloadError`."""
        name = volume.metadata.name
        try:
            if volume.spec.host_path is not None:
                check_host_path(volume.spec.host_path)
                return MountedVolume(Path(volume.spec.host_path.path), read_only, can_relabel=False)
            if volume.spec.local is None:
                raise PayloadError("no volume plugin matched", step=NEW_MOUNTER)
            if volume.spec.volume_mode == "Block":
                return MountedVolume(self._map_device(pod, volume), read_only)
            return MountedVolume(self._mount_local(pod, volume, read_only), read_only)
        except PayloadError as error:
            raise error.of_volume(name) from None
        except OSError as error:
            raise PayloadError(str(error)).of_volume(name) from None

    def release_devices(self) -> None:
        """Unmount the devices that no pod uses any more."""
        for path in mount_points(self._device_mounts()):
            users = [one for one in mount_points_of_device(path) if self._paths.root / "pods" in one.parents]
            if not users:
                unmount(path)
                if not is_mount_point(path):
                    path.rmdir()

    def _mount_local(self, pod: Pod, volume: PersistentVolume, read_only: bool) -> Path:
        source = _local_path(volume, NEW_MOUNTER)
        kind = _file_type(source, NEW_MOUNTER)
        if kind == stat.S_IFBLK:
            source = self._mount_device(volume, source, read_only)
        elif kind != stat.S_IFDIR:
            raise PayloadError("only directory and block device are supported", step=NEW_MOUNTER)
        target = self._paths.volumes(pod.metadata.uid) / LOCAL / volume.metadata.name
        if is_mount_point(target):
            return target
        is_shared = any(self._paths.root / "pods" in one.parents for one in mount_points_of_folder(source))
        target.mkdir(mode=0o750, parents=True, exist_ok=True)
        options = [*volume.spec.mount_options, *(("ro",) if read_only else ())]
        bind_mount(source, target)
        if options:
            run_mount("-o", f"remount,bind,{','.join(options)}", str(target))
        if not read_only and not is_shared:
            set_group_by_policy(target, pod)
        return target

    def _mount_device(self, volume: PersistentVolume, device: Path, read_only: bool) -> Path:
        """Mount a device for the node, with a new file system if it has none; returns the mount point."""
        target = self._device_mounts() / volume.metadata.name
        if is_mount_point(target):
            return target
        kind = volume.spec.local.fs_type if volume.spec.local is not None else None
        options = ",".join((*volume.spec.mount_options, *(("ro",) if read_only else ()))) or "defaults"
        target.mkdir(mode=0o750, parents=True, exist_ok=True)
        try:
            _ensure_file_system(device, kind or _DEFAULT_FS, read_only)
            run_mount("-t", kind or _DEFAULT_FS, "-o", options, str(device), str(target))
        except MountError as error:
            target.rmdir()
            what = f"local: failed to mount device {device} at {target} (fstype: {kind or _DEFAULT_FS})"
            raise PayloadError(f"{what}, error {error}", step=MOUNT_DEVICE) from None
        return target

    def _map_device(self, pod: Pod, volume: PersistentVolume) -> Path:
        """Link a block device into the folder of a pod; returns the link."""
        device = _local_path(volume, MAP_VOLUME)
        if _file_type(device, MAP_VOLUME) != stat.S_IFBLK:
            raise PayloadError(f"{device} is not a block device", step=MAP_VOLUME)
        link = self._paths.volume_devices(pod.metadata.uid) / LOCAL / volume.metadata.name
        link.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(device)
        return link

    def _device_mounts(self) -> Path:
        return self._paths.root / "plugins" / "kubernetes.io" / "local-volume" / "mounts"


def mount_points_of_folder(folder: Path) -> list[Path]:
    """Return the mount points at which a folder is bound, other than its own."""
    found, device = [], os.stat(folder)
    for path in mount_points_of_device(folder):
        try:
            if path != folder and os.path.samestat(path.stat(), device):
                found.append(path)
        except OSError:  # not reachable any more
            continue
    return found


def _local_path(volume: PersistentVolume, step: str) -> Path:
    source = volume.spec.local
    if source is None or not source.path:
        raise PayloadError("local volume source is nil or local path is not set", step=step)
    if ".." in source.path.split("/"):
        raise PayloadError(f"invalid path: {source.path} must not contain '..'", step=SET_UP_FAILED)
    return Path(source.path)


def _file_type(path: Path, step: str) -> int:
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        raise PayloadError(f'path "{path}" does not exist', step=step) from None


def _ensure_file_system(device: Path, kind: str, read_only: bool) -> None:
    """Create a file system on a device without any content. Raises `MountError`."""
    probed = subprocess.run(["blkid", "-p", "-o", "export", str(device)], capture_output=True, text=True, check=False)
    if probed.returncode == 0:
        return
    if probed.returncode != _NO_FILE_SYSTEM:
        raise MountError(f"failed to probe device {device}: {probed.stderr.strip()}")
    if read_only:
        raise MountError(f"cannot mount unformatted disk {device} as we are manipulating it in read-only mode")
    command = [f"mkfs.{kind}", *_MKFS_FLAGS.get(kind, ()), str(device)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise MountError(f"failed to format the device {device}: {made.stderr.strip()}")
