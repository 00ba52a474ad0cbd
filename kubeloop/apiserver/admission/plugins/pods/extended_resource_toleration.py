# SPDX-License-Identifier: Apache-2.0
"""ExtendedResourceToleration: lets pods that request extended resources onto the nodes dedicated to them."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Pod, Toleration
from kubeloop.api.quota.resource_names import is_extended_resource
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes


class ExtendedResourceToleration(AdmissionPlugin):
    """Adds a toleration for each requested extended resource."""

    name = "ExtendedResourceToleration"
    resources = frozenset({"pods"})
    operations = frozenset({"CREATE", "UPDATE"})

    def admit(self, attempt: Attributes) -> None:
        """Add or replace the tolerations, sorted by resource name."""
        pod = attempt.obj
        assert isinstance(pod, Pod)
        requested = {
            name
            for container in (*(pod.spec.containers or ()), *pod.spec.init_containers)
            for name in container.resources.requests
            if is_extended_resource(name)
        }
        for name in sorted(requested):
            toleration = Toleration(key=name, operator="Exists", effect="NoSchedule")
            present = pod.spec.tolerations
            if toleration in present:
                continue
            replaced = tuple(toleration if _matches(toleration, one) else one for one in present)
            if not any(_matches(toleration, one) for one in present):
                replaced = (*present, toleration)
            force_setattr(pod.spec, "tolerations", replaced)


def _matches(one: Toleration, other: Toleration) -> bool:
    """Return True if two tolerations are the same apart from their seconds."""
    return (one.key, one.effect, one.operator, one.value) == (other.key, other.effect, other.operator, other.value)
