# SPDX-License-Identifier: Apache-2.0
"""Metrics of devices with binding conditions and of created claims, under upstream's names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.metrics import MetricRegistry

_BOUNDS: Final = tuple(0.1 * 2**power for power in range(14))


class DeviceMetrics:
    """Device metrics, shared by the plugins of all profiles because each family is registered once."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._made = registry.counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "status",
            "admin_access",
            "owner_api_group",
            "owner_api_kind",
        )
        self._allocations = registry.counter(
            "scheduler_dra_bindingconditions_allocations_total", "profile", "driver", "status",
        )  # fmt: skip
        self._waits = registry.histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds", "profile", "driver", "status", bounds=_BOUNDS,
        )  # fmt: skip

    def count_claim_creation(self, status: str) -> None:
        """Count an attempt to create a claim."""
        self._made.with_labels(status, "false", "", "Pod").increment()

    def observe_wait(self, profile: str, claims: Iterable[ResourceClaim], status: str, seconds: float) -> None:
        """Observe a pod's wait for devices; only some of the claims' devices may have caused it."""
        for claim in claims:
            for one in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
                self._waits.with_labels(profile, one.driver, status).observe(seconds)
                if one.binding_conditions:
                    self._allocations.with_labels(profile, one.driver, status).increment()
