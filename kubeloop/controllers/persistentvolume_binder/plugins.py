# SPDX-License-Identifier: Apache-2.0
"""Finds the provisioner that creates or deletes a volume: built-in, external, or none. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubeloop.api.generated.core_v1 import PersistentVolume
from kubeloop.api.pods.volumes import CSI_DRIVERS, MIGRATED_TO, PROVISIONED_BY
from kubeloop.controllers.persistentvolume_binder.binding_patches import IN_TREE
from kubeloop.controllers.persistentvolume_binder.provisioner import HOST_PATH, Provisioner

# Volume plugins that upstream knows and that can be neither provisioned nor deleted.
_KNOWN: Final = frozenset({"kubernetes.io/nfs", "kubernetes.io/iscsi", "kubernetes.io/fc", "kubernetes.io/csi"})


class NoPlugin(LookupError):
    """Raised if no provisioner exists; the message is upstream's."""


class Plugins:
    """Built-in provisioners by name."""

    def __init__(self, provisioners: Iterable[Provisioner]) -> None:
        self._by_name: Mapping[str, Provisioner] = {one.name: one for one in provisioners}

    @property
    def names(self) -> frozenset[str]:
        """Names of the built-in provisioners."""
        return frozenset(self._by_name)

    def provisioner_of(self, provisioner: str) -> Provisioner | None:
        """Return the provisioner of a class; None if it is external."""
        return None if provisioner in CSI_DRIVERS else self._named(provisioner, "provisionable")

    def deleter_of(self, volume: PersistentVolume) -> Provisioner | None:
        """Return the provisioner that deletes a volume's storage; None if it is external."""
        annotations = volume.metadata.annotations
        if provisioner := annotations.get(PROVISIONED_BY):
            return self._named(provisioner, "deletable")
        if MIGRATED_TO in annotations or volume.spec.csi is not None:
            return None
        if volume.spec.host_path is not None:
            return self._by_name[HOST_PATH]
        spec = volume.spec
        is_known = spec.nfs is not None or spec.iscsi is not None or spec.fc is not None
        why = "no deletable volume plugin matched" if is_known else "no volume plugin matched"
        raise NoPlugin(f'error getting deleter volume plugin for volume "{volume.metadata.name}": {why}')

    def _named(self, name: str, able: str) -> Provisioner | None:
        found = self._by_name.get(name)
        if found is None and name.startswith(IN_TREE):
            raise NoPlugin(
                f"no {able} volume plugin matched" if name in _KNOWN else f"no volume plugin matched name: {name}"
            )
        return found
