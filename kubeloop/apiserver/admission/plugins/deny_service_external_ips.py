# SPDX-License-Identifier: Apache-2.0
"""DenyServiceExternalIPs: rejects Services that begin to use external addresses."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Service
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes


class DenyServiceExternalIPs(AdmissionPlugin):
    """Rejects external IPs that a Service does not have yet."""

    name = "DenyServiceExternalIPs"
    resources = frozenset({"services"})
    operations = frozenset({"CREATE", "UPDATE"})

    def validate(self, attempt: Attributes) -> None:
        """Reject new external IPs; present ones may stay or go."""
        assert isinstance(attempt.obj, Service)
        known = attempt.old_obj.spec.external_ips if isinstance(attempt.old_obj, Service) else ()
        if not set(attempt.obj.spec.external_ips) <= set(known):
            raise attempt.forbidden("Use of external IPs is denied by admission control")
