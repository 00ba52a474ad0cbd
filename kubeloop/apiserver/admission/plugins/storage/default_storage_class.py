# SPDX-License-Identifier: Apache-2.0
"""DefaultStorageClass: sets the cluster's default class on a PersistentVolumeClaim without one."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup
from kubeloop.apiserver.admission.plugins.default_classes import default_class

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


class DefaultStorageClass(AdmissionPlugin):
    """Sets the default StorageClass."""

    name = "DefaultStorageClass"
    resources = frozenset({"persistentvolumeclaims"})

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def admit(self, attempt: Attributes) -> None:
        """Set storageClassName if neither the field nor the annotation is set."""
        claim = attempt.obj
        assert isinstance(claim, PersistentVolumeClaim)
        if claim.spec.storage_class_name is not None or CLASS_ANNOTATION in claim.metadata.annotations:
            return
        default = default_class(self._lookup.list_objects("storageclasses", "", "storage.k8s.io"), _IS_DEFAULT)
        if default is not None:
            force_setattr(claim.spec, "storage_class_name", default.metadata.name)


def class_name_of(claim: PersistentVolumeClaim) -> str:
    """Return the class a claim requests; the deprecated annotation takes precedence over the field."""
    annotated = claim.metadata.annotations.get(CLASS_ANNOTATION)
    return annotated if annotated is not None else claim.spec.storage_class_name or ""
