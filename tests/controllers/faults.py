# SPDX-License-Identifier: Apache-2.0
"""Faults around a controller: broken watches, failing calls, lost responses, and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import Wire
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.testing import Cluster

Step = tuple[str, int]
NETWORK = ("drop watches", "expire watches", "late watch", "conflict", "refuse create", "refuse delete", "refuse patch")
LOSSES = ("lose create", "lose delete", "lose patch", "crash")


def steps(*names: str, most: int = 20) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 7)), max_size=most)


class ControllerProcess:
    """Controller with its own caches, as in a separate process."""

    def __init__(self, cluster: Cluster, wire: Wire) -> None:
        self._cluster = cluster
        self._wire = wire
        self._start()

    def _start(self) -> None:
        self._informers = SharedInformerFactory(self._cluster.async_client, self._cluster.clock)
        context = replace(self._cluster.context, informers=self._informers)

        async def begin() -> None:
            self._informers.start()

        self._loop = self._wire(context)
        self._cluster.run(begin())
        self._cluster.start(self._loop)

    def cached(self, what: type[Any], name: str, namespace: str = "") -> Any:
        """Return an object as the loop's cache has it, or None."""
        return self._informers.for_resource(resource_of_class(what)).get(namespace, name)

    def disturb(self, name: str, number: int) -> None:
        if name == "crash":
            self._crash(number)
            return
        faults, times = self._cluster.faults, number + 1
        disturbances: dict[str, Callable[[], Any]] = {
            "drop watches": faults.drop_watches,
            "expire watches": faults.expire_watches,
            "late watch": lambda: (faults.delay(number, "watch", times=2), faults.drop_watches()),
            "conflict": lambda: faults.conflict("patch", times=times),
            "refuse create": lambda: faults.fail("create", times=times),
            "refuse delete": lambda: faults.fail("delete", times=times),
            "refuse patch": lambda: faults.fail("patch", times=times),
            "lose create": lambda: faults.lose_answers("create", times=times),
            "lose delete": lambda: faults.lose_answers("delete", times=times),
            "lose patch": lambda: faults.lose_answers("patch", times=times),
        }
        disturbances[name]()

    def _crash(self, turns: int) -> None:
        """Killed after so many turns of the event loop, wherever it waits then; another one takes its place."""

        async def run_on() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self._cluster.run(run_on())
        self._cluster.stop(self._loop)
        self._cluster.run(self._informers.stop())
        self._start()
