"""PodGroupProtection: pod groups aren't deleted while pods of theirs run."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.apiserver.admission import Attempt, Plugin

# The protection controller takes it away once no pod needs the group.
_FINALIZER = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection(Plugin):
    name = "PodGroupProtection"
    resources = frozenset({"podgroups.scheduling.k8s.io"})

    def admit(self, attempt: Attempt) -> None:
        assert attempt.obj is not None
        meta = attempt.obj.metadata
        if _FINALIZER not in meta.finalizers:
            force_setattr(meta, "finalizers", (*meta.finalizers, _FINALIZER))
