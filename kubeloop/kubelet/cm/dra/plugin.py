# SPDX-License-Identifier: Apache-2.0
"""Client of one plugin of a DRA driver; a driver has several plugins during a rolling update."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from kubeloop.clock import Clock
from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.message import GrpcMessage, M
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cm.dra.messages import (
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
    NodeWatchResourcesRequest,
    NodeWatchResourcesResponse,
)
from kubeloop.kubelet.cm.dra.metrics import DRAMetrics
from kubeloop.kubelet.pluginmanager.registration import PluginRegistrationError

_CALL_SECONDS = 45.0
# Names under which plugins register services, newest first, with the names of these services in gRPC.
_SERVICES = {
    "v1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    "v1beta1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
}
_HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")


@dataclass(frozen=True, slots=True)
class ChosenServices:
    """Services of a plugin that the kubelet uses; no health service if the plugin has none."""

    plugin: str
    health: str


def choose_services(supported: Sequence[str]) -> ChosenServices:
    """Choose the services of a plugin: its first that the kubelet knows. Raises `PluginRegistrationError`."""
    if not supported:
        raise PluginRegistrationError("empty list of supported gRPC services (aka supported versions)")
    found = next((_SERVICES[one] for one in supported if one in _SERVICES), None)
    if found is None:
        theirs, ours = (" ".join(f'"{one}"' for one in names) for names in (supported, _SERVICES))
        raise PluginRegistrationError(
            f"none of services supported by the plugin ([{theirs}]) are supported by the kubelet ([{ours}])"
        )
    return ChosenServices(found, next((one for one in _HEALTH_SERVICES if one in supported), ""))


class DRAPlugin:
    """Plugin at one endpoint."""

    def __init__(self, driver: str, endpoint: str, services: ChosenServices, metrics: DRAMetrics, clock: Clock) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self.has_health_service = bool(services.health)
        self.channel = UnixChannel(endpoint)
        self._services = services
        self._metrics = metrics
        self._clock = clock

    async def node_prepare_resources(self, request: NodePrepareResourcesRequest) -> NodePrepareResourcesResponse:
        """Prepare claims. Raises `RpcError`."""
        return await self._call("NodePrepareResources", request, NodePrepareResourcesResponse)

    async def node_unprepare_resources(self, request: NodeUnprepareResourcesRequest) -> NodeUnprepareResourcesResponse:
        """Unprepare claims. Raises `RpcError`."""
        return await self._call("NodeUnprepareResources", request, NodeUnprepareResourcesResponse)

    def node_watch_resources(self) -> AsyncGenerator[NodeWatchResourcesResponse, None]:
        """Yield health reports until the stream fails with `RpcError`."""
        method = f"/{self._services.health}/NodeWatchResources"
        return self.channel.stream(method, NodeWatchResourcesRequest(), NodeWatchResourcesResponse)

    async def _call(self, name: str, request: GrpcMessage, response: type[M]) -> M:
        method, began, code = f"/{self._services.plugin}/{name}", self._clock.monotonic(), "OK"
        try:
            return await self.channel.invoke(method, request, response, _CALL_SECONDS)
        except RpcError as error:
            code = error.code_name
            raise
        finally:
            self._metrics.observe_call(self.driver, method, code, self._clock.monotonic() - began)
