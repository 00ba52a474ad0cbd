# SPDX-License-Identifier: Apache-2.0
"""DRA manager: has the claims of a pod prepared before its containers run, and unprepared after they have ended.

*Watches*: the claims of pods, read when they are needed. *Owns*: the checkpoint `dra_manager_state`. *Wakes itself*:
each minute, to unprepare the claims of pods that are gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from kubeloop.api.features.gates import Features
from kubeloop.api.generated.core_v1 import Container, Pod, ResourceStatus
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.client import ApiError, Client, ClientError
from kubeloop.clock import Clock
from kubeloop.kubelet.cm.dra.claim_info import (
    SKIP_PREPARE,
    SKIP_UNPREPARE,
    ClaimInfo,
    UnsupportedClaimError,
    claim_info_of,
)
from kubeloop.kubelet.cm.dra.claim_info_cache import ClaimInfoCache
from kubeloop.kubelet.cm.dra.driver_calls import DynamicResourceError, prepare_claims, unprepare_claims
from kubeloop.kubelet.cm.dra.health_info import HealthInfoCache
from kubeloop.kubelet.cm.dra.metrics import DRAMetrics
from kubeloop.kubelet.cm.dra.plugin import DRAPlugin
from kubeloop.kubelet.cm.dra.plugin_manager import DRAPluginManager, UnusableDriverError
from kubeloop.kubelet.cm.dra.pod_claims import PodClaimError, check_claim, iter_claim_names, requests_of_container
from kubeloop.kubelet.cm.dra.resource_status import AllocatedResourcesStatus
from kubeloop.kubelet.cm.resource_managers import PrepareError, ResourceManager, RunOptionsError
from kubeloop.kubelet.cm.run_options import RunOptions
from kubeloop.kubelet.cri.messages.container import CDIDevice

_RECONCILE_SECONDS = 60.0
_FAILED_PREPARE = "FailedPrepareDynamicResources"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DRAManagerParts:
    """Collaborators of the manager; `active_pods` returns None until the pods are known."""

    client: Client
    clock: Clock
    claims: ClaimInfoCache
    health: HealthInfoCache
    status: AllocatedResourcesStatus | None  # without the feature gate ResourceHealthStatus
    plugins: DRAPluginManager
    metrics: DRAMetrics
    active_pods: Callable[[], Iterable[Pod] | None]


class DRAManager(ResourceManager):
    """Prepares and unprepares the claims of the pods of one node."""

    def __init__(self, parts: DRAManagerParts, features: Features) -> None:
        self._client = parts.client
        self._clock = parts.clock
        self._claims = parts.claims
        self._health = parts.health
        self._status = parts.status
        self.plugins = parts.plugins
        self._metrics = parts.metrics
        self._active_pods = parts.active_pods
        self._features = features
        parts.metrics.collect_claims(parts.claims.claims_in_use)

    async def start(self) -> None:
        """Restore the state. Raises `CorruptCheckpoint`."""
        self._claims.restore()
        self._health.restore()

    # Preparation.

    async def prepare(self, pod: Pod) -> None:
        """Have the claims of a pod prepared by their drivers. Raises `PrepareError`."""
        if not _uses_claims(pod):
            return
        began, is_error = self._clock.monotonic(), True
        try:
            await self._prepare(pod)
            is_error = False
        except (DynamicResourceError, PodClaimError, UnusableDriverError) as error:
            message = f"Failed to prepare dynamic resources: prepare dynamic resources: {error}"
            raise PrepareError(_FAILED_PREPARE, message) from None
        finally:
            seconds = self._clock.monotonic() - began
            self._metrics.observe_operation("PrepareResources", seconds, is_error=is_error)

    async def _prepare(self, pod: Pod) -> None:
        """Check all claims, add them to the checkpoint, and only then call the drivers.

        A pod that fails a check has no references: it can be deleted although its driver was never installed.
        """
        found = [
            await self._checked_info(pod, name, must_be_owned=must_be_owned)
            for name, must_be_owned in dict(iter_claim_names(pod, self._features)).items()
        ]
        for info in found:
            for driver in _drivers_to_prepare(info):
                self.plugins.get(driver)
        infos = [one for one in [self._add(pod, info) for info in found] if one is not None]
        batches: dict[DRAPlugin, list[ClaimInfo]] = {}
        for info in infos:
            for driver in _drivers_to_prepare(info):
                batches.setdefault(self.plugins.get(driver), []).append(info)
            for driver, state in info.drivers.items():
                if state.skips(SKIP_PREPARE):
                    self._metrics.count_prepare_skip(driver)
        for plugin, claims in batches.items():
            await self._call_prepare(plugin, claims)
        for info in infos:
            self._claims.set_prepared(info.namespace, info.claim_name)
        self._checkpoint("checkpoint ResourceClaim state")

    async def _checked_info(self, pod: Pod, name: str, *, must_be_owned: bool) -> ClaimInfo:
        try:
            claim = await self._client.get(ResourceClaim, name, pod.metadata.namespace)
        except (ApiError, ClientError) as error:
            raise DynamicResourceError(f"fetch ResourceClaim {name}: {error}") from None
        check_claim(pod, claim, self._features, must_be_owned=must_be_owned)
        try:
            return claim_info_of(claim, self._features)
        except UnsupportedClaimError as error:
            raise DynamicResourceError(f"ResourceClaim {name}: {error}") from None

    def _add(self, pod: Pod, new: ClaimInfo) -> ClaimInfo | None:
        """Add a pod's reference of a claim, durably; return the claim, or None if it is prepared already."""
        info = self._claims.get(new.namespace, new.claim_name)
        if info is None:
            info = new
        elif info.claim_uid != new.claim_uid:
            about = f"same name {new.claim_name} and different UID {info.claim_uid}"
            raise DynamicResourceError(f"old ResourceClaim with {about} still exists (previous pod force-deleted?!)")
        elif self._claims.is_unpreparing(info):
            raise DynamicResourceError(f"ResourceClaim {new.claim_name} is being unprepared")
        info = info.with_pod(pod.metadata.uid)
        self._claims.put(info)
        self._checkpoint("checkpoint ResourceClaim cache")
        return None if self._claims.is_prepared(info) else info

    async def _call_prepare(self, plugin: DRAPlugin, claims: list[ClaimInfo]) -> None:
        results = await prepare_claims(plugin, claims)
        for one in claims:
            info = self._claims.get(one.namespace, one.claim_name)
            if info is None:
                about = f"ResourceClaim {one.claim_name} in namespace {one.namespace}"
                raise DynamicResourceError(f"internal error: unable to get claim info for {about}")
            self._claims.put(info.with_devices(plugin.driver, results[one.claim_uid].devices))

    # Containers.

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        """Return the CDI devices of a container. Raises `RunOptionsError`."""
        try:
            requests = requests_of_container(pod, container, self._features)
        except PodClaimError as error:
            raise RunOptionsError(str(error)) from None
        found: list[str] = []
        for name, names in requests.items():
            info = self._claims.get(pod.metadata.namespace, name)
            if info is None:
                about = f"ResourceClaim {name} in namespace {pod.metadata.namespace}"
                raise RunOptionsError(f"internal error: unable to get claim info for {about}")
            found += [device for one in names for device in info.cdi_devices(one)]
        return RunOptions(cdi_devices=tuple(CDIDevice(name=one) for one in found))

    def resource_statuses(self, pod: Pod, container: str) -> tuple[ResourceStatus, ...]:
        """Return the health of the devices of a container's claims."""
        return () if self._status is None else self._status.statuses_of(pod, container)

    # Removal.

    async def unprepare(self, pod: Pod) -> None:
        """Have the claims unprepared that no other pod uses. Raises `DynamicResourceError`."""
        if not _uses_claims(pod) and not self._claims.has_pod(pod.metadata.uid):
            return
        began, is_error = self._clock.monotonic(), True
        try:
            names = self._claims.claims_of_pod(pod.metadata.uid)
            await self._unprepare(pod.metadata.uid, pod.metadata.namespace, names)
            is_error = False
        except (DynamicResourceError, UnusableDriverError) as error:
            raise DynamicResourceError(f"unprepare dynamic resources: {error}") from None
        finally:
            seconds = self._clock.monotonic() - began
            self._metrics.observe_operation("UnprepareResources", seconds, is_error=is_error)

    async def _unprepare(self, uid: str, namespace: str, names: Iterable[str]) -> None:
        last = [info for name in names if (info := self._release(uid, namespace, name)) is not None]
        batches: dict[str, list[ClaimInfo]] = {}
        for info in last:
            for driver, state in info.drivers.items():
                if state.skips(SKIP_UNPREPARE):
                    self._metrics.count_unprepare_skip(driver)
                else:
                    batches.setdefault(driver, []).append(info)
        for driver, claims in batches.items():
            await unprepare_claims(self.plugins.get(driver), claims)
        for info in last:
            self._claims.delete(info.namespace, info.claim_name)
        self._checkpoint("checkpoint ResourceClaim state")

    def _release(self, uid: str, namespace: str, name: str) -> ClaimInfo | None:
        """Drop a pod's reference of a claim; the last one stays until the claim is unprepared, and is returned."""
        info = self._claims.get(namespace, name)
        if info is None or uid not in info.pod_uids:
            return None
        if len(info.pod_uids) > 1:
            self._claims.put(info.without_pod(uid))  # durable at the end; until then the release would be repeated
            return None
        self._claims.set_unpreparing(info)
        return info

    # Claims of pods that are gone.

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the work beside the pod workers."""
        return self._run(), self.plugins.run()

    async def _run(self) -> None:
        """Unprepare the claims of inactive pods each minute, forever."""
        while True:
            await self.reconcile()
            await asyncio.sleep(_RECONCILE_SECONDS)

    async def reconcile(self) -> None:
        """Unprepare the claims of pods that are not active any more."""
        pods = self._active_pods()
        if pods is None:
            return
        active = {pod.metadata.uid for pod in pods}
        inactive: dict[tuple[str, str], list[str]] = {}
        for info in self._claims:
            for uid in info.pod_uids:
                if uid not in active:
                    inactive.setdefault((uid, info.namespace), []).append(info.claim_name)
        for (uid, namespace), names in inactive.items():
            try:
                await self._unprepare(uid, namespace, names)
            except (DynamicResourceError, UnusableDriverError) as error:
                log.info("unpreparing resources of pod %s failed, will retry: %s", uid, error)

    def _checkpoint(self, what: str) -> None:
        try:
            self._claims.checkpoint()
        except OSError as error:
            raise DynamicResourceError(f"{what}: {error}") from None


def _uses_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def _drivers_to_prepare(info: ClaimInfo) -> list[str]:
    return [driver for driver, state in info.drivers.items() if not state.skips(SKIP_PREPARE)]
