# SPDX-License-Identifier: Apache-2.0
"""Measures how cost grows with size: ten times the size should take at most eleven times the CPU time.

`python -m bench.linearity` prints one line of JSON a figure: for each phase of each case the processor's seconds at a
tenth of the size and at the whole size, server included, and their ratio. Everything runs in one process, on a store
in memory. Each size has a process of its own. Time is the processor's, because loops gather what happens within
milliseconds: on a machine that others keep busy too they would gather less than on one of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import ConfigMap, Namespace, Node, Pod
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers import select
from kubeloop.controllers.app.build import COMPONENT, ControllerDependencies, build_app
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.sim.loop import VirtualClock, VirtualDeadlock, VirtualLoop
from kubeloop.testing import config_map, daemon_set, deployment, job, namespace, node, pod, replica_set, service
from kubeloop.testing.builders import stateful_set
from kubeloop.testing.plane import start_plane

NAMESPACE = "default"
TENTH = 10
TIMES = 3  # how often the small size is measured: the median counts, for it takes so short that noise matters
_ADMIN = User("bench", ("system:masters", AUTHENTICATED))
_AT_ONCE = 20
_GLANCE = 0.05
# A phase that takes longer has hung.
_LONGEST = 900.0


class ProcessorLoop(VirtualLoop):
    """Event loop whose time advances while this process works, and jumps when it is idle."""

    def time(self) -> float:
        return self._now + time.process_time()

    def on_idle(self, timeout: float | None) -> None:
        if timeout is None:
            raise VirtualDeadlock("deadlock: no task is runnable, and the program has not finished")
        self._now += timeout


class LinearityHarness:
    """A server and some loops, and what each phase has cost."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.client = Client(CauseTransport(InProcessTransport(server, _ADMIN)), user_agent="bench")
        self.spent: dict[str, float] = {}

    @asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[None]:
        gc.collect()
        began = time.process_time()
        yield
        self.spent[name] = time.process_time() - began

    def count(self, what: type[Any], namespace: str = NAMESPACE) -> int:
        """Return the number of objects without reading them."""
        storage = self.server.registry.storage_of(_resource(what))
        found = storage.store.range(storage.prefix(namespace), limit=1)
        return len(found.records) + found.remaining

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(_LONGEST):
            while not await holds():  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(_GLANCE)

    async def until_count(self, what: type[Any], wanted: int, namespace: str = NAMESPACE) -> None:
        async def holds() -> bool:
            return self.count(what, namespace) == wanted

        await self.until(holds)

    async def until_status(self, what: type[Any], name: str, **wanted: int) -> None:
        """Wait for the status; a missing count means zero."""

        async def holds() -> bool:
            status = (await self.client.get(what, name, NAMESPACE)).status
            return all((getattr(status, field) or 0) == value for field, value in wanted.items())

        await self.until(holds)

    async def scale(self, what: type[Any], name: str, replicas: int) -> None:
        await self.client.patch(what, name, {"spec": {"replicas": replicas}}, NAMESPACE)

    async def create(self, objects: Iterable[Any]) -> None:
        await in_batches(self.client.create(one) for one in objects)

    async def say_of_pods(self, status: dict[str, Any]) -> None:
        """Write every pod's status like a node."""
        pods = (await self.client.list(Pod, NAMESPACE)).items
        await in_batches(
            self.client.patch(Pod, one.metadata.name, {"status": status}, NAMESPACE, subresource="status")
            for one in pods
        )


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


