# SPDX-License-Identifier: Apache-2.0
"""Protocol of built-in provisioners, and the one for host paths."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from kubeloop.api.generated.core_v1 import (
    HostPathVolumeSource,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.storage_v1 import StorageClass
from kubeloop.api.pods.volumes import FILESYSTEM, STORAGE

HOST_PATH: Final = "kubernetes.io/host-path"  # upstream's, for tests on one machine; enabled only by a flag
OWN_HOST_PATH: Final = "kubeloop.io/host-path"  # ours: the kubelet creates the directory on the first mount
HOST_PATH_ROOT: Final = Path("/tmp/hostpath_pv")
OWN_HOST_PATH_ROOT: Final = Path("/var/lib/kubeloop/volumes")
_HOSTNAME: Final = "kubernetes.io/hostname"
_CREATED_BY: Final = "kubernetes.io/createdby"
_ANY_ACCESS: Final = ("ReadWriteOnce",)
# Upstream's rule for deletable host paths; its pattern is not anchored.
_DELETABLE: Final = re.compile("/tmp/.+")


class ProvisioningError(Exception):
    """Raised if no volume could be provisioned this time; the message is for the claim's author."""


class ProvisionerUnavailable(Exception):
    """Raised if the provisioner is disabled; the message gives the reason."""


class VolumeDeletionError(Exception):
    """Raised if the storage of a volume could not be deleted; the message is for users."""


class VolumeInUse(VolumeDeletionError):
    """Raised if the storage can be deleted only later; not a failure."""


@dataclass(frozen=True, slots=True)
class ProvisionRequest:
    """Requirements of a claim. `name` is stable for a claim; `node` is the node selected for its pod."""

    name: str
    claim: PersistentVolumeClaim
    storage_class: StorageClass
    node: Node | None


class Provisioner(Protocol):
    """Creates and deletes the storage of volumes. A StorageClass selects it by name."""

    @property
    def name(self) -> str:
        """Name of the provisioner."""

    @property
    def takes_mount_options(self) -> bool:
        """True if the provisioner supports mount options."""

    async def provision(self, request: ProvisionRequest) -> PersistentVolume:
        """Return the volume, not yet in the API, the same one for the same name; raises `ProvisioningError`."""

    async def delete(self, volume: PersistentVolume) -> None:
        """Delete the storage of a volume, if it still exists; raises `VolumeDeletionError` or `VolumeInUse`."""


class HostPathProvisioner:
    """Provisions directories on a node. If a node is already selected, the volume is restricted to it."""

    takes_mount_options = False

    def __init__(self, name: str, root: Path, *, enabled: bool = True, makes_directories: bool = False) -> None:
        self.name = name
        self._root = root
        self._enabled = enabled
        self._makes_directories = makes_directories

    async def provision(self, request: ProvisionRequest) -> PersistentVolume:
        """Provision a directory."""
        if not self._enabled:
            raise ProvisionerUnavailable(f'provisioning in volume plugin "{self.name}" is disabled')
        spec = request.claim.spec
        if (spec.volume_mode or FILESYSTEM) != FILESYSTEM:
            raise ProvisioningError(f"{self.name} does not support block volume provisioning")
        path = self._root / request.name
        if self._makes_directories:
            self._make(path)
        requests = spec.resources.requests if spec.resources is not None else {}
        made = PersistentVolumeSpec(
            access_modes=spec.access_modes or _ANY_ACCESS,
            capacity={STORAGE: requests[STORAGE]} if STORAGE in requests else {},
            host_path=HostPathVolumeSource(path=str(path), type="" if self._makes_directories else "DirectoryOrCreate"),
            persistent_volume_reclaim_policy=request.storage_class.reclaim_policy or "Delete",
            node_affinity=None if request.node is None else _only_on(request.node),
        )
        annotations = {_CREATED_BY: "hostpath-dynamic-provisioner"}
        return PersistentVolume(metadata=ObjectMeta(name=request.name, annotations=annotations), spec=made)

    async def delete(self, volume: PersistentVolume) -> None:
        """Remove only the directory that this provisioner would create for the volume on this machine."""
        source, name = volume.spec.host_path, volume.metadata.name
        path = Path(source.path) if source is not None else Path()
        if path == self._root / name and name not in ("", ".", ".."):
            shutil.rmtree(path, ignore_errors=True)
        elif not _DELETABLE.search(str(path)):
            raise VolumeDeletionError(f"host_path deleter only supports /tmp/.+ but received provided {path}")

    def _make(self, path: Path) -> None:
        try:
            path.mkdir(0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise ProvisioningError(str(error)) from error


def _only_on(node: Node) -> VolumeNodeAffinity:
    hostname = node.metadata.labels.get(_HOSTNAME, node.metadata.name)
    here = NodeSelectorRequirement(key=_HOSTNAME, operator="In", values=(hostname,))
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(here,)),)))


def built_in_provisioners(host_paths_enabled: bool) -> tuple[Provisioner, ...]:
    """Return the provisioners that every binder has."""
    return (
        HostPathProvisioner(HOST_PATH, HOST_PATH_ROOT, enabled=host_paths_enabled, makes_directories=True),
        HostPathProvisioner(OWN_HOST_PATH, OWN_HOST_PATH_ROOT),
    )
