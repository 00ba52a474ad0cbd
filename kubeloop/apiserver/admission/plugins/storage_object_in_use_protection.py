"""StorageObjectInUseProtection: volumes, claims and their attribute classes aren't deleted while in use."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.apiserver.admission import Attempt, Plugin

# The protection controllers take these finalizers away once nothing uses the object.
_FINALIZERS = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "volumeattributesclasses.storage.k8s.io": "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(Plugin):
    name = "StorageObjectInUseProtection"
    resources = frozenset(_FINALIZERS)

    def admit(self, attempt: Attempt) -> None:
        assert attempt.obj is not None
        finalizer = _FINALIZERS[attempt.resource.qualified]
        meta = attempt.obj.metadata
        if finalizer not in meta.finalizers:
            force_setattr(meta, "finalizers", (*meta.finalizers, finalizer))
