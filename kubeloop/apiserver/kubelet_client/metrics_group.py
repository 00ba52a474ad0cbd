# SPDX-License-Identifier: Apache-2.0
"""metrics.k8s.io from kubelets' resource metrics, scraped every fifteen seconds as metrics-server does.

A group of this process' own nodes may be merged in; its objects come first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from kubeloop.api.errors import ApiError
from kubeloop.api.kinds import Resource
from kubeloop.api.kubelet_requests import SIMULATED_NODE_ANNOTATION, VirtualGroup
from kubeloop.api.pods.usage import NODES, PODS, MetricsWindow, metrics_object, total_usage
from kubeloop.apiserver.kubelet_client.dialer import KubeletClient
from kubeloop.apiserver.kubelet_client.resource_metrics import (
    NODE,
    MetricsBatch,
    containers_of,
    parse_scrape,
    usage_between,
)
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock

SCRAPE_SECONDS: Final = 15.0
_CONCURRENT_SCRAPES: Final = 32
_PATH: Final = "/metrics/resource"
_SIMULATED: Final = f'"{SIMULATED_NODE_ANNOTATION}":""'.encode()

log = logging.getLogger(__name__)


class KubeletMetrics:
    """Objects of the group, computed on request from the last two scrapes of each kubelet."""

    resources = (NODES, PODS)

    def __init__(
        self, registry: StorageRegistry, kubelets: KubeletClient, clock: Clock, beside: VirtualGroup | None = None
    ) -> None:
        self._registry = registry
        self._kubelets = kubelets
        self._clock = clock
        self._local_group = beside
        self._scrapes: dict[str, tuple[MetricsBatch | None, MetricsBatch]] = {}
        self._failing: set[str] = set()
        self._semaphore = asyncio.Semaphore(_CONCURRENT_SCRAPES)

    async def run(self) -> None:
        """Scrape all kubelets periodically, until cancelled."""
        while True:
            await self.scrape_all()
            await asyncio.sleep(SCRAPE_SECONDS)

    async def scrape_all(self) -> None:
        """Scrape all kubelets once."""
        storage = self._registry.storage_named("", "v1", "nodes")
        # Skips simulated nodes, possibly thousands: this process has its own metrics of them, others are unreachable.
        others = (one for one in storage.store.range(storage.prefix("")).records if _SIMULATED not in one.value)
        names = [one.key.rpartition("/")[2] for one in others]
        for gone in self._scrapes.keys() - set(names):
            del self._scrapes[gone]
        await asyncio.gather(*map(self._scrape, names))

    async def _scrape(self, name: str) -> None:
        async with self._semaphore:
            try:
                text = await self._kubelets.get_text(name, _PATH, SCRAPE_SECONDS)
            except ApiError as error:
                level = logging.DEBUG if name in self._failing else logging.WARNING
                log.log(level, "unable to read resource metrics of node %s: %s", name, error)
                self._failing.add(name)
                self._scrapes.pop(name, None)
                return
        self._failing.discard(name)
        last = self._scrapes.get(name)
        self._scrapes[name] = last[1] if last is not None else None, parse_scrape(text, self._clock.now().timestamp())

    # Served objects.

    def objects(self, resource: Resource, namespace: str, name: str = "") -> Sequence[Mapping[str, Any]]:
        """Return NodeMetrics or PodMetrics documents, of one name or of all."""
        own = list(self._local_group.objects(resource, namespace, name)) if self._local_group is not None else []
        if name and own:
            return own
        return [*own, *(self._nodes(name) if resource.plural == "nodes" else self._pods(namespace, name))]

    def _nodes(self, wanted: str) -> list[dict[str, Any]]:
        made = []
        for name, (before, now) in self._scrapes.items():
            node = self._registry.get_object("nodes", "", name) if wanted in ("", name) else None
            usage = usage_between(before, now, NODE)
            if node is not None and usage is not None:
                made.append(metrics_object(node, _moment(before, now), {"usage": total_usage([usage])}))
        return made

    def _pods(self, wanted_namespace: str, wanted: str) -> list[dict[str, Any]]:
        made = []
        for name, (before, now) in self._scrapes.items():
            for (namespace, pod_name), containers in containers_of(now).items():
                if wanted_namespace not in ("", namespace) or wanted not in ("", pod_name):
                    continue
                pod = self._registry.get_object("pods", namespace, pod_name)
                usages = {one: usage_between(before, now, (namespace, pod_name, one)) for one in containers}
                if pod is None or pod.spec.node_name != name or None in usages.values():
                    continue
                shown = [
                    {"name": one, "usage": total_usage([usage])} for one, usage in usages.items() if usage is not None
                ]
                made.append(metrics_object(pod, _moment(before, now), {"containers": shown}))
        return made


def _moment(before: MetricsBatch | None, now: MetricsBatch) -> MetricsWindow:
    window = now.at - before.at if before is not None else SCRAPE_SECONDS
    return MetricsWindow(datetime.fromtimestamp(now.at, UTC), f"{window:.3f}s")
