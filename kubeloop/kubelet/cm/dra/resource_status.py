# SPDX-License-Identifier: Apache-2.0
"""Computes `allocatedResourcesStatus` of containers: the health of the devices of their claims. Pure but for caches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubeloop.api.features.gates import Features
from kubeloop.api.generated.core_v1 import Pod, ResourceClaim, ResourceHealth, ResourceStatus
from kubeloop.kubelet.cm.dra.claim_info import ClaimDevice
from kubeloop.kubelet.cm.dra.claim_info_cache import ClaimInfoCache
from kubeloop.kubelet.cm.dra.health_info import HealthInfoCache
from kubeloop.kubelet.cm.dra.pod_claims import PodClaimError, claim_name_of


class AllocatedResourcesStatus:
    """Reads the health of the devices that are allocated to containers."""

    def __init__(self, claims: ClaimInfoCache, health: HealthInfoCache, features: Features) -> None:
        self._claims = claims
        self._health = health
        self._has_messages = features.is_enabled("ResourceHealthStatusMessage")

    def statuses_of(self, pod: Pod, container: str) -> tuple[ResourceStatus, ...]:
        """Return the health of the devices of a container's claims."""
        found: dict[str, ResourceStatus] = {}
        for claim in _claims_of(pod, container):
            name = f"claim:{claim.name}" + (f"/{claim.request}" if claim.request else "")
            found[name] = ResourceStatus(name=name, resources=tuple(self._iter_health(pod, claim)))
        return tuple(one for one in found.values() if one.resources)

    def _iter_health(self, pod: Pod, claim: ResourceClaim) -> Iterator[ResourceHealth]:
        """Yield the health of the devices of a container's claim, each ID once."""
        name = _claim_name(pod, claim.name)
        info = self._claims.get(pod.metadata.namespace, name) if name is not None else None
        if info is None:
            return
        request, seen = claim.request.partition("/")[0], set()
        for driver, state in info.drivers.items():
            for device in state.devices or ():
                id = _resource_id(driver, device)
                if id in seen or not device.serves(request):
                    continue
                seen.add(id)
                health = self._health.get(driver, device.pool_name, device.device_name)
                message = health.message if self._has_messages and health.message else None
                yield ResourceHealth(resource_id=id, health=health.health, message=message)


def _claims_of(pod: Pod, container: str) -> Sequence[ResourceClaim]:
    return next((one.resources.claims for one in pod.spec.containers or () if one.name == container), ())


def _claim_name(pod: Pod, entry_name: str) -> str | None:
    try:
        return next((claim_name_of(pod, one)[0] for one in pod.spec.resource_claims if one.name == entry_name), None)
    except PodClaimError:
        return None


def _resource_id(driver: str, device: ClaimDevice) -> str:
    if device.cdi_device_ids:
        return device.cdi_device_ids[0]
    return f"{driver}/{device.pool_name}/{device.device_name}"
