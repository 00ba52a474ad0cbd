# SPDX-License-Identifier: Apache-2.0
"""Server of the PodResources API at `pod-resources/kubelet.sock` below the kubelet's root folder."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.clock import Clock
from kubeloop.grpc.message import GrpcMessage, M
from kubeloop.grpc.server.listener import GrpcServer
from kubeloop.grpc.server.methods import GrpcMethod, unary
from kubeloop.grpc.streams import RESOURCE_EXHAUSTED, UNKNOWN, RpcError
from kubeloop.kubelet.podresources import messages
from kubeloop.kubelet.podresources.providers import PodResourcesProviders
from kubeloop.kubelet.sync.containers import is_sidecar
from kubeloop.metrics import MetricRegistry

SOCKET_NAME = "kubelet.sock"
_QUERIES_PER_SECOND, _BURST = 100.0, 10.0
_FOLDER_MODE = 0o750
_VERSION, _ALPHA_VERSION = "v1", "v1alpha1"


class RequestLimiter:
    """Token bucket: refuses calls that exceed the rate."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens = _BURST
        self._as_of = clock.monotonic()

    def allow(self) -> bool:
        """Take a token; returns False if there is none."""
        now = self._clock.monotonic()
        self._tokens = min(_BURST, self._tokens + (now - self._as_of) * _QUERIES_PER_SECOND)
        self._as_of = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class PodResourcesMetrics:
    """Numbers of requests, under upstream's names."""

    def __init__(self, registry: MetricRegistry) -> None:
        def counter(name: str, version: str = _VERSION) -> Callable[[], None]:
            family = registry.counter(f"kubelet_pod_resources_endpoint_{name}", "server_api_version")
            return lambda: family.with_labels(version).increment()

        self.count_request = counter("requests_total")
        self.count_alpha_request = counter("requests_total", _ALPHA_VERSION)
        self.count_list = counter("requests_list")
        self.count_get = counter("requests_get")
        self.count_get_error = counter("errors_get")
        self.count_get_allocatable = counter("requests_get_allocatable")


class PodResourcesServer:
    """Tells local agents which resources the containers have."""

    def __init__(
        self, folder: Path, providers: PodResourcesProviders, limiter: RequestLimiter, metrics: PodResourcesMetrics
    ) -> None:
        self._folder = folder
        self._providers = providers
        self._limiter = limiter
        self._metrics = metrics
        methods = {
            messages.LIST_V1ALPHA1: self._limited(messages.ListPodResourcesRequest, self._list_alpha),
            messages.LIST: self._limited(messages.ListPodResourcesRequest, self._list),
            messages.GET: self._limited(messages.GetPodResourcesRequest, self._get),
            messages.GET_ALLOCATABLE: self._limited(messages.AllocatableResourcesRequest, self._get_allocatable),
        }
        self._server = GrpcServer(folder / SOCKET_NAME, methods)

    async def start(self) -> None:
        """Listen. Raises OSError."""
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        await self._server.start()

    async def run(self) -> None:
        """Wait until cancelled, then stop to listen."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._server.close()

    def _limited(self, kind: type[M], handle: Callable[[M], Awaitable[GrpcMessage]]) -> GrpcMethod:
        async def limited(request: M) -> GrpcMessage:
            if not self._limiter.allow():
                raise RpcError(RESOURCE_EXHAUSTED, "rejected by rate limit")
            return await handle(request)

        return unary(kind, limited)

    async def _list(self, request: messages.ListPodResourcesRequest) -> GrpcMessage:
        self._metrics.count_request()
        self._metrics.count_list()
        found = tuple(map(self._pod_resources, self._providers.active_pods()))
        return messages.ListPodResourcesResponse(pod_resources=found)

    async def _list_alpha(self, request: messages.ListPodResourcesRequest) -> GrpcMessage:
        """List all pods with their devices, without NUMA nodes."""
        self._metrics.count_alpha_request()
        found = tuple(map(self._alpha_pod_resources, self._providers.pods()))
        return messages.ListPodResourcesResponse(pod_resources=found)

    async def _get(self, request: messages.GetPodResourcesRequest) -> GrpcMessage:
        self._metrics.count_request()
        self._metrics.count_get()
        name, namespace = request.pod_name, request.pod_namespace
        for pod in self._providers.pods():
            if (pod.metadata.name, pod.metadata.namespace) == (name, namespace):
                return messages.GetPodResourcesResponse(pod_resources=self._pod_resources(pod))
        self._metrics.count_get_error()
        raise RpcError(UNKNOWN, f"pod {name} in namespace {namespace} not found")

    async def _get_allocatable(self, request: messages.AllocatableResourcesRequest) -> GrpcMessage:
        self._metrics.count_request()
        self._metrics.count_get_allocatable()
        providers = self._providers
        return messages.AllocatableResourcesResponse(
            devices=providers.devices.get_allocatable_devices(),
            cpu_ids=providers.cpus.get_allocatable_cpus(),
            memory=providers.memory.get_allocatable_memory(),
        )

    def _pod_resources(self, pod: Pod) -> messages.PodResourcesMessage:
        sidecars = tuple(one for one in pod.spec.init_containers if is_sidecar(one))
        return messages.PodResourcesMessage(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            containers=tuple(self._container_resources(pod, one) for one in (*sidecars, *(pod.spec.containers or ()))),
        )

    def _alpha_pod_resources(self, pod: Pod) -> messages.PodResourcesMessage:
        containers = []
        for one in pod.spec.containers or ():
            devices = self._providers.devices.get_devices(pod.metadata.uid, one.name)
            plain = tuple(msgspec.structs.replace(each, topology=None) for each in devices)
            containers.append(messages.ContainerResources(name=one.name, devices=plain))
        name, namespace = pod.metadata.name, pod.metadata.namespace
        return messages.PodResourcesMessage(name=name, namespace=namespace, containers=tuple(containers))

    def _container_resources(self, pod: Pod, container: Container) -> messages.ContainerResources:
        providers = self._providers
        return messages.ContainerResources(
            name=container.name,
            devices=providers.devices.get_devices(pod.metadata.uid, container.name),
            cpu_ids=providers.cpus.get_cpus(pod, container),
            memory=providers.memory.get_memory(pod, container),
            dynamic_resources=providers.dynamic_resources.get_dynamic_resources(pod, container),
        )
