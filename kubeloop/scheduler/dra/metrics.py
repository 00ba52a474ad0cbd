"""Metrics of devices with binding conditions and of created claims, under upstream's names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.runtime.metrics import MetricRegistry

_BOUNDS: Final = tuple(0.1 * 2**power for power in range(14))


class DeviceMetrics:
    """Device metrics, shared by the plugins of all profiles because each family is registered once."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._made = registry.counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Attempts to make a claim.", "status", "admin_access", "owner_api_group", "owner_api_kind",
        )  # fmt: skip
        self._allocations = registry.counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Devices that had to be waited for, by what came of it.", "profile", "driver", "status",
        )  # fmt: skip
        self._waits = registry.histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "How long pods waited for devices.", "profile", "driver", "status", bounds=_BOUNDS,
        )  # fmt: skip

    def made(self, status: str) -> None:
        """Count an attempt to create a claim."""
        self._made.of(status, "false", "", "Pod").value += 1

    def waited(self, profile: str, claims: Iterable[ResourceClaim], status: str, seconds: float) -> None:
        """Observe a pod's wait for devices; only some of the claims' devices may have caused it."""
        for claim in claims:
            for one in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
                self._waits.of(profile, one.driver, status).observe(seconds)
                if one.binding_conditions:
                    self._allocations.of(profile, one.driver, status).value += 1
