# SPDX-License-Identifier: Apache-2.0
"""Client with a cache of all pods: ours, the official one, or kopf's, each in its own process.

Prints a line of JSON when the copy is complete, and another when it has followed so many changes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.figures import NAMESPACE


class Meter:
    """Time, processor time and memory since it was made."""

    def __init__(self, pods: int, changes: int) -> None:
        self.pods, self.changes = pods, changes
        gc.collect()
        self._resident = _resident_mib()
        self._seen = 0
        self._start()

    def _start(self) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()

    def synced(self) -> None:
        """The copy is complete."""
        seconds, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
        gc.collect()
        resident = _resident_mib()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        _say(sync_s=seconds, sync_cpu_s=cpu, resident_mib=resident, growth_mib=resident - self._resident, peak_mib=peak)
        self._start()

    def changed(self) -> bool:
        """Count a handled change; returns True for the last one."""
        self._seen += 1
        if self._seen < self.changes:
            return False
        _say(changes_cpu_s=time.process_time() - self._cpu)
        return True


def _say(**figures: float) -> None:
    print(json.dumps(figures), flush=True)


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def ours(pods: int, changes: int) -> None:
    """Informer with a controller that handles every change."""
    import uvloop

    from kubeloop.api.generated.core_v1 import Pod
    from kubeloop.client import connect
    from kubeloop.client.discovery.rest_mapper import resource_of_class
    from kubeloop.clock import SystemClock
    from kubeloop.runtime.controller import Controller
    from kubeloop.runtime.informer.informer import SharedInformerFactory
    from kubeloop.runtime.objects.keys import ObjectKey, key_of

    async def main() -> None:
        meter, clock, done = Meter(pods, changes), SystemClock(), asyncio.Event()
        client = connect()
        informers = SharedInformerFactory(client, clock)
        informer = informers.for_resource(resource_of_class(Pod), namespace=NAMESPACE)

        async def reconcile(key: ObjectKey) -> None:
            if informer.get(*key) is not None and meter.changed():
                done.set()

        informers.start()
        await informer.wait_synced()
        assert len(informer) == pods
        meter.synced()
        controller = Controller("bench", reconcile, clock)
        controller.watches(informer, lambda pod: (key_of(pod),), lambda old, new: old is not None)
        running = asyncio.create_task(controller.run())
        await done.wait()
        running.cancel()
        await informers.stop()
        await client.close()

    uvloop.run(main())


def official(pods: int, changes: int) -> None:
    """A list, then a watch, into a dictionary: the pattern of its examples."""
    from kubernetes import client, config, watch

    config.load_config()  # type: ignore[no-untyped-call]  # no types of its own here, nor below
    meter = Meter(pods, changes)
    api = client.CoreV1Api()
    listed: Any = api.list_namespaced_pod(NAMESPACE)
    version = listed.metadata.resource_version
    cache = {(one.metadata.namespace, one.metadata.name): one for one in listed.items}
    del listed
    assert len(cache) == pods
    meter.synced()
    following: Any = watch.Watch()  # type: ignore[no-untyped-call]
    for event in following.stream(api.list_namespaced_pod, NAMESPACE, resource_version=version):
        pod = event["object"]
        cache[pod.metadata.namespace, pod.metadata.name] = pod
        if meter.changed():
            return


def kopf(pods: int, changes: int) -> None:
    """A handler of every event that fills a dictionary."""
    _kopf(pods, changes, indexing=False)


def kopf_index(pods: int, changes: int) -> None:
    """kopf's own index, whose cost grows with the square of the number of objects."""
    _kopf(pods, changes, indexing=True)


def _kopf(pods: int, changes: int, indexing: bool) -> None:
    import logging

    import kopf as framework

    logging.disable(logging.WARNING)
    stop = asyncio.Event()
    meters: list[Meter] = []
    cache: dict[tuple[str, str], Any] = {}
    indexed: set[str] = set()

    @framework.on.startup()  # type: ignore[arg-type, unused-ignore]  # its own protocol is wider than ours
    def configure(settings: framework.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False

    async def copy_of(namespace: str, name: str, body: framework.Body, **_: Any) -> dict[tuple[str, str], Any]:
        if name not in indexed:
            indexed.add(name)
            if len(indexed) == pods:
                asyncio.get_running_loop().call_soon(meters[0].synced)
        return {(namespace, name): dict(body)}

    @framework.on.event("pods")  # type: ignore[arg-type, unused-ignore]
    async def handle(type: str | None, namespace: str, name: str, body: framework.Body, **_: Any) -> None:
        if not indexing:
            cache[namespace, name] = dict(body)
            if type is None and len(cache) == pods:
                meters[0].synced()
        if type == "MODIFIED" and meters[0].changed():
            stop.set()

    if indexing:
        framework.index("pods")(copy_of)  # type: ignore[arg-type, unused-ignore]

    async def main() -> None:
        meters.append(Meter(pods, changes))
        await framework.operator(standalone=True, namespaces=[NAMESPACE], stop_flag=stop)

    asyncio.run(main())


CLIENTS: dict[str, Callable[[int, int], None]] = {
    "ours": ours,
    "official": official,
    "kopf": kopf,
    "kopf_index": kopf_index,
}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
