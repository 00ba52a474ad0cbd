# SPDX-License-Identifier: Apache-2.0
"""PersistentVolumeClaimResize: lets a claim grow only if it is bound and its class allows expansion."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import PersistentVolumeClaim
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup
from kubeloop.apiserver.admission.plugins.storage.default_storage_class import class_name_of


class PersistentVolumeClaimResize(AdmissionPlugin):
    """Rejects expansions of claims that are not bound, or whose class forbids it."""

    name = "PersistentVolumeClaimResize"
    resources = frozenset({"persistentvolumeclaims"})
    operations = frozenset({"UPDATE"})

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def validate(self, attempt: Attributes) -> None:
        """Reject a larger request that is not allowed."""
        claim, old = attempt.obj, attempt.old_obj
        if not isinstance(claim, PersistentVolumeClaim) or not isinstance(old, PersistentVolumeClaim):
            return
        if not _grows(claim, old):
            return
        if old.status.phase != "Bound":
            raise attempt.forbidden("Only bound persistent volume claims can be expanded")
        if not self._may_grow(claim, old):
            raise attempt.forbidden(
                "only dynamically provisioned pvc can be resized and "
                "the storageclass that provisions the pvc must support resize"
            )

    def _may_grow(self, claim: PersistentVolumeClaim, old: PersistentVolumeClaim) -> bool:
        class_name = class_name_of(claim)
        if not class_name or class_name != class_name_of(old):
            return False
        found = self._lookup.get_object("storageclasses", "", class_name, "storage.k8s.io")
        return found is not None and bool(found.allow_volume_expansion)


def _grows(claim: PersistentVolumeClaim, old: PersistentVolumeClaim) -> bool:
    wanted, present = (pvc.spec.resources.requests.get("storage", "0") for pvc in (claim, old))
    return wanted != present and parse_quantity(wanted) > parse_quantity(present)
