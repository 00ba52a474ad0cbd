# SPDX-License-Identifier: Apache-2.0
"""Mounts of containers, and the managed hosts file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import (
    ConfigMapVolumeSource,
    Container,
    EmptyDirVolumeSource,
    HostAlias,
    HostPathVolumeSource,
    ImageVolumeSource,
    Pod,
    PodIP,
    PodSpec,
    PodStatus,
    Volume,
    VolumeMount,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.clock import SystemClock
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.config.security_context import ContainerConfigError
from kubeloop.kubelet.cri.container_mounts import ContainerMounts, MountInputs, hosts_file
from kubeloop.kubelet.cri.messages.container import Mount, MountPropagation
from kubeloop.kubelet.cri.messages.image import ImageSpec
from kubeloop.kubelet.volumes.host.mounter import VolumeMounter
from kubeloop.kubelet.volumes.host.mounts import mount_points, mount_tmpfs, unmount_all
from tests.skips import NEEDS_ROOT
from tests.unit.kubelet.fake_client import FakeClient, new_reader

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason=NEEDS_ROOT)
DOMAIN = "cluster.local"
HEADER = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
ALIASES = (HostAlias(ip="123.45.67.89", hostnames=("foo", "bar")), HostAlias(ip="1.1.1.1", hostnames=("baz",)))
ALIAS_LINES = "\n# Entries added by HostAliases.\n123.45.67.89\tfoo\tbar\n1.1.1.1\tbaz\n"


class Machine:
    """Mounts over a temporary root, with a folder of the machine."""

    def __init__(self, folder: Path) -> None:
        self.paths = NodePaths(folder / "kubelet", folder / "logs")
        clock = SystemClock()
        mounter = VolumeMounter(self.paths, new_reader(FakeClient(), clock), clock)
        self.mounts = ContainerMounts(self.paths, mounter, DOMAIN, clock)
        self.host = folder / "host"
        self.host.mkdir()
        self.has_recursive_mounts = True

    def prepare(self, *mounts: VolumeMount, path: str = "", **environment: str) -> tuple[Mount, ...]:
        container = Container(name="c", volume_mounts=mounts, termination_message_path=path)
        images = {"image": ImageSpec(image="sha256:1")}
        return self.mounts.prepare(self.pod(), container, MountInputs(environment, images, self.has_recursive_mounts))

    def pod(self) -> Pod:
        volumes = (
            Volume(name="host", host_path=HostPathVolumeSource(path=str(self.host))),
            Volume(name="cm", config_map=ConfigMapVolumeSource(name="one")),
            Volume(name="empty", empty_dir=EmptyDirVolumeSource()),
            Volume(name="image", image=ImageVolumeSource(reference="example.org/one:1")),
        )
        return Pod(metadata=ObjectMeta(name="pod", namespace="ns", uid="u"), spec=PodSpec(volumes=volumes))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    yield Machine(tmp_path)
    unmount_all(tmp_path)


@pytest.mark.parametrize(
    ("spec", "ips", "content"),
    [
        (PodSpec(), ("10.0.0.1",), f"{HEADER}10.0.0.1\tpod\n"),
        (PodSpec(), ("10.0.0.1", "fd00::1"), f"{HEADER}10.0.0.1\tpod\nfd00::1\tpod\n"),
        (
            PodSpec(hostname="h", subdomain="sub"),
            ("10.0.0.1",),
            f"{HEADER}10.0.0.1\th.sub.ns.svc.cluster.local\th\n",
        ),
        (PodSpec(host_aliases=ALIASES), ("10.0.0.1",), f"{HEADER}10.0.0.1\tpod\n{ALIAS_LINES}"),
        (
            PodSpec(host_network=True),
            ("1.2.3.4",),
            "# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n",
        ),
        (
            PodSpec(host_network=True, host_aliases=ALIASES),
            (),
            f"# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n{ALIAS_LINES}",
        ),
    ],
)
def test_hosts_file(tmp_path: Path, spec: PodSpec, ips: tuple[str, ...], content: str) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 node\n")
    status = PodStatus(pod_ips=tuple(PodIP(ip=ip) for ip in ips))
    pod = Pod(metadata=ObjectMeta(name="pod", namespace="ns"), spec=spec, status=status)
    assert hosts_file(pod, DOMAIN, tmp_path / "hosts") == content


@pytest.mark.parametrize(
    ("spec", "ips", "mounted", "has_file"),
    [
        (PodSpec(), ("10.0.0.1",), "/data", True),
        (PodSpec(), (), "/data", False),
        (PodSpec(), ("10.0.0.1",), "/etc/hosts", False),
        (PodSpec(host_network=True), (), "/data", True),
        (PodSpec(host_network=True), ("10.0.0.1",), "/etc/hosts", False),
    ],
)
def test_the_hosts_file_is_mounted(
    machine: Machine, spec: PodSpec, ips: tuple[str, ...], mounted: str, has_file: bool
) -> None:
    volumes = (Volume(name="host", host_path=HostPathVolumeSource(path=str(machine.host))),)
    spec = PodSpec(host_network=spec.host_network, volumes=volumes)
    status = PodStatus(pod_ips=tuple(PodIP(ip=ip) for ip in ips))
    pod = Pod(metadata=ObjectMeta(name="pod", namespace="ns", uid="u"), spec=spec, status=status)
    container = Container(name="c", volume_mounts=(VolumeMount(name="host", mount_path=mounted),))
    found = [
        one for one in machine.mounts.prepare(pod, container, MountInputs({})) if one.host_path.endswith("etc-hosts")
    ]
    assert bool(found) == has_file
    if found:
        assert found[0].container_path == "/etc/hosts"
        assert stat.S_IMODE(Path(found[0].host_path).stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("mount", "readonly", "propagation", "recursive"),
    [
        (VolumeMount(name="host", mount_path="/x"), False, MountPropagation.PRIVATE, False),
        (VolumeMount(name="host", mount_path="/x", read_only=True), True, MountPropagation.PRIVATE, False),
        (VolumeMount(name="empty", mount_path="/x"), False, MountPropagation.PRIVATE, False),
        (VolumeMount(name="cm", mount_path="/x"), True, MountPropagation.PRIVATE, False),
        (
            VolumeMount(name="host", mount_path="/x", mount_propagation="HostToContainer"),
            False,
            MountPropagation.HOST_TO_CONTAINER,
            False,
        ),
        (
            VolumeMount(name="host", mount_path="/x", mount_propagation="Bidirectional"),
            False,
            MountPropagation.BIDIRECTIONAL,
            False,
        ),
        (
            VolumeMount(name="host", mount_path="/x", read_only=True, recursive_read_only="Enabled"),
            True,
            MountPropagation.PRIVATE,
            True,
        ),
    ],
)
def test_mounts_of_volumes(
    machine: Machine, mount: VolumeMount, readonly: bool, propagation: MountPropagation, recursive: bool
) -> None:
    (found,) = machine.prepare(mount)
    assert (found.readonly, found.propagation, found.recursive_read_only) == (readonly, propagation, recursive)
    assert found.container_path == "/x"


def test_images_are_mounted_by_the_runtime(machine: Machine) -> None:
    (found,) = machine.prepare(VolumeMount(name="image", mount_path="/x", sub_path="bin"))
    assert (found.host_path, found.image, found.image_sub_path) == ("", ImageSpec(image="sha256:1"), "bin")
    assert found.readonly


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        (VolumeMount(name="host", mount_path="/x", recursive_read_only="Enabled"), "but it is not read-only"),
        (
            VolumeMount(name="host", mount_path="/x", read_only=True, recursive_read_only="Enabled"),
            "but it is not supported by the runtime",
        ),
        (
            VolumeMount(
                name="host",
                mount_path="/x",
                read_only=True,
                recursive_read_only="IfPossible",
                mount_propagation="HostToContainer",
            ),
            'but it is not compatible with propagation "HostToContainer"',
        ),
    ],
)
def test_recursive_read_only_mounts_may_be_refused(machine: Machine, mount: VolumeMount, message: str) -> None:
    machine.has_recursive_mounts = False
    wanted = (
        f'^failed to resolve recursive read-only mode: volume "host" requested recursive read-only mode, {message}$'
    )
    with pytest.raises(ContainerConfigError, match=wanted):
        machine.prepare(mount)


def test_recursive_read_only_mounts_where_possible(machine: Machine) -> None:
    mount = VolumeMount(name="host", mount_path="/x", read_only=True, recursive_read_only="IfPossible")
    assert machine.prepare(mount)[0].recursive_read_only
    machine.has_recursive_mounts = False
    assert not machine.prepare(mount)[0].recursive_read_only


def test_a_missing_volume_is_an_error(machine: Machine) -> None:
    with pytest.raises(ContainerConfigError, match=r'^cannot find volume "gone" to mount into container "c"$'):
        machine.prepare(VolumeMount(name="gone", mount_path="/x"))


@needs_root
def test_a_path_within_a_volume_is_made_bound_and_released(machine: Machine) -> None:
    (machine.host / "a").mkdir()
    (machine.host / "a/data").touch()
    for mount in (
        VolumeMount(name="host", mount_path="/x", sub_path="a"),
        VolumeMount(name="host", mount_path="/x", sub_path_expr="$(NAME)"),
    ):
        (found,) = machine.prepare(mount, NAME="a")
        assert found.host_path == str(machine.paths.root / "pods/u/volume-subpaths/host/c/0")
        assert os.path.samefile(found.host_path, machine.host / "a")
    machine.prepare(VolumeMount(name="host", mount_path="/x", sub_path="new/deep"))
    assert (machine.host / "new/deep").is_dir()
    machine.mounts.remove_pod("u")
    assert not machine.paths.pod("u").exists()
    assert (machine.host / "a/data").exists(), "the data of the machine is kept"


@pytest.mark.parametrize("path", ["link", "link/secret"])
def test_errors_tell_nothing_about_the_machine(machine: Machine, path: str) -> None:
    outside = machine.host.parent / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    (machine.host / "link").symlink_to(outside)
    message = r'^failed to prepare subPath for volumeMount "host" of container "c"$'
    with pytest.raises(ContainerConfigError, match=message):
        machine.prepare(VolumeMount(name="host", mount_path="/x", sub_path=path))
    with pytest.raises(ContainerConfigError, match=r'^failed to create subPath directory for volumeMount "host" of'):
        machine.prepare(VolumeMount(name="host", mount_path="/x", sub_path="link/new"))


def test_each_run_has_a_file_for_its_termination_message(machine: Machine) -> None:
    (one,), (two,) = (machine.prepare(path="/dev/termination-log") for _ in range(2))
    assert one.container_path == "/dev/termination-log"
    assert one.host_path != two.host_path
    assert stat.S_IMODE(Path(one.host_path).stat().st_mode) == 0o666


def test_volumes_of_a_pod_that_has_ended_are_unmounted_and_its_other_files_kept(machine: Machine) -> None:
    (machine.host / "a").mkdir()
    machine.prepare(VolumeMount(name="host", mount_path="/x", sub_path="a"), path="/dev/termination-log")
    volume = machine.paths.volumes("u") / "kubernetes.io~secret" / "s"
    volume.mkdir(parents=True)
    mount_tmpfs(volume, 0)
    assert not machine.mounts.is_unmounted("u")
    machine.mounts.unmount_pod("u")
    assert machine.mounts.is_unmounted("u")
    assert not mount_points(machine.paths.root)
    assert list(machine.paths.container("u", "c").iterdir()), "the termination message"
    assert (machine.host / "a").is_dir()
