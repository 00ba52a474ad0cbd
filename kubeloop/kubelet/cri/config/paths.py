# SPDX-License-Identifier: Apache-2.0
"""Folders of a kubelet on its machine, with the kubelet's names. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kubeloop.api.generated.core_v1 import Pod

_TERMINATION_LOGS = "containers"


@dataclass(frozen=True, slots=True)
class NodePaths:
    """Root folder of the kubelet (`--root-dir`) and folder of the pods' logs."""

    root: Path = Path("/var/lib/kubelet")
    pod_logs: Path = Path("/var/log/pods")

    def pod(self, uid: str) -> Path:
        """Return the folder of a pod."""
        return self.root / "pods" / uid

    def volumes(self, uid: str) -> Path:
        """Return the folder of a pod's volumes."""
        return self.pod(uid) / "volumes"

    def volume_devices(self, uid: str) -> Path:
        """Return the folder of links to a pod's block devices."""
        return self.pod(uid) / "volumeDevices"

    def plugin(self, uid: str, plugin: str, volume: str) -> Path:
        """Return the folder in which a plugin keeps its notes about a pod's volume."""
        return self.pod(uid) / "plugins" / plugin / volume

    def container(self, uid: str, name: str) -> Path:
        """Return the folder of a container's termination messages."""
        return self.pod(uid) / _TERMINATION_LOGS / name

    def hosts_file(self, uid: str) -> Path:
        """Return the file that is mounted as /etc/hosts."""
        return self.pod(uid) / "etc-hosts"

    def logs(self, pod: Pod) -> Path:
        """Return the folder of a pod's logs."""
        about = pod.metadata
        return self.pod_logs / f"{about.namespace}_{about.name}_{about.uid}"

    def container_logs(self) -> Path:
        """Return the folder of links to the logs of all containers, beside the folder of the pods' logs."""
        return self.pod_logs.parent / "containers"

    def plugins_registry(self) -> Path:
        """Return the folder of the registration sockets of plugins."""
        return self.root / "plugins_registry"

    def checkpoints(self) -> Path:
        """Return the folder of checkpoints of containers."""
        return self.root / "checkpoints"

    def device_plugins(self) -> Path:
        """Return the folder of the sockets of device plugins."""
        return self.root / "device-plugins"

    def pod_resources(self) -> Path:
        """Return the folder of the socket of the PodResources API."""
        return self.root / "pod-resources"

    def seccomp(self) -> Path:
        """Return the folder of seccomp profiles."""
        return self.root / "seccomp"
