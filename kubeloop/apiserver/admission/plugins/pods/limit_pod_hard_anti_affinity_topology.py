# SPDX-License-Identifier: Apache-2.0
"""LimitPodHardAntiAffinityTopology: allows required pod anti-affinity only among nodes."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes

_HOSTNAME = "kubernetes.io/hostname"


class LimitPodHardAntiAffinityTopology(AdmissionPlugin):
    """Rejects required anti-affinity with a topology key other than the hostname."""

    name = "LimitPodHardAntiAffinityTopology"
    resources = frozenset({"pods"})
    operations = frozenset({"CREATE", "UPDATE"})

    def validate(self, attempt: Attributes) -> None:
        """Reject the first term with another topology key."""
        assert isinstance(attempt.obj, Pod)
        affinity = attempt.obj.spec.affinity
        if affinity is None or affinity.pod_anti_affinity is None:
            return
        for term in affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution:
            if term.topology_key != _HOSTNAME:
                raise attempt.forbidden(
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey "
                    f"{term.topology_key} but only key {_HOSTNAME} is allowed"
                )
