# SPDX-License-Identifier: Apache-2.0
"""Metrics of volumes and claims, and of provisioning and deletion, under upstream's names."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.pods.volumes import FILESYSTEM, class_of_claim, plugin_of
from kubeloop.clock import Clock
from kubeloop.controllers.persistentvolume_binder.provisioner import Provisioner, ProvisionRequest, VolumeInUse
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.informer.informer import Informer

_PREFIX: Final = "pv_collector"
_OF_CLAIM: Final = ("namespace", "storage_class", "volume_attributes_class")
_BOUNDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)

Counts = Counter[tuple[str, ...]]


def register_volume_metrics(registry: MetricRegistry, volumes: Informer, claims: Informer) -> None:
    """Register gauges that are computed on each scrape."""

    def of_volumes(is_bound: bool) -> Counts:
        found: list[PersistentVolume] = list(volumes.list())
        return Counter((one.spec.storage_class_name,) for one in found if (one.status.phase == "Bound") is is_bound)

    def of_claims(is_bound: bool) -> Counts:
        found: list[PersistentVolumeClaim] = list(claims.list())
        return Counter(_labels(one) for one in found if (one.status.phase == "Bound") is is_bound)

    def all_volumes() -> Counts:
        return Counter((plugin_of(one), one.spec.volume_mode or FILESYSTEM) for one in volumes.list())

    total = registry.gauge(f"{_PREFIX}_total_pv_count", "plugin_name", "volume_mode")
    total.set_collector(all_volumes)
    for word, is_bound in (("bound", True), ("unbound", False)):
        pvs = registry.gauge(f"{_PREFIX}_{word}_pv_count", "storage_class")
        pvs.set_collector(partial(of_volumes, is_bound))
        pvcs = registry.gauge(f"{_PREFIX}_{word}_pvc_count", *_OF_CLAIM)
        pvcs.set_collector(partial(of_claims, is_bound))


def _labels(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    return claim.metadata.namespace, class_of_claim(claim), claim.spec.volume_attributes_class_name or ""


class DefaultClassMetrics:
    """Counters of claims that got the default class after their creation."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.assigned = registry.counter("retroactive_storageclass_total").with_labels()
        self.failed = registry.counter("retroactive_storageclass_errors_total").with_labels()


class MeasuredProvisioner:
    """Provisioner wrapper that measures durations and counts failures."""

    def __init__(self, inner: Provisioner, registry: MetricRegistry, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._seconds = registry.histogram(
            "storage_operation_duration_seconds",
            "volume_plugin",
            "operation_name",
            "status",
            "migrated",
            bounds=_BOUNDS,
        )
        labels = ("plugin_name", "operation_name")
        self._errors = registry.counter("volume_operation_errors_total", *labels)
        self._old_errors = registry.counter("volume_operation_total_errors", *labels)

    @property
    def name(self) -> str:
        """Name of the provisioner."""
        return self._inner.name

    @property
    def takes_mount_options(self) -> bool:
        """True if the provisioner supports mount options."""
        return self._inner.takes_mount_options

    async def provision(self, request: ProvisionRequest) -> PersistentVolume:
        """Provision a volume, and measure it."""
        began = self._clock.monotonic()
        try:
            made = await self._inner.provision(request)
        except Exception:
            self._ended("provision", began, "fail-unknown")
            raise
        self._ended("provision", began, "success")
        return made

    async def delete(self, volume: PersistentVolume) -> None:
        """Delete the storage of a volume, and measure it."""
        began = self._clock.monotonic()
        try:
            await self._inner.delete(volume)
        except VolumeInUse:  # not a failure
            raise
        except Exception:
            self._ended("delete", began, "fail-unknown")
            raise
        self._ended("delete", began, "success")

    def _ended(self, what: str, began: float, status: str) -> None:
        seconds = self._clock.monotonic() - began
        self._seconds.with_labels(self.name, f"volume_{what}", status, "false").observe(seconds)
        if status != "success":
            self._errors.with_labels(self.name, what).value += 1
            self._old_errors.with_labels(self.name, what).value += 1
