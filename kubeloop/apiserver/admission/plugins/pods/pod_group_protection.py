# SPDX-License-Identifier: Apache-2.0
"""PodGroupProtection: adds a finalizer, so that pod groups aren't deleted while their pods run."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes

# The protection controller removes it once no pod needs the group.
_FINALIZER = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection(AdmissionPlugin):
    """Adds the protection finalizer to new pod groups."""

    name = "PodGroupProtection"
    resources = frozenset({"podgroups.scheduling.k8s.io"})

    def admit(self, attempt: Attributes) -> None:
        """Add the finalizer unless the object has it."""
        assert attempt.obj is not None
        meta = attempt.obj.metadata
        if _FINALIZER not in meta.finalizers:
            force_setattr(meta, "finalizers", (*meta.finalizers, _FINALIZER))
