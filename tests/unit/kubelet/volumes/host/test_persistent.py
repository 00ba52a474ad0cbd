# SPDX-License-Identifier: Apache-2.0
"""Persistent volumes of the machine: hostPath and local, as folders, file systems on devices, and devices."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import (
    HostPathVolumeSource,
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    PodSecurityContext,
    PodSpec,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.volumes.host.mounts import is_mount_point, mount_points, unmount_all
from kubeloop.kubelet.volumes.host.payload_error import PayloadError
from kubeloop.kubelet.volumes.host.persistent import PersistentVolumeMounter
from tests.skips import NEEDS_ROOT

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason=NEEDS_ROOT)
GROUP = 4242
NO_LOOP_DEVICE = "needs a loop device and mkfs.ext4"


def make_pod(uid: str, policy: str = "Always") -> Pod:
    context = PodSecurityContext(fs_group=GROUP, fs_group_change_policy=policy)
    return Pod(metadata=ObjectMeta(name="pod", namespace="ns", uid=uid), spec=PodSpec(security_context=context))


def local(path: Path, **spec: Any) -> PersistentVolume:
    source = LocalVolumeSource(path=str(path))
    return PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(local=source, **spec))


class Machine:
    def __init__(self, folder: Path) -> None:
        self.paths = NodePaths(folder / "kubelet", folder / "logs")
        self.mounter = PersistentVolumeMounter(self.paths)
        self.disk = folder / "disk"
        self.disk.mkdir()

    def set_up(self, volume: PersistentVolume, pod: Pod | None = None, *, read_only: bool = False) -> Path:
        return self.mounter.set_up(pod or make_pod("u"), volume, read_only=read_only).path

    def tear_down(self, uid: str) -> None:
        unmount_all(self.paths.volumes(uid))
        self.mounter.release_devices()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    yield Machine(tmp_path)
    unmount_all(tmp_path)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    done = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(NO_LOOP_DEVICE)
    found = Path(done.stdout.strip())
    yield found
    unmount_all(tmp_path)
    subprocess.run(["losetup", "--detach", str(found)], check=True)


def test_a_host_path_is_used_as_it_is(machine: Machine) -> None:
    source = HostPathVolumeSource(path=str(machine.disk / "new"), type="DirectoryOrCreate")
    volume = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(host_path=source))
    found = machine.mounter.set_up(make_pod("u"), volume, read_only=True)
    assert found == (machine.disk / "new", True, False)
    assert (machine.disk / "new").is_dir()


@needs_root
def test_a_local_folder_is_bound_into_the_pod(machine: Machine) -> None:
    (machine.disk / "file").touch(mode=0o600)
    target = machine.set_up(local(machine.disk))
    assert target == machine.paths.root / "pods/u/volumes/kubernetes.io~local-volume/pv"
    assert (target / "file").stat().st_gid == GROUP
    assert stat.S_IMODE((target / "file").stat().st_mode) == 0o660
    assert machine.set_up(local(machine.disk)) == target
    assert len(mount_points(target)) == 1, "set up once"


@needs_root
def test_the_owner_is_set_for_the_first_pod_only(machine: Machine) -> None:
    machine.set_up(local(machine.disk), make_pod("one"))
    (machine.disk / "file").touch(mode=0o600)
    machine.set_up(local(machine.disk), make_pod("two"))
    assert stat.S_IMODE((machine.disk / "file").stat().st_mode) == 0o600, "not changed for the second"


@needs_root
def test_the_owner_is_kept_if_the_root_has_it(machine: Machine) -> None:
    machine.set_up(local(machine.disk), make_pod("u", "OnRootMismatch"))
    machine.tear_down("u")
    (machine.disk / "file").touch()
    os.chown(machine.disk / "file", 0, 0)
    machine.set_up(local(machine.disk), make_pod("u", "OnRootMismatch"))
    assert (machine.disk / "file").stat().st_gid == 0
    machine.tear_down("u")
    machine.set_up(local(machine.disk), make_pod("u", "Always"))
    assert (machine.disk / "file").stat().st_gid == GROUP


@needs_root
def test_a_read_only_volume_cannot_be_written(machine: Machine) -> None:
    target = machine.set_up(local(machine.disk), read_only=True)
    with pytest.raises(OSError, match="Read-only file system"):
        (target / "file").touch()


@needs_root
def test_a_device_gets_a_file_system_and_is_mounted_once(machine: Machine, device: Path) -> None:
    one, two = (machine.set_up(local(device), make_pod(uid)) for uid in ("one", "two"))
    (one / "file").write_text("kept")
    assert (two / "file").read_text() == "kept"
    shared = machine.paths.root / "plugins/kubernetes.io/local-volume/mounts/pv"
    machine.tear_down("one")
    assert is_mount_point(shared), "another pod uses it"
    machine.tear_down("two")
    assert not shared.exists()
    again = machine.set_up(local(device), make_pod("three"))
    assert (again / "file").read_text() == "kept", "a device with a file system is not formatted"


@needs_root
def test_an_empty_device_is_not_formatted_if_it_is_read_only(machine: Machine, device: Path) -> None:
    with pytest.raises(PayloadError, match="cannot mount unformatted disk") as raised:
        machine.set_up(local(device), read_only=True)
    assert raised.value.step == "MountVolume.MountDevice failed"


def test_a_block_volume_is_a_link_to_its_device(machine: Machine) -> None:
    with pytest.raises(PayloadError, match="is not a block device") as raised:
        machine.set_up(local(machine.disk, volume_mode="Block"))
    assert raised.value.step == "MapVolume.SetUpDevice failed"


@needs_root
def test_a_block_device_is_linked_into_the_pod(machine: Machine, device: Path) -> None:
    for _ in range(2):
        link = machine.set_up(local(device, volume_mode="Block"))
    assert link == machine.paths.root / "pods/u/volumeDevices/kubernetes.io~local-volume/pv"
    assert link.resolve() == device


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        (local(Path("/no/such/path")), r'path "/no/such/path" does not exist'),
        (local(Path("/dev/null")), "only directory and block device are supported"),
        (PersistentVolume(metadata=ObjectMeta(name="pv")), "no volume plugin matched"),
    ],
)
def test_errors_name_the_persistent_volume(machine: Machine, volume: PersistentVolume, message: str) -> None:
    with pytest.raises(PayloadError, match=message) as raised:
        machine.set_up(volume)
    assert raised.value.volume == "pv"
    assert raised.value.step == "MountVolume.NewMounter initialization failed"