async def replicas(harness: LinearityHarness, size: int) -> None:
    await harness.client.create(replica_set(replicas=0))
    async with harness.phase("up"):
        await harness.scale(ReplicaSet, "app", size)
        await harness.until_status(ReplicaSet, "app", replicas=size)
    async with harness.phase("ready"):
        await harness.say_of_pods(READY)
        await harness.until_status(ReplicaSet, "app", available_replicas=size)
    async with harness.phase("half"):
        await harness.scale(ReplicaSet, "app", size // 2)
        await harness.until_status(ReplicaSet, "app", replicas=size // 2)
    async with harness.phase("zero"):
        await harness.scale(ReplicaSet, "app", 0)
        await harness.until_status(ReplicaSet, "app", replicas=0)


async def deployments(harness: LinearityHarness, size: int) -> None:
    async with harness.phase("up"):
        await harness.client.create(deployment(replicas=size))
        await harness.until_status(Deployment, "app", replicas=size)
    async with harness.phase("cascade"):
        await harness.client.delete(Deployment, "app", NAMESPACE)
        await harness.until_count(Pod, 0)


async def jobs(harness: LinearityHarness, size: int) -> None:
    async with harness.phase("up"):
        await harness.client.create(job(completions=size, parallelism=size))
        await harness.until_status(Job, "job", active=size)
    async with harness.phase("complete"):
        await harness.say_of_pods({"phase": "Succeeded"})
        await harness.until_status(Job, "job", succeeded=size)


async def indexed_jobs(harness: LinearityHarness, size: int) -> None:
    async with harness.phase("up"):
        await harness.client.create(job(completions=size, parallelism=size, completion_mode="Indexed"))
        await harness.until_status(Job, "job", active=size)
    async with harness.phase("complete"):
        await harness.say_of_pods({"phase": "Succeeded"})
        await harness.until_status(Job, "job", succeeded=size)


async def daemon_sets(harness: LinearityHarness, size: int) -> None:
    await harness.create(node(f"n{number}") for number in range(size))
    nodes = (await harness.client.list(Node)).items
    await in_batches(harness.client.patch(Node, one.metadata.name, {"spec": {"taints": []}}) for one in nodes)
    async with harness.phase("up"):
        await harness.client.create(daemon_set())
        await harness.until_status(DaemonSet, "app", current_number_scheduled=size)
    async with harness.phase("ready"):
        await harness.say_of_pods(READY)
        await harness.until_status(DaemonSet, "app", number_available=size)


async def stateful_sets(harness: LinearityHarness, size: int) -> None:
    async with harness.phase("up"):
        await harness.client.create(stateful_set(replicas=size, pod_management_policy="Parallel", service_name="app"))
        await harness.until_status(StatefulSet, "app", replicas=size)
    async with harness.phase("ready"):
        await harness.say_of_pods(READY)
        await harness.until_status(StatefulSet, "app", available_replicas=size)
    async with harness.phase("zero"):
        await harness.scale(StatefulSet, "app", 0)
        await harness.until_status(StatefulSet, "app", replicas=0)


async def endpoints(harness: LinearityHarness, size: int) -> None:
    await harness.client.create(service())
    await harness.client.create(node("n"))
    await harness.create(pod(f"p{number}", labels={"app": "app"}, node="n") for number in range(size))

    async def listed() -> bool:
        slices = (await harness.client.list(EndpointSlice, NAMESPACE, labels="kubernetes.io/service-name=app")).items
        return sum(len(one.endpoints or ()) for one in slices) == size

    async with harness.phase("ready"):
        pods = (await harness.client.list(Pod, NAMESPACE)).items
        await in_batches(
            harness.client.patch(Pod, one.metadata.name, {"status": at}, NAMESPACE, subresource="status")
            for one, at in zip(pods, map(_ready_at, range(size)), strict=True)
        )
        await harness.until(listed)


def _ready_at(number: int) -> dict[str, Any]:
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {**READY, "podIP": address, "podIPs": [{"ip": address}]}


async def dependents(harness: LinearityHarness, size: int) -> None:
    owner = await harness.client.create(config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    kept = harness.count(ConfigMap) - 1
    async with harness.phase("made"):
        await harness.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"c{number}", "namespace": NAMESPACE, "ownerReferences": [reference]},
            }
            for number in range(size)
        )
    async with harness.phase("cascade"):
        await harness.client.delete(ConfigMap, "owner", NAMESPACE)
        await harness.until_count(ConfigMap, kept)


