# SPDX-License-Identifier: Apache-2.0
"""Running control plane of `kubeloop up`: its components, and figures from their counters and caches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.meta.conditions import find_condition
from kubeloop.apiserver.app import ApiServer
from kubeloop.cli.local_clusters.registry import ClusterRecord
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.app import App
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.manager import LoopManager

if TYPE_CHECKING:
    from kubeloop.cli.up.real_node import RealNode


class PlaneFigures(msgspec.Struct, frozen=True):
    """Figures of a control plane at one moment."""

    pods: int
    ready_pods: int
    nodes: int
    ready_nodes: int
    loops: int
    healthy_loops: int
    errors: int  # failed reconciles since the start
    restarts: int  # of loops, since the start
    synced: bool  # False if another control plane leads: then pods and nodes are not cached here


class RunningControlPlane:
    """All started components; stopped in reverse order."""

    def __init__(
        self,
        parts: AsyncExitStack,
        record: ClusterRecord,
        server: ApiServer,
        controllers: Callable[[], App],
        managers: Sequence[Callable[[], LoopManager]],
        real_node: RealNode | None = None,
    ) -> None:
        self._parts = parts
        self.record = record
        self._server = server
        self._controllers = controllers  # each election creates another app
        self._managers = managers
        self.real_node = real_node  # this host, if it runs containers

    async def close(self) -> None:
        """Stop all components."""
        await self._parts.aclose()

    def add_task(self, work: Coroutine[None, None, None]) -> None:
        """Run a task until the control plane is closed."""
        task = asyncio.create_task(work)

        async def cancel() -> None:
            task.cancel()
            await asyncio.wait((task,))

        self._parts.push_async_callback(cancel)

    def figures(self) -> PlaneFigures:
        """Return the present figures; reads caches and counters of this process alone."""
        informers = self._controllers().informers
        pods, nodes = informers.existing(resource_of_class(Pod)), informers.existing(resource_of_class(Node))
        loops = [status for manager in self._managers for status in manager().status()]
        return PlaneFigures(
            *_ready(pods),
            *_ready(nodes),
            len(loops),
            sum(one.healthy for one in loops),
            sum(one.errors for one in loops),
            sum(one.restarts for one in loops),
            all(one is not None and one.has_synced for one in (pods, nodes)),
        )

    def count_objects(self) -> int:
        """Return the number of stored objects of all resources."""
        prefixes = {storage.resource.key_prefix for storage in self._server.registry.storages()}
        pages = (self._server.registry.store.range(prefix, limit=1) for prefix in prefixes)
        return sum(len(page.records) + page.remaining for page in pages)


def _ready(informer: Informer | None) -> tuple[int, int]:
    """Return the number of cached objects, and of those that are ready."""
    objects: Iterable[Any] = informer.list() if informer is not None else ()
    found = [find_condition(one.status.conditions, "Ready") for one in objects]
    return len(found), sum(1 for one in found if one is not None and one.status == "True")
