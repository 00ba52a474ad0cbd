# SPDX-License-Identifier: Apache-2.0
"""Mounts of a container: its volumes, the managed /etc/hosts, and the file of its termination message."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Container, Pod, VolumeMount
from kubeloop.clock import Clock
from kubeloop.kubelet.containers.environment import expand
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.config.sandbox_config import hostname_and_domain
from kubeloop.kubelet.cri.config.security_context import ContainerConfigError
from kubeloop.kubelet.cri.messages.container import Device, Mount, MountPropagation
from kubeloop.kubelet.cri.messages.image import ImageSpec
from kubeloop.kubelet.volumes.host import subpath
from kubeloop.kubelet.volumes.host.mounter import VolumeMounter
from kubeloop.kubelet.volumes.host.mounts import remove_tree
from kubeloop.kubelet.volumes.host.payload_error import PayloadError
from kubeloop.kubelet.volumes.host.persistent import MountedVolume

_HOSTS = "/etc/hosts"
log = logging.getLogger(__name__)
_PROPAGATION = {
    None: MountPropagation.PRIVATE,
    "None": MountPropagation.PRIVATE,
    "HostToContainer": MountPropagation.HOST_TO_CONTAINER,
    "Bidirectional": MountPropagation.BIDIRECTIONAL,
}
_NODE_HOSTS_HEADER = "# Kubernetes-managed hosts file (host network).\n"
_HOSTS_FILE = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


class MountInputs(NamedTuple):
    """Inputs of a container's mounts besides the pod."""

    environment: Mapping[str, str]
    images: Mapping[str, ImageSpec] = {}  # of volumes, by their names
    supports_recursive_read_only: bool = False  # by the runtime


class ContainerMounts:
    """Prepares the mounts of containers on the machine."""

    def __init__(
        self, paths: NodePaths, volumes: VolumeMounter, cluster_domain: str, clock: Clock, *, relabels: bool = False
    ) -> None:
        self._relabels = relabels  # SELinux is enabled
        self._paths = paths
        self._volumes = volumes
        self._cluster_domain = cluster_domain
        self._clock = clock

    def prepare(self, pod: Pod, container: Container, inputs: MountInputs) -> tuple[Mount, ...]:
        """Return the mounts of a container of a pod that has its addresses. Raises `ContainerConfigError`."""
        mounts = [self._volume_mount(pod, container, at, inputs) for at in range(len(container.volume_mounts))]
        if self._needs_hosts_file(pod, container):
            mounts.append(self._hosts_mount(pod))
        if container.termination_message_path:
            mounts.append(self._termination_message_mount(pod, container))
        return tuple(mounts)

    def devices(self, pod: Pod, container: Container) -> tuple[Device, ...]:
        """Return the block devices of a container. Raises `ContainerConfigError`."""
        found = []
        for wanted in container.volume_devices:
            volume = self._locate(pod, container, wanted.name)
            permissions = "r" if volume.read_only else "mrw"
            device = Device(container_path=wanted.device_path, host_path=str(volume.path), permissions=permissions)
            found.append(device)
        return tuple(found)

    def unmount_pod(self, uid: str) -> None:
        """Unmount and remove the volumes of a pod whose containers have ended."""
        subpath.release(self._paths.pod(uid) / "volume-subpaths")
        self._volumes.tear_down(uid)

    def is_unmounted(self, uid: str) -> bool:
        """Return True if nothing is left of the volumes of a pod."""
        return not self._paths.volumes(uid).exists()

    def remove_pod(self, uid: str) -> None:
        """Unmount and remove everything of a pod."""
        self.unmount_pod(uid)
        if not remove_tree(self._paths.pod(uid)):
            log.warning("files of pod %s are kept: something is still mounted there", uid)

    def _volume_mount(self, pod: Pod, container: Container, index: int, inputs: MountInputs) -> Mount:
        mount = container.volume_mounts[index]
        path = expand(mount.sub_path_expr, inputs.environment) if mount.sub_path_expr else mount.sub_path
        is_recursive = resolve_recursive_read_only(mount, inputs.supports_recursive_read_only)
        propagation = _PROPAGATION[mount.mount_propagation]
        if (image := inputs.images.get(mount.name)) is not None:
            return Mount(
                container_path=mount.mount_path,
                readonly=True,
                propagation=propagation,
                recursive_read_only=is_recursive,
                image=image,
                image_sub_path=path,
            )
        volume = self._locate(pod, container, mount.name)
        source = volume.path
        if path:
            target = self._paths.pod(pod.metadata.uid) / "volume-subpaths" / mount.name / container.name / str(index)
            source = _bind_sub_path(source, path, target, f'volumeMount "{mount.name}" of container "{container.name}"')
        return Mount(
            container_path=mount.mount_path,
            host_path=str(source),
            readonly=mount.read_only or volume.read_only,
            propagation=propagation,
            selinux_relabel=self._relabels and volume.can_relabel,
            recursive_read_only=is_recursive,
        )

    def _locate(self, pod: Pod, container: Container, name: str) -> MountedVolume:
        volume = next((one for one in pod.spec.volumes if one.name == name), None)
        if volume is None:
            raise ContainerConfigError(f'cannot find volume "{name}" to mount into container "{container.name}"')
        try:
            return self._volumes.locate(pod, volume)
        except PayloadError as error:
            raise ContainerConfigError(str(error)) from None

    def _needs_hosts_file(self, pod: Pod, container: Container) -> bool:
        if any(one.mount_path == _HOSTS for one in container.volume_mounts):
            return False
        return bool(pod.status.pod_ips) or bool(pod.spec.host_network)

    def _hosts_mount(self, pod: Pod) -> Mount:
        path = self._paths.hosts_file(pod.metadata.uid)
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        path.write_text(hosts_file(pod, self._cluster_domain, Path(_HOSTS)))
        path.chmod(0o644)
        return Mount(container_path=_HOSTS, host_path=str(path), selinux_relabel=True)

    def _termination_message_mount(self, pod: Pod, container: Container) -> Mount:
        folder = self._paths.container(pod.metadata.uid, container.name)
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        path = folder / f"{self._clock.random().getrandbits(32):08x}"
        path.touch()
        path.chmod(0o666)  # the container's user writes it
        return Mount(
            container_path=container.termination_message_path, host_path=str(path), selinux_relabel=self._relabels
        )


