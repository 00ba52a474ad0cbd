# SPDX-License-Identifier: Apache-2.0
"""Endpoints of a node's kubelet for monitoring: health, metrics, usage, configuration, and pages of the program."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubeloop.api.kubelet_requests import NodeRequest, NodeResponse
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.agent_config import NodePage
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.server.endpoints import NOT_FOUND, EndpointHandler
from kubeloop.kubelet.server.stats import RealStatsProvider, StatsProvider
from kubeloop.metrics import HealthCheckMetrics

_JSON = "application/json"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_HEALTH = ("ping", "log", "syncloop")


class StatusEndpoints:
    """Status endpoints of every node of an agent."""

    def __init__(
        self,
        served_nodes: ServedNodes,
        statistics: StatsProvider,
        pages: Mapping[str, NodePage],
        real_stats: RealStatsProvider | None = None,
    ) -> None:
        self._real_stats = real_stats
        self._served_nodes = served_nodes
        self._pages = pages
        self._statistics = statistics
        self._health_metrics: dict[str, HealthCheckMetrics] = {}

    def handlers(self) -> dict[str, EndpointHandler]:
        """Return the endpoints by the first path segment."""
        return {
            "healthz": self._health,
            "metrics": self._metrics,
            "stats": self._stats,
            "configz": self._configz,
            **dict.fromkeys(self._pages, self._page),
        }

    async def _health(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        if rest and rest[0] not in _HEALTH:
            return NOT_FOUND
        if not rest:
            metrics = self._health_metrics_of(node)
            for check in _HEALTH:
                metrics.observe(check, "healthz", passed=True)
        if "verbose" not in (name for name, _ in request.query):
            return NodeResponse(200, b"ok")
        said = "".join(f"[+]{check} ok\n" for check in rest or _HEALTH)
        return NodeResponse(200, f"{said}healthz check passed\n".encode())

    def _health_metrics_of(self, node: str) -> HealthCheckMetrics:
        return self._health_metrics.setdefault(node, HealthCheckMetrics())

    async def _metrics(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        match rest:
            case []:
                text = self._statistics.kubelet_metrics(node)
            case ["resource"]:
                real = self._real_stats
                text = await real.resource_metrics() if real is not None else self._statistics.resource_metrics(node)
            case ["cadvisor"]:
                return await self._container_metrics(node)
            case ["probes"]:
                text = self._statistics.probe_metrics(node)
            case ["slis"]:
                return NodeResponse(200, self._health_metrics_of(node).respond(request.method), _METRICS)
            case _:
                return NOT_FOUND
        return NodeResponse(200, text.encode(), _METRICS)

    async def _container_metrics(self, node: str) -> NodeResponse:
        if self._real_stats is None:
            return NodeResponse(200, self._statistics.container_metrics(node).encode(), _METRICS)
        try:
            return NodeResponse(200, (await self._real_stats.container_metrics()).encode(), _METRICS)
        except RpcError as error:
            return NodeResponse(500, error.format().encode())

    async def _stats(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        found = self._served_nodes.get(node)
        if rest != ["summary"] or found is None:
            return NOT_FOUND
        if self._real_stats is None:
            return NodeResponse(200, msgspec.json.encode(self._statistics.summary(found)), _JSON)
        try:
            return NodeResponse(200, msgspec.json.encode(await self._real_stats.summary()), _JSON)
        except RpcError as error:
            return NodeResponse(500, f"Internal Error: {error.format()}".encode())

    async def _configz(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        shown = {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "authentication": {"x509": {}, "webhook": {"enabled": True}, "anonymous": {"enabled": False}},
            "authorization": {"mode": "Webhook"},
            "nodeStatusUpdateFrequency": "10s",
            "nodeStatusReportFrequency": "5m0s",
            "nodeLeaseDurationSeconds": 40,
        }
        return NodeResponse(200, msgspec.json.encode({"kubeletconfig": shown}), _JSON)

    async def _page(self, node: str, request: NodeRequest, rest: list[str]) -> NodeResponse:
        return NOT_FOUND if rest else self._pages[request.path.strip("/")](request)
