"""What the agent asks of whatever runs containers, and what it hears from there.

A runtime begins things and tells what there is. What to do and when is the agent's: it observes, decides, acts, and
observes again. Whatever takes time (an image, a hook, an end) is seen by observing later, never waited for here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

import msgspec

from kubeloop.api.generated.core_v1 import Container, LifecycleHandler, Pod, Probe, ResourceRequirements
from kubeloop.api.node_calls import Duplex, LogOptions, Streams

RunState = Literal["created", "running", "exited"]  # created: it is about to run, or its postStart hook is
ProbeKind = Literal["startup", "liveness", "readiness"]


class StartFailed(Exception):
    """Why a container can't be started for now; reason and message are what its status shows."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class Found(NamedTuple):
    """Values that were looked up for a container: those for whole sources, and those for single variables."""

    whole: Mapping[str, str]
    single: Mapping[str, str]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one container."""

    container: str
    id: str  # with the runtime's name in front, as statuses show it
    attempt: int  # how often the container had been started before
    image: str
    image_id: str
    state: RunState
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    stopping: bool = False  # it was told to end
    warned: bool = False  # its preStop hook was begun ahead of that
    failed_stop_hooks: int = 0  # how many preStop hooks of this run have failed by now
    resources: ResourceRequirements | None = None  # that it has now; None if nobody knows
    resizing: bool = False  # it is about to have others
    hook_failure: str = ""  # why its postStart hook failed, if it did
    of_present_sandbox: bool = True
    put_aside: bool = False  # the pod began anew since: it is as if it had never been, but for the count


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of a pod."""

    addresses: tuple[str, ...] | None = None  # None while there is no sandbox
    runs: Mapping[str, tuple[Run, ...]] = msgspec.field(default_factory=dict)  # by container, the newest first
    changes_at: datetime | None = None  # when it will be otherwise without anybody's doing, if that is known

    def last(self, container: str) -> Run | None:
        """The newest run of a container."""
        runs = self.runs.get(container)
        return runs[0] if runs else None

    def present(self, container: str) -> Run | None:
        """The newest run of a container, unless it was in a sandbox that is gone."""
        run = self.last(container)
        return run if run is not None and run.of_present_sandbox else None


class ProbeAnswer(msgspec.Struct, frozen=True):
    """How a probe went; a runtime that knows until when it will go the same way says so, and is not asked before."""

    ok: bool
    output: str = ""
    holds_until: datetime | None = None
    holds_forever: bool = False


class Usage(msgspec.Struct, frozen=True):
    """What a container uses at a moment."""

    cpu_nanocores: int
    memory_bytes: int
    storage_bytes: int = 0  # on its node's own disk


class Runtime(Protocol):
    """Runs the containers of pods."""

    name: str  # as in `nodeInfo.containerRuntimeVersion`

    async def observe(self, pod: Pod) -> Observation:
        """What there is of a pod now."""

    async def prepare(self, pod: Pod) -> None:
        """Make the pod's sandbox, with its addresses; `StartFailed` if that can't be."""

    async def start(self, pod: Pod, container: Container, attempt: int, found: Found | None = None) -> None:
        """Begin a run of a container, and its postStart hook; `StartFailed` if that can't be for now."""

    async def stop(self, pod: Pod, container: str, grace: float, hook: LifecycleHandler | None) -> None:
        """Begin to end a container: the hook, then the signal, all within the grace. Said again, the shorter counts."""

    async def warn(self, pod: Pod, container: str, hook: LifecycleHandler) -> None:
        """Begin the preStop hook of a container that is told to end later; then it isn't run again."""

    async def resize(self, pod: Pod, container: Container) -> None:
        """Begin to give a running container the resources that it has in the pod's spec."""

    async def probe(self, pod: Pod, container: Container, kind: ProbeKind, probe: Probe) -> ProbeAnswer:
        """Whether a container is as a probe wants it."""

    async def put_aside(self, pod: Pod) -> None:
        """Let a pod whose containers have all ended begin anew in its sandbox: their runs count as those of another."""

    async def release(self, pod: Pod) -> None:
        """Let go of the sandbox of a pod that has ended, with its addresses; its logs stay."""

    async def remove(self, uid: str) -> None:
        """Forget a pod, with all that is left of it."""

    def logs(self, pod: Pod, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """What a container wrote, in pieces of whole lines."""

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], streams: Streams) -> int:
        """Run a command in a container; its exit code."""

    async def attach(self, pod: Pod, container: str, streams: Streams) -> None:
        """Connect somebody to what a container runs, until that ends."""

    async def forward(self, pod: Pod, port: int, connection: Duplex) -> None:
        """Serve a connection to a port of a pod; `ForwardFailed` if nobody listens there."""

    def usage(self, pod: Pod) -> Mapping[str, Usage]:
        """What the running containers of a pod use now."""
