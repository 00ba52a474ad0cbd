# SPDX-License-Identifier: Apache-2.0
"""Isolated cluster in the test's own process: blocking calls, days of virtual time in milliseconds."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kubeloop.api import codec
from kubeloop.api.kinds import RESOURCES
from kubeloop.api.unstructured import Unstructured
from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.apiserver.server import ApiServerConfig
from kubeloop.client.client import Client
from kubeloop.client.scheme import Scheme
from kubeloop.client.sync import SyncClient
from kubeloop.clock import Clock, SystemClock
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.context import ControllerContext, CustomKindDefinition, Wire
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import Loop
from kubeloop.sim.loop import START, VirtualClock
from kubeloop.store.memory import MemoryStore
from kubeloop.testing.cache_guard import changed_object
from kubeloop.testing.close_checks import ClusterCheckError, failing_loop_problems, unused_fault_problems
from kubeloop.testing.failure_report import describe_cluster
from kubeloop.testing.faults import ClusterFaults, FaultyTransport
from kubeloop.testing.look import ClusterAssertionError, LookResult, look_once
from kubeloop.testing.loop import ClusterLoop
from kubeloop.testing.pending_work import describe_pending_work, missing_kinds
from kubeloop.testing.plane import CONFIG, InitialRecords, bootstrap_objects, config_of, start_plane

if TYPE_CHECKING:
    from kubeloop.chaos.plan import ChaosPlan
    from kubeloop.kubelet.agent import NodeAgent
    from kubeloop.kubelet.agent_config import NodeAgentConfig
    from kubeloop.kubelet.events.pod_events import EventLevel
    from kubeloop.kubelet.node_status.registration import NodeShape
    from kubeloop.testing.chaos import ChaosSession
    from kubeloop.testing.port import ClusterAddress

T = TypeVar("T")

ADMIN = User("kubernetes-admin", ("system:masters", AUTHENTICATED))
COMPONENT = "kubeloop-test"  # source of the loops' events
# How long `eventually` waits for programs outside, and how long it lets them work between two looks.
_PATIENCE = 30.0
_BETWEEN_LOOKS = 0.02


class LoopEndedError(ClusterAssertionError):
    """Unexpected end of a loop that was started with `Cluster.start`."""


class UnknownKindError(ClusterAssertionError):
    """Loop that waits for a kind that is not served."""


class CacheMutatedError(ClusterAssertionError):
    """Shared object that was mutated in place. Types forbid it; mappings within them cannot."""


class Cluster:
    """API server with its own store, clock and event loop, and the loops that run on it.

    Time stands still between calls. `settle` lets everything happen that can happen at this moment, `advance` lets
    time pass. The same seed gives the same run; with `shuffle` the seed also decides the order of callbacks that are
    ready at the same time. `runtime_config` and `feature_gates` are the flags of the same names.

    With `plane` the control plane of `kubeloop up` runs: all controllers, the scheduler and the cloud controllers.
    `nodes` adds simulated nodes.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        start: datetime = START,
        shuffle: bool = False,
        runtime_config: str = "",
        feature_gates: str = "",
        plane: bool = False,
        nodes: int = 0,
        beginning: MemoryStore | None = None,
    ) -> None:
        config = config_of(runtime_config, feature_gates) if runtime_config or feature_gates else CONFIG
        records = bootstrap_objects(config) if beginning is None else beginning
        gates = tuple(feature_gates.split(",")) if feature_gates else ()
        self._loop = ClusterLoop(random.Random(seed) if shuffle else None)
        self._parts = AsyncExitStack()
        self._loops: dict[str, Loop] = {}  # those under test, and those of simulated nodes
        self._plane_loops: tuple[Loop, ...] = ()
        self._loop_tasks: dict[str, asyncio.Task[None]] = {}
        self.seed = seed
        self._may_fail: set[str] = set()  # names of loops
        self._fork_seeds = count(seed + 1)
        self._forks: list[Cluster] = []
        gates_and_groups = {"runtime_config": runtime_config, "feature_gates": feature_gates}
        self._options: dict[str, Any] = {"shuffle": shuffle, "plane": plane, "nodes": nodes, **gates_and_groups}
        self.clock = VirtualClock(self._loop, start, seed)
        self.faults = ClusterFaults(seed, self._resource_names)
        starting = self._start_plane(records, config, gates) if plane else self._start_server(records, config)
        try:
            self.server = self._loop.run(starting)
        except BaseException:
            self._loop.close()
            raise
        self._scheme = Scheme()
        self._admin = Client(InProcessTransport(self.server, ADMIN), user_agent="test", scheme=self._scheme)
        self.client = self._blocking(self._admin)
        faulty = FaultyTransport(InProcessTransport(self.server, ADMIN), self.faults)
        self.async_client = client = Client(CauseTransport(faulty), scheme=self._scheme)
        informers, recorder = SharedInformerFactory(client, self.clock), EventRecorder(client, COMPONENT, self.clock)
        self.context = ControllerContext(client, informers, self.clock, recorder, ManagerConfig(feature_gates=gates))
        if nodes:
            self.add_nodes(nodes)

    async def _start_server(self, records: InitialRecords, config: ApiServerConfig) -> ApiServer:
        return await start_plane(self.clock, records, self._parts, config)

    async def _start_plane(self, records: InitialRecords, config: ApiServerConfig, gates: tuple[str, ...]) -> ApiServer:
        from kubeloop.testing.control_plane import start_control_plane, with_account_key, write_keys

        pki = write_keys(Path(self._parts.enter_context(tempfile.TemporaryDirectory(prefix="kubeloop-"))))
        config = with_account_key(config, pki)
        server = await start_plane(self.clock, records, self._parts, config, accounts=False)
        plane = await start_control_plane(server, self.clock, pki, gates, self._parts)
        self._plane_loops = tuple(plane.loops)
        await self._loop.settle()
        return server

    # Objects and users.

    def add(self, *objects: Any) -> Any:
        """Create objects including their status; returns the last one."""
        made = None
        for obj in objects:
            made = self.client.create(obj)
            made = self._with_status(obj, made)
        return made

    def _with_status(self, wanted: Any, made: Any) -> Any:
        status = _status_of(wanted)
        if not status:
            return made
        meta, what = made.metadata, _resource_ref(made)
        return self.client.patch(what, meta.name, {"status": status}, meta.namespace, subresource="status")

    def define(self, *kinds: CustomKindDefinition) -> None:
        """Let the server serve custom kinds, as their controller does when it is started."""
        for kind in kinds:
            self._scheme.add(kind)
            self._loop.run(kind.ensure(self._admin))

    def as_user(self, name: str, *groups: str) -> SyncClient:
        """Return a client of a user that has only the permissions of its roles."""
        user = User(name, (*groups, AUTHENTICATED))
        client = Client(InProcessTransport(self.server, user), user_agent="test", scheme=self._scheme)
        return self._blocking(client)

    def events(self, namespace: str = "", *, reason: str = "") -> list[Any]:
        """Return the recorded events, oldest first."""
        found = self.client.list("events", namespace).items
        chosen = [one for one in found if reason in ("", one.reason)]
        return sorted(chosen, key=lambda one: int(one.metadata.resource_version))

    # Time.

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine; virtual time passes as needed."""
        return self._loop.run(work)

    def settle(self) -> None:
        """Return when all that can happen at this moment has happened."""
        self.advance()

    def advance(self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0) -> None:
        """Let time pass; every timer on the way fires at its own moment."""
        whole = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        self._loop.run(self._loop.advance(whole.total_seconds()))
        self._check_loops()

    def eventually(self, look: Callable[[], T], within: float = _PATIENCE) -> T:
        """Return the first true result of `look`, within real seconds if a port is open, else virtual ones.

        An AssertionError or NotFound that `look` raises counts as false. The error after the time is over shows the
        last result and what the cluster waits for.
        """
        clock: Clock = SystemClock() if self._loop.is_live else self.clock
        began = clock.monotonic()
        while not (found := look_once(look)):
            if clock.monotonic() - began > within:
                raise AssertionError(self._timeout_text(found, within)) from found.error
            self._loop.run(asyncio.sleep(_BETWEEN_LOOKS))
            self._check_loops()
        return found.value

    def _timeout_text(self, last: LookResult[Any], seconds: float) -> str:
        lines = self._inspect(lambda: describe_pending_work(self.loops, self.server.registry))
        pending = "\n".join(f"  {line}" for line in lines) or "  none"
        return f"still {last} after {seconds:g} s\nPending work:\n{pending}"

    def report(self) -> str:
        """Return what the loops did last, why the last writes were made and what the cluster waits for, for people."""
        return self._inspect(lambda: describe_cluster(self.loops, self.server))

    def _inspect(self, look: Callable[[], T]) -> T:
        """Return the result of a function that reads the state of loops; while live, their thread calls it."""

        async def call() -> T:
            return look()

        return self._loop.run(call()) if self._loop.is_live else look()

    # Loops under test.

    def start(self, wire: Wire | Loop, *, may_fail: bool = False) -> Loop:
        """Run a loop, given its wiring function or, already wired to `context`, the loop itself.

        Returns when the loop has processed the present objects. Its calls go through `faults`. It is a mistake if its
        reconcile function fails at every try until the end, unless it may fail.
        """
        loop = self._loop.run(self._host(wire))
        if may_fail:
            self._may_fail.add(loop.name)
        if not self._loop.is_live:
            self.settle()
            self._check_kinds(loop)
        return loop

    async def _host(self, wire: Wire | Loop) -> Loop:
        context = self.context.without_kinds()
        loop = wire(context) if callable(wire) else wire
        if loop.name in self._loop_tasks:
            raise ValueError(f"a loop named {loop.name} is already running")
        self._loops[loop.name] = loop
        for kind in context.kinds:
            await kind.ensure(self._admin)
        if COMPONENT not in self._loop_tasks:
            self.context.informers.start()
            self._loop_tasks[COMPONENT] = asyncio.create_task(self.context.recorder.run())
        self._loop_tasks[loop.name] = asyncio.create_task(loop.run(), name=loop.name)
        return loop

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops: those that were started, those of simulated nodes, and those of the control plane."""
        return (*self._loops.values(), *self._plane_loops)

    def add_nodes(self, count: int = 1, *, shape: NodeShape | None = None, events: EventLevel = "all") -> NodeAgent:
        """Add simulated nodes n1, n2, …; once per cluster, before or after `start`. Their calls go through `faults`."""
        from kubeloop.kubelet.agent import PODS
        from kubeloop.kubelet.agent_config import NodeAgentConfig
        from kubeloop.kubelet.node_status.registration import NodeShape

        if PODS in self._loop_tasks:
            raise ValueError("the cluster has simulated nodes: add all of them in one call")
        config = NodeAgentConfig(count=count, shape=shape or NodeShape(), event_level=events, untaint=True)
        fleet = self._loop.run(self._new_fleet(config))
        for loop in fleet.loops:
            self.start(loop)
        if not self._loop.is_live:
            self.settle()
        return fleet

    async def _new_fleet(self, config: NodeAgentConfig) -> NodeAgent:
        from kubeloop.kubelet.agent import NodeAgent

        fleet = NodeAgent(self.async_client, self.context.informers, self.clock, config)
        self.server.nodes.add_local(fleet.dialer)
        self.server.serve_virtual_group(fleet.metrics)
        self._loop_tasks["events of nodes"] = asyncio.create_task(fleet.recorder.run(), name="events of nodes")
        return fleet

    def stop(self, loop: Loop) -> None:
        """Cancel a loop at once, as if its process had been killed; start another to test recovery."""
        del self._loops[loop.name]
        self._loop.run(_cancel_tasks([self._loop_tasks.pop(loop.name)]))

    def _check_loops(self) -> None:
        for name, task in self._loop_tasks.items():
            if task.done():
                raise LoopEndedError(f"{name} has ended") from (None if task.cancelled() else task.exception())

    def _check_kinds(self, loop: Loop) -> None:
        """Stop a loop and raise UnknownKindError if it waits for a kind that is not served."""
        missing = missing_kinds(loop, self.server.registry)
        if missing:
            self.stop(loop)
            raise UnknownKindError(
                f"{loop.name} watches {missing}, which the server does not serve: declare a custom kind in the wiring "
                "function, context.declare_kind(kind), or serve it before the start, cluster.define(kind). An alpha or "
                "beta resource needs runtime_config"
            )

    def _check_caches(self) -> None:
        for informer in self.context.informers:
            if (changed := changed_object(informer, self.server.registry)) is not None:
                raise CacheMutatedError(
                    f"{informer.resource.group_resource} {changed} was modified in the shared cache"
                )

    def fork(self, *, seed: int | None = None) -> Cluster:
        """Return an independent cluster with this one's present content; takes milliseconds. It has to be closed.

        Loops are not included: start them there, as after a restart. Without a seed each fork has another.
        """
        store = self.server.registry.store
        if not isinstance(store, MemoryStore):
            raise TypeError("only a store in memory can be forked")
        seed = next(self._fork_seeds) if seed is None else seed
        fork = Cluster(seed=seed, start=self.clock.now(), beginning=store, **self._options)
        for kind in self._scheme.kinds:
            fork._scheme.add(kind)
        self._forks.append(fork)
        return fork

    def chaos(self, plan: ChaosPlan | Path | str | Mapping[str, Any]) -> ChaosSession:
        """Apply a chaos plan to the code under test, external programs and the clock.

        Ends after the plan's duration. The plan is one, or plain data, or a file.
        """
        from kubeloop.testing.chaos import ChaosSession

        return self._loop.run(_begin_chaos(ChaosSession(plan, self.faults, self.server, self.clock)))

    # External programs.

    @contextmanager
    def serve(self, folder: Path | None = None) -> Iterator[ClusterAddress]:
        """Open a port with a kubeconfig for the block, during which time is real.

        Keys that are found in the folder are used again.
        """
        from kubeloop.testing.port import keys_in, open_cluster_port

        with tempfile.TemporaryDirectory(prefix="kubeloop-") as made:
            where = folder or Path(made)
            port = open_cluster_port(self.server, self.clock, keys_in(where), Path(made))
            address = self._loop.run(port.__aenter__())
            self._loop.go_live()
            try:
                yield address
            finally:
                self._loop.go_virtual()
                self._loop.run(port.__aexit__(None, None, None))

    # The end.

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._loop.is_closed()

    def close(self, *, check: bool = True, strict: bool = False) -> None:
        """Stop everything; raises failures of loops and mutated caches that were not raised before.

        With `check`, also raises ClusterCheckError for mistakes: open forks, and loops that fail by a defect such as a
        TypeError. The pytest fixtures are `strict`: other errors that repeat and faults that no call has matched are
        mistakes, too.
        """
        if self.is_closed:
            return
        try:
            self._check_loops()
            self._check_caches()
            if check and (problems := self._problems(strict)):
                raise ClusterCheckError("\n".join(problems))
        finally:
            for fork in self._forks:
                fork.close(check=False)
            self._loop.run(self._end())
            self._loop.run(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _problems(self, strict: bool) -> list[str]:
        under_test = [loop for name, loop in self._loops.items() if name not in self._may_fail]
        problems = list(failing_loop_problems(under_test, defects_only=not strict or self.faults.are_lasting))
        if strict:
            problems += unused_fault_problems(self.faults)
        if not all(fork.is_closed for fork in self._forks):
            problems.append("a fork is not closed. Write `with cluster.fork() as fork:`, or call fork.close()")
        return problems

    async def _end(self) -> None:
        await _cancel_tasks(list(self._loop_tasks.values()))
        await self.context.informers.stop()
        await self._parts.aclose()
        await _cancel_tasks([one for one in asyncio.all_tasks() if one is not asyncio.current_task()])

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.close(check=error is None)

    def _resource_names(self) -> set[str]:
        """Return the names by which faults may name the resources that the server serves."""
        served = [*RESOURCES, *(one.resource for one in self.server.registry.storages())]
        return {name for one in served for name in (one.plural, one.group_resource)}

    def _blocking(self, client: Client) -> SyncClient:
        return SyncClient.wrap(client, self._loop)


def _status_of(obj: Any) -> Any:
    """Return an object's status; None if it is the default one."""
    if isinstance(obj, Mapping):
        return obj.get("status")
    status = getattr(obj, "status", None)
    return None if status is None or _is_default(status) else codec.to_plain(status)


def _is_default(status: Any) -> bool:
    try:
        return bool(status == type(status)())
    except TypeError:  # a status of a custom kind may have required fields
        return False


def _resource_ref(obj: Any) -> Any:
    """Return the class or resource name by which a client addresses an object."""
    if not isinstance(obj, Unstructured):
        return type(obj)
    group, _, version = obj.api_version.rpartition("/")
    return f"{obj.kind}.{group}/{version}"


async def _begin_chaos(chaos: ChaosSession) -> ChaosSession:
    chaos.begin()
    return chaos


async def _cancel_tasks(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
