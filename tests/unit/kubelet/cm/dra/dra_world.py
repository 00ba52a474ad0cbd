# SPDX-License-Identifier: Apache-2.0
"""A node with drivers and claims in memory, whose kubelet may be killed at any step."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.core_v1 import Container, Pod, PodResourceClaim, PodSpec, ResourceRequirements
from kubeloop.api.generated.core_v1 import ResourceClaim as ContainerClaim
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.resource_v1 import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from kubeloop.clock import SystemClock
from kubeloop.grpc.streams import UNAVAILABLE, RpcError
from kubeloop.kubelet.checkpoints.store import CheckpointStore
from kubeloop.kubelet.cm.dra.claim_info_cache import ClaimInfoCache
from kubeloop.kubelet.cm.dra.health_info import HealthInfoCache
from kubeloop.kubelet.cm.dra.manager import DRAManager, DRAManagerParts
from kubeloop.kubelet.cm.dra.messages import (
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
    PreparedDevice,
)
from kubeloop.kubelet.cm.dra.metrics import DRAMetrics
from kubeloop.kubelet.cm.dra.plugin_manager import DRAPluginManager, UnusableDriverError
from kubeloop.kubelet.cm.dra.resource_status import AllocatedResourcesStatus
from kubeloop.metrics import MetricRegistry
from tests.unit.kubelet.fake_client import FakeClient


class KilledError(BaseException):
    """Raised where the kubelet is killed."""


def claim(name: str, *drivers: str, pods: Iterable[str], uid: str = "", skips: tuple[str, ...] = ()) -> ResourceClaim:
    """Return an allocated claim that is reserved for pods."""
    results = tuple(DeviceRequestAllocationResult(driver=one, skip_node_operations=skips) for one in drivers)
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results))
    reserved = tuple(ResourceClaimConsumerReference(resource="pods", name=one, uid=one) for one in pods)
    meta = ObjectMeta(name=name, namespace="ns", uid=uid or f"uid-{name}")
    return ResourceClaim(metadata=meta, status=ResourceClaimStatus(allocation=allocation, reserved_for=reserved))


def pod(name: str, *claims: str) -> Pod:
    """Return a pod whose container uses claims; its UID is its name."""
    used = ResourceRequirements(claims=tuple(ContainerClaim(name=one) for one in claims))
    entries = tuple(PodResourceClaim(name=one, resource_claim_name=one) for one in claims)
    spec = PodSpec(containers=(Container(name="c", resources=used),), resource_claims=entries)
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=name), spec=spec)


class MemoryStore:
    """Checkpoints in memory: each write is a step at which the kubelet may be killed, before or after it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.files: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def write(self, name: str, content: bytes) -> None:
        self._world.step()
        if self._world.is_disk_full:
            raise OSError(28, "No space left on device")
        self.files[name] = content
        self._world.step()


class FakePlugin:
    """Plugin of a driver; each call is a step before and after its effect."""

    def __init__(self, world: World, driver: str) -> None:
        self._world, self.driver = world, driver

    async def node_prepare_resources(self, request: NodePrepareResourcesRequest) -> NodePrepareResourcesResponse:
        self._begin("prepare", request)
        answers = {}
        for one in request.claims:
            error = self._world.failures.get((self.driver, one.name), "")
            if not error:
                self._world.prepared.add((self.driver, one.uid))
            device = PreparedDevice(request_names=("r",), cdi_device_ids=(f"{self.driver}/d={one.name}",))
            answers[one.uid] = NodePrepareResourceResponse(devices=() if error else (device,), error=error)
        self._world.step()
        return self._world.answer or NodePrepareResourcesResponse(claims=answers)

    async def node_unprepare_resources(self, request: NodeUnprepareResourcesRequest) -> NodeUnprepareResourcesResponse:
        self._begin("unprepare", request)
        answers = {}
        for one in request.claims:
            error = self._world.failures.get((self.driver, one.name), "")
            if not error:
                self._world.prepared.discard((self.driver, one.uid))
            answers[one.uid] = NodeUnprepareResourceResponse(error=error)
        self._world.step()
        return NodeUnprepareResourcesResponse(claims=answers)

    def _begin(self, what: str, request: NodePrepareResourcesRequest | NodeUnprepareResourcesRequest) -> None:
        self._world.step()
        self._world.calls.append((what, self.driver, tuple(one.name for one in request.claims)))
        if self.driver in self._world.broken:
            raise RpcError(UNAVAILABLE, "broken")


class World:
    """Drivers, claims and pods, and the kubelet's manager; `start` begins a new one with the same files."""

    def __init__(self, *drivers: str, features: Features = DEFAULT_FEATURES) -> None:
        self.client = FakeClient()
        self.plugins = {one: FakePlugin(self, one) for one in drivers}
        self.failures: dict[tuple[str, str], str] = {}
        self.broken: set[str] = set()
        self.prepared: set[tuple[str, str]] = set()  # drivers and UIDs of claims
        self.calls: list[tuple[str, str, tuple[str, ...]]] = []
        self.answer: NodePrepareResourcesResponse | None = None
        self.pods: dict[str, Pod] | None = {}
        self.steps_left: int | None = None
        self.is_disk_full = False
        self.store = MemoryStore(self)
        self.registry = MetricRegistry()
        self._features = features
        self.start()

    def start(self) -> None:
        """Start a kubelet."""
        store = cast(CheckpointStore, self.store)
        clock = SystemClock()
        self.registry = MetricRegistry()
        self.claims, self.health = ClaimInfoCache(store), HealthInfoCache(store, clock)
        status = AllocatedResourcesStatus(self.claims, self.health, self._features)
        metrics = DRAMetrics(self.registry)
        plugins = cast(DRAPluginManager, SimpleNamespace(get=self._get_plugin))
        parts = DRAManagerParts(
            self.client.as_client(), clock, self.claims, self.health, status, plugins, metrics, self._active_pods
        )
        self.manager = DRAManager(parts, self._features)
        self.claims.restore()

    def step(self) -> None:
        """Take note of a step; the kubelet may be killed here."""
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                self.steps_left = None
                raise KilledError

    def _get_plugin(self, driver: str) -> Any:
        if driver not in self.plugins:
            raise UnusableDriverError(f"DRA driver {driver} is not registered")
        return self.plugins[driver]

    def _active_pods(self) -> list[Pod] | None:
        return None if self.pods is None else list(self.pods.values())
