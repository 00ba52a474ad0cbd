# SPDX-License-Identifier: Apache-2.0
"""The metrics APIs, as far as tests of autoscalers need them: in front of a cluster's own API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as changed
from typing import Any
from urllib.parse import urlsplit

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.requests import Call, ListResult
from kubeloop.api.scalars.times import format_time
from kubeloop.api.selectors import parse_label_selector
from kubeloop.api.unstructured import Unstructured
from kubeloop.client import Client
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.testing import Cluster
from tests.controllers.replicas import NS, as_account

Amounts = Mapping[str, str]


class Metrics:
    """Metrics APIs with given values in front of a cluster's own API."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.use: Amounts | None = None  # of each pod by resource; None where there is no metrics API
        self.custom: dict[str, str] | None = None  # by the end of the path
        self.external: dict[str, list[str]] | None = None
        self.asked: list[str] = []

    def context(self, account: str = "") -> ControllerContext:
        return self.before(as_account(self._cluster, account) if account else self._cluster.context)

    def before(self, context: ControllerContext) -> ControllerContext:
        """Return the context with a client that sees these metrics."""
        inner: Any = context.client._caller._transport
        return changed(context, client=Client(_Transport(inner, self)))

    async def pods(self, namespace: str, labels: str) -> ListResult:
        if self.use is None:
            raise errors.generic_server_response(404)
        chosen = parse_label_selector(labels)
        pods = [one for one in await self._cluster_pods(namespace) if chosen.matches(one.metadata.labels)]
        now = format_time(self._cluster.clock.now())
        items = tuple(
            Unstructured(
                {
                    "metadata": {"name": one.metadata.name, "namespace": namespace},
                    "timestamp": now,
                    "window": "30s",
                    "containers": [{"name": "app", "usage": dict(self.use)}],
                }
            )
            for one in pods
        )
        return ListResult(items=items, resource_version="1")

    async def _cluster_pods(self, namespace: str) -> list[Pod]:
        return list((await self._cluster.async_client.list(Pod, namespace)).items)

    async def document(self, path: str) -> Any:
        self.asked.append(path)
        parts = urlsplit(path)
        if path == "/apis":
            versions = [{"version": "v1beta1"}, {"version": "v1beta2"}]
            group = {"name": "custom.metrics.k8s.io", "versions": versions, "preferredVersion": versions[0]}
            return {"groups": [group] if self.custom is not None else []}
        if "custom.metrics" in path and self.custom is not None:
            return await self._custom(parts.path)
        if "external.metrics" in path and self.external is not None:
            values = self.external.get(parts.path.rpartition("/")[2], [])
            return {"items": [{"metricName": "x", "value": one} for one in values]}
        raise errors.generic_server_response(404)

    async def _custom(self, path: str) -> Any:
        assert self.custom is not None
        now = format_time(self._cluster.clock.now())
        value = next(value for end, value in self.custom.items() if path.endswith(end))
        names = [one.metadata.name for one in await self._cluster_pods(NS)] if "/pods/*/" in path else ["thing"]
        items = [{"describedObject": {"name": one}, "timestamp": now, "value": value} for one in names]
        return {"items": items}


class _Transport:
    def __init__(self, inner: Any, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics

    async def call(self, call: Call) -> Any:
        if call.resource.group == "metrics.k8s.io":
            return await self._metrics.pods(call.namespace, call.options.get("labelSelector", ""))
        return await self._inner.call(call)

    async def document(self, path: str) -> Any:
        if path != "/apis" and "metrics.k8s.io" not in path:
            return await self._inner.document(path)
        return await self._metrics.document(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
