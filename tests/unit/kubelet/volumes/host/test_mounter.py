# SPDX-License-Identifier: Apache-2.0
"""Volumes on the machine: folders, owners, host paths, and removal that spares the machine's data."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import (
    ConfigMap,
    ConfigMapVolumeSource,
    Container,
    EmptyDirVolumeSource,
    GitRepoVolumeSource,
    HostPathVolumeSource,
    Pod,
    PodSecurityContext,
    PodSpec,
    ResourceRequirements,
    Secret,
    SecretVolumeSource,
    Volume,
    VolumeMount,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.clock import SystemClock
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.volumes.host.host_path import check_host_path
from kubeloop.kubelet.volumes.host.mounter import VolumeMounter, nested_mount_points, tmpfs_size
from kubeloop.kubelet.volumes.host.mounts import is_mount_point, mount_points, run_mount, unmount_all
from kubeloop.kubelet.volumes.host.payload_error import PayloadError
from tests.skips import NEEDS_ROOT
from tests.unit.kubelet.fake_client import FakeClient, new_reader

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason=NEEDS_ROOT)
ABOUT = ObjectMeta(name="one", namespace="ns")
GROUP = 4242
CONFIG_MAP = Volume(name="cm", config_map=ConfigMapVolumeSource(name="one"))
SECRET = Volume(name="s", secret=SecretVolumeSource(secret_name="one", default_mode=0o600))
DISK, MEMORY = (Volume(name=name, empty_dir=EmptyDirVolumeSource(medium=name)) for name in ("", "Memory"))


class Machine:
    """Mounter over a temporary root."""

    def __init__(self, root: Path) -> None:
        self.paths = NodePaths(root, root / "logs")
        self.client = FakeClient(ConfigMap(metadata=ABOUT, data={"a": "1"}), Secret(metadata=ABOUT, data={"b": b"2"}))
        clock = SystemClock()
        self.mounter = VolumeMounter(self.paths, new_reader(self.client, clock), clock)

    def set_up(self, pod: Pod) -> list[Path]:
        failures = asyncio.run(self.mounter.set_up(pod, {"memory": "1Gi"}, lambda pod, volume: None))
        if failures:
            raise failures[0]
        return [self.mounter.path_of(pod, one) for one in pod.spec.volumes]

    def refresh(self, pod: Pod) -> None:
        asyncio.run(self.mounter.refresh(pod, {"memory": "1Gi"}))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    yield Machine(tmp_path / "kubelet")
    unmount_all(tmp_path)


def make_pod(*volumes: Volume, group: int | None = None, containers: tuple[Container, ...] = ()) -> Pod:
    context = PodSecurityContext(fs_group=group, fs_group_change_policy="OnRootMismatch")
    containers = containers or (mounts(*((one.name, f"/{one.name}") for one in volumes)),)
    spec = PodSpec(volumes=volumes, security_context=context, containers=containers)
    return Pod(metadata=ObjectMeta(name="pod", namespace="ns", uid="u"), spec=spec)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("mode", "expected"), [(None, 0o777), (0o700, 0o700), (0o1770, 0o1770)])
def test_an_empty_dir_has_its_mode_once(machine: Machine, mode: int | None, expected: int) -> None:
    pod = make_pod(Volume(name="v", empty_dir=EmptyDirVolumeSource(mode=mode)))
    (folder,) = machine.set_up(pod)
    assert folder == machine.paths.root / "pods/u/volumes/kubernetes.io~empty-dir/v"
    assert mode_of(folder) == expected
    folder.chmod(0o755)
    (folder / "data").touch()
    machine.set_up(pod)
    assert mode_of(folder) == 0o755, "a kubelet that starts again changes nothing"
    assert (folder / "data").exists()


@needs_root
def test_an_empty_dir_in_memory_has_the_least_of_all_sizes(machine: Machine) -> None:
    volume = Volume(name="v", empty_dir=EmptyDirVolumeSource(medium="Memory", size_limit="1Mi"))
    (folder,) = machine.set_up(make_pod(volume))
    found = os.statvfs(folder)
    assert is_mount_point(folder)
    assert found.f_blocks * found.f_frsize == 1 << 20
    assert mode_of(folder) == 0o1777
    machine.set_up(make_pod(volume))
    assert len(mount_points(folder)) == 1
    machine.mounter.tear_down("u")
    assert not folder.exists()
    assert not mount_points(machine.paths.root)


@pytest.mark.parametrize(
    ("limit", "containers", "whole", "size"),
    [
        (None, [None], None, 1 << 30),
        ("2Gi", [None], None, 1 << 30),
        ("1Mi", [None], None, 1 << 20),
        ("0", [None], None, 1 << 30),
        (None, ["1Mi", "2Mi"], None, 3 << 20),
        (None, ["1Mi", None], None, 1 << 30),
        ("2Mi", ["1Mi"], None, 1 << 20),
        (None, [None], "4Mi", 4 << 20),
    ],
)
def test_size_of_a_volume_in_memory(
    limit: str | None, containers: list[str | None], whole: str | None, size: int
) -> None:
    made = tuple(
        Container(name=str(at), resources=ResourceRequirements(limits={"memory": one} if one else {}))
        for at, one in enumerate(containers)
    )
    spec = PodSpec(containers=made, resources=ResourceRequirements(limits={"memory": whole}) if whole else None)
    assert tmpfs_size(Pod(spec=spec), limit, {"memory": "1Gi"}) == size


def test_an_unknown_medium_is_refused(machine: Machine) -> None:
    with pytest.raises(PayloadError, match='unknown storage medium "Tape"') as raised:
        machine.set_up(make_pod(Volume(name="v", empty_dir=EmptyDirVolumeSource(medium="Tape"))))
    assert raised.value.volume == "v"


@needs_root
def test_volumes_that_the_group_may_write(machine: Machine) -> None:
    (folder,) = machine.set_up(make_pod(DISK, group=GROUP))
    assert (folder.stat().st_gid, mode_of(folder)) == (GROUP, 0o2777)


@needs_root
def test_volumes_that_the_group_may_read(machine: Machine) -> None:
    pod = make_pod(CONFIG_MAP, SECRET, group=GROUP)
    config, secret = machine.set_up(pod)
    assert [(path.stat().st_gid, mode_of(path)) for path in (config, config / "a", secret / "b")] == [
        (GROUP, 0o2777),
        (GROUP, 0o644),
        (GROUP, 0o640),
    ]
    version = os.readlink(secret / "..data")
    machine.refresh(pod)
    assert os.readlink(secret / "..data") == version, "nothing has changed"
    machine.client.put(Secret(metadata=ABOUT, data={"b": b"3"}))
    machine.refresh(pod)
    assert (secret / "b").read_bytes() == b"3"
    assert mode_of(secret / "b") == 0o640


@needs_root
def test_secrets_are_in_memory_and_config_maps_on_disk(machine: Machine) -> None:
    config, secret = machine.set_up(make_pod(CONFIG_MAP, SECRET))
    assert not is_mount_point(config)
    assert is_mount_point(secret)
    assert mode_of(config) == 0o777
    assert mode_of(secret) == 0o1777


def test_a_missing_source_names_its_volume(machine: Machine) -> None:
    with pytest.raises(PayloadError, match='configmap "gone" not found') as raised:
        machine.set_up(make_pod(Volume(name="v", config_map=ConfigMapVolumeSource(name="gone"))))
    assert raised.value.volume == "v"


def test_unsupported_kinds_are_refused(machine: Machine) -> None:
    with pytest.raises(PayloadError, match="does not support"):
        machine.set_up(make_pod(Volume(name="v", git_repo=GitRepoVolumeSource(repository="r"))))


def test_volumes_that_no_container_uses_are_not_set_up(machine: Machine) -> None:
    gone = Volume(name="v", config_map=ConfigMapVolumeSource(name="gone"))
    machine.set_up(make_pod(gone, containers=(Container(name="c"),)))


def test_other_volumes_are_set_up_in_spite_of_a_failure(machine: Machine) -> None:
    gone = Volume(name="v", config_map=ConfigMapVolumeSource(name="gone"))
    with pytest.raises(PayloadError):
        machine.set_up(make_pod(gone, DISK))
    assert (machine.paths.root / "pods/u/volumes/kubernetes.io~empty-dir").is_dir()


def mounts(*pairs: tuple[str, str]) -> Container:
    return Container(name="c", volume_mounts=tuple(VolumeMount(name=name, mount_path=path) for name, path in pairs))


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (mounts(("v", "/dir")), ()),
        (mounts(("v", "/dir"), ("b", "/dir/nested")), ("nested",)),
        (mounts(("v", "/dir"), ("b", "/dir/nested/"), ("c", "/dir/nested/double")), ("nested",)),
        (mounts(("v", "/dir"), ("b", "/dir/a/b"), ("c", "/dir/a-b"), ("d", "/dir2/x")), ("a-b", "a/b")),
        (mounts(("v", "/dir"), ("v", "/other"), ("b", "/other/n")), ("n",)),
        (mounts(("b", "/dir"), ("v", "/dir/nested")), ()),
    ],
)
def test_nested_mount_points(container: Container, expected: tuple[str, ...]) -> None:
    assert nested_mount_points(make_pod(containers=(container,)), "v") == expected


def test_folders_for_nested_mounts_are_made(machine: Machine) -> None:
    containers = (mounts(("cm", "/etc/config"), ("b", "/etc/config/sub/deep")),)
    (folder,) = machine.set_up(make_pod(CONFIG_MAP, containers=containers))
    assert (folder / "sub/deep").is_dir()
    assert (folder / "a").read_text() == "1"


def make(path: Path, kind: str) -> Path:
    if kind == "Directory":
        path.mkdir()
    elif kind == "File":
        path.touch()
    elif kind == "Socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    elif kind == "CharDevice":
        return Path("/dev/null")
    return path


WORDS = {"Directory": "directory", "File": "file", "Socket": "socket file", "CharDevice": "character device"}


@pytest.mark.parametrize("found", ["Directory", "File", "Socket", "CharDevice"])
@pytest.mark.parametrize("wanted", ["Directory", "File", "Socket", "CharDevice"])
def test_types_of_host_paths(tmp_path: Path, found: str, wanted: str) -> None:
    path = make(tmp_path / "x", found)
    source = HostPathVolumeSource(path=str(path), type=wanted)
    if found == wanted:
        check_host_path(source)
    else:
        with pytest.raises(PayloadError) as raised:
            check_host_path(source)
        assert str(raised.value) == f"hostPath type check failed: {path} is not a {WORDS[wanted]}, it's a {found}"


@pytest.mark.parametrize("wanted", ["Directory", "File", "Socket", "CharDevice", "BlockDevice"])
def test_a_missing_host_path(tmp_path: Path, wanted: str) -> None:
    with pytest.raises(PayloadError, match=r"unable to determine its type: path .* does not exist"):
        check_host_path(HostPathVolumeSource(path=str(tmp_path / "x"), type=wanted))
    check_host_path(HostPathVolumeSource(path=str(tmp_path / "x"), type=""))
    check_host_path(HostPathVolumeSource(path=str(tmp_path / "x")))
    assert not (tmp_path / "x").exists()


def test_host_paths_are_created(tmp_path: Path) -> None:
    for _ in range(2):
        check_host_path(HostPathVolumeSource(path=str(tmp_path / "a/b"), type="DirectoryOrCreate"))
        check_host_path(HostPathVolumeSource(path=str(tmp_path / "a/file"), type="FileOrCreate"))
    assert mode_of(tmp_path / "a/b") == 0o755
    assert mode_of(tmp_path / "a/file") == 0o644
    for path, kind in (("a/b", "FileOrCreate"), ("a/file", "DirectoryOrCreate")):
        with pytest.raises(PayloadError, match="type check failed"):
            check_host_path(HostPathVolumeSource(path=str(tmp_path / path), type=kind))


@needs_root
def test_tear_down_keeps_the_data_of_the_machine(machine: Machine, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").touch()
    host = Volume(name="host", host_path=HostPathVolumeSource(path=str(data), type="Directory"))
    disk, _secret, _ = machine.set_up(make_pod(DISK, SECRET, host, group=GROUP))
    assert data.stat().st_gid != GROUP, "a host path is not given to the group"
    (disk / "mounted").mkdir()
    run_mount("--bind", str(data), str(disk / "mounted"))  # as a container does with bidirectional propagation
    held = os.open(disk / "mounted", os.O_RDONLY)
    try:
        machine.mounter.tear_down("u")
        assert (data / "file").exists(), "a busy mount is kept with all that it holds"
        assert disk.exists()
    finally:
        os.close(held)
    machine.mounter.tear_down("u")
    assert (data / "file").exists()
    assert not machine.paths.volumes("u").exists()
    assert not mount_points(machine.paths.root)
