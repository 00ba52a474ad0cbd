# SPDX-License-Identifier: Apache-2.0
"""StorageObjectInUseProtection: adds finalizers to volumes, claims and VolumeAttributesClasses."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes

# The protection controllers remove these finalizers once the object is unused.
_FINALIZERS = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "volumeattributesclasses.storage.k8s.io": "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(AdmissionPlugin):
    """Adds the protection finalizer to new storage objects."""

    name = "StorageObjectInUseProtection"
    resources = frozenset(_FINALIZERS)

    def admit(self, attempt: Attributes) -> None:
        """Add the finalizer of the kind unless the object has it."""
        assert attempt.obj is not None
        finalizer = _FINALIZERS[attempt.resource.group_resource]
        meta = attempt.obj.metadata
        if finalizer not in meta.finalizers:
            force_setattr(meta, "finalizers", (*meta.finalizers, finalizer))