def hosts_file(pod: Pod, cluster_domain: str, node_hosts: Path) -> str:
    """Return the content of a pod's /etc/hosts: that of the node, in the node's network, or one of its own."""
    if pod.spec.host_network:
        lines = [_NODE_HOSTS_HEADER, node_hosts.read_text()]
    else:
        hostname, domain = hostname_and_domain(pod, cluster_domain)
        names = f"{hostname}.{domain}\t{hostname}" if domain else hostname
        lines = [_HOSTS_FILE, *(f"{one.ip}\t{names}\n" for one in pod.status.pod_ips)]
    if pod.spec.host_aliases:
        lines.append("\n# Entries added by HostAliases.\n")
        lines += [f"{one.ip}\t{chr(9).join(one.hostnames)}\n" for one in pod.spec.host_aliases]
    return "".join(lines)


def _bind_sub_path(source: Path, path: str, target: Path, where: str) -> Path:
    """Bind a path within a volume, which is created if it is missing. Raises `ContainerConfigError`."""
    try:  # the details of errors would tell about the machine's files
        if not (source / path).exists():
            subpath.make_folder(source, path)
    except (subpath.SubPathError, OSError):
        raise ContainerConfigError(f"failed to create subPath directory for {where}") from None
    try:
        return subpath.bind(source, path, target)
    except (subpath.SubPathError, OSError):
        raise ContainerConfigError(f"failed to prepare subPath for {where}") from None


def resolve_recursive_read_only(mount: VolumeMount, is_supported: bool) -> bool:
    """Return True if a mount is to be read-only with everything below it. Raises `ContainerConfigError`."""
    mode, failed = mount.recursive_read_only, "failed to resolve recursive read-only mode"
    if mode in (None, "", "Disabled"):
        return False
    wanted = f'{failed}: volume "{mount.name}" requested recursive read-only mode, but it is not'
    if not mount.read_only:
        raise ContainerConfigError(f"{wanted} read-only")
    if mount.mount_propagation not in (None, "None"):
        raise ContainerConfigError(f'{wanted} compatible with propagation "{mount.mount_propagation}"')
    if mode == "Enabled" and not is_supported:
        raise ContainerConfigError(f"{wanted} supported by the runtime")
    return is_supported
