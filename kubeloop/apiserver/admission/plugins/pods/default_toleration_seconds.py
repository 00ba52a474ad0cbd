# SPDX-License-Identifier: Apache-2.0
"""DefaultTolerationSeconds: lets pods stay on a not-ready or unreachable node for five minutes by default."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Pod, Toleration
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes

DEFAULT_SECONDS = 300


class DefaultTolerationSeconds(AdmissionPlugin):
    """Adds tolerations for the not-ready and unreachable taints."""

    name = "DefaultTolerationSeconds"
    resources = frozenset({"pods"})
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, not_ready_seconds: int = DEFAULT_SECONDS, unreachable_seconds: int = DEFAULT_SECONDS) -> None:
        self._defaults: tuple[Toleration, ...] = (
            _toleration("node.kubernetes.io/not-ready", not_ready_seconds),
            _toleration("node.kubernetes.io/unreachable", unreachable_seconds),
        )

    def admit(self, attempt: Attributes) -> None:
        """Add the default tolerations that the pod's own do not cover."""
        pod = attempt.obj
        assert isinstance(pod, Pod)
        present = pod.spec.tolerations
        missing = self._defaults
        for own in present:
            missing = tuple([default for default in missing if not _covers(own, default.key)])
        if missing:
            force_setattr(pod.spec, "tolerations", present + missing)


def _toleration(key: str, seconds: int) -> Toleration:
    return Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=seconds)


def _covers(toleration: Toleration, key: str) -> bool:
    return toleration.key in ("", key) and toleration.effect in ("", "NoExecute")