async def namespaces(harness: LinearityHarness, size: int) -> None:
    await harness.client.create(namespace("full"))
    await harness.create(config_map(f"c{number}", namespace="full") for number in range(size))

    async def gone() -> bool:
        with suppress(NotFound):
            await harness.client.get(Namespace, "full")
            return False
        return True

    async with harness.phase("gone"):
        await harness.client.delete(Namespace, "full")
        await harness.until(gone)


@dataclass(frozen=True, slots=True)
class Case:
    """Case: the work, its sizes, and its controllers."""

    phases: Callable[[LinearityHarness, int], Awaitable[None]]
    size: int
    loops: tuple[str, ...]


CASES = {
    "replicaset": Case(replicas, 20_000, ("replicaset-controller",)),
    "deployment": Case(
        deployments, 20_000, ("deployment-controller", "replicaset-controller", "garbage-collector-controller")
    ),
    "job": Case(jobs, 10_000, ("job-controller",)),
    "indexed_job": Case(indexed_jobs, 10_000, ("job-controller",)),
    "daemonset": Case(daemon_sets, 2_000, ("daemonset-controller",)),
    "statefulset": Case(stateful_sets, 2_000, ("statefulset-controller",)),
    "endpointslice": Case(endpoints, 5_000, ("endpointslice-controller",)),
    "dependents": Case(dependents, 20_000, ("garbage-collector-controller",)),
    "namespace": Case(namespaces, 20_000, ("namespace-controller",)),
}


async def measure(case: Case, size: int) -> dict[str, float]:
    """The processor's seconds of each phase."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ProcessorLoop)
    clock = VirtualClock(loop)
    async with AsyncExitStack() as parts:
        harness = LinearityHarness(await start_plane(clock, (), parts))
        recorder = EventRecorder(harness.client, COMPONENT, clock)
        hosted = build_app(
            select(case.loops), ControllerDependencies(harness.client, lambda _: harness.client, recorder, clock)
        )
        running = asyncio.create_task(hosted.run(lambda: 1.0))
        parts.push_async_callback(_ended, running)
        await hosted.wait_initial_sync(30.0)
        gc.collect()
        gc.freeze()  # as the program does after its start
        await case.phases(harness, size)
        return harness.spent


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


async def in_batches(work: Iterable[Awaitable[Any]]) -> None:
    waiting = list(work)
    for first in range(0, len(waiting), _AT_ONCE):
        await asyncio.gather(*waiting[first : first + _AT_ONCE])


def _resource(what: type[Any]) -> Resource:
    return resource_of_class(what)


def measured_alone(case: str, size: int) -> dict[str, float]:
    """Run a case in a separate process, without the state of earlier ones."""
    command = [sys.executable, "-m", "bench.linearity", "--only", case, "--one-size", str(size)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    spent: dict[str, float] = json.loads(answer.stdout)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser("bench.linearity", description="Measure how cost grows with size.")
    parser.add_argument("--only", choices=tuple(CASES), action="append")
    parser.add_argument("--size", type=int, help="larger of the two sizes (default: specific to each case)")
    parser.add_argument("--one-size", type=int, help="measure one size only, and print its phases")
    options = parser.parse_args()
    logging.disable(logging.ERROR)  # thousands of events that are dropped, and logged individually
    for name in options.only or CASES:
        if options.one_size:
            with asyncio.Runner(loop_factory=ProcessorLoop) as runner:
                print(json.dumps(runner.run(measure(CASES[name], options.one_size))))
            continue
        size = options.size or CASES[name].size
        few = [measured_alone(name, size // TENTH) for _ in range(TIMES)]
        for phase, seconds in measured_alone(name, size).items():
            tenth = statistics.median(one[phase] for one in few)
            report(f"linearity_{name}_{phase}", {"cpu_s": seconds, "tenth_cpu_s": tenth, "ratio": seconds / tenth})


def report(figure: str, values: dict[str, float]) -> None:
    print(json.dumps({"figure": figure, **{name: float(f"{value:.3g}") for name, value in values.items()}}), flush=True)


if __name__ == "__main__":
    main()
