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

from kubeloop.api.kinds import RESOURCES
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
from kubeloop.testing.added_status import with_status
from kubeloop.testing.cache_guard import check_caches
from kubeloop.testing.close_checks import ClusterCheckError, failing_loop_problems, unused_fault_problems
from kubeloop.testing.failure_report import describe_cluster
from kubeloop.testing.faults import ClusterFaults, FaultyTransport
from kubeloop.testing.hosted_loops import COMPONENT, HostedLoops, cancel_tasks
from kubeloop.testing.look import LookResult, look_once
from kubeloop.testing.loop import ClusterLoop
from kubeloop.testing.pending_work import describe_pending_work
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
# How long `eventually` waits for programs outside, and how long it lets them work between two looks.
_PATIENCE = 30.0
_BETWEEN_LOOKS = 0.02


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
        self._plane_loops: tuple[Loop, ...] = ()
        self.seed = seed
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
        self._hosted = HostedLoops(self._admin, self.server.registry)  # also those of simulated nodes
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
            made = with_status(self.client, obj, made)
        return made

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
        self._hosted.check()

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
            self._hosted.check()
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
        loop = self._loop.run(self._hosted.start(self.context, wire, may_fail=may_fail))
        if not self._loop.is_live:
            self.settle()
            if (error := self._hosted.unserved_kinds_error(loop)) is not None:
                self.stop(loop)
                raise error
        return loop

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops: those that were started, those of simulated nodes, and those of the control plane."""
        return (*self._hosted.loops, *self._plane_loops)

    def add_nodes(self, count: int = 1, *, shape: NodeShape | None = None, events: EventLevel = "all") -> NodeAgent:
        """Add simulated nodes n1, n2, …; once per cluster, before or after `start`. Their calls go through `faults`."""
        from kubeloop.kubelet.agent import PODS
        from kubeloop.kubelet.agent_config import NodeAgentConfig
        from kubeloop.kubelet.node_status.registration import NodeShape

        if self._hosted.is_running(PODS):
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
        self._hosted.start_task("events of nodes", fleet.recorder.run())
        return fleet

    def stop(self, loop: Loop) -> None:
        """Cancel a loop at once, as if its process had been killed; start another to test recovery."""
        self._loop.run(self._hosted.stop(loop))

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
            self._hosted.check()
            check_caches(self.context.informers, self.server.registry)
            if check and (problems := self._problems(strict)):
                raise ClusterCheckError("\n".join(problems))
        finally:
            for fork in self._forks:
                fork.close(check=False)
            self._loop.run(self._end())
            self._loop.run(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _problems(self, strict: bool) -> list[str]:
        under_test = self._hosted.must_succeed
        problems = list(failing_loop_problems(under_test, defects_only=not strict or self.faults.are_lasting))
        if strict:
            problems += unused_fault_problems(self.faults)
        if not all(fork.is_closed for fork in self._forks):
            problems.append("a fork is not closed. Write `with cluster.fork() as fork:`, or call fork.close()")
        return problems

    async def _end(self) -> None:
        await self._hosted.stop_all()
        await self.context.informers.stop()
        await self._parts.aclose()
        await cancel_tasks([one for one in asyncio.all_tasks() if one is not asyncio.current_task()])

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


async def _begin_chaos(chaos: ChaosSession) -> ChaosSession:
    chaos.begin()
    return chaos
