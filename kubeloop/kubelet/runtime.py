# SPDX-License-Identifier: Apache-2.0
"""Runtime interface: operations that the agent calls, and observations that it gets back.

A runtime starts operations and reports the state. The agent decides what to do and when: it observes, decides, acts,
and observes again. Anything that takes time (an image pull, a hook, an exit) is seen by a later observation and never
awaited here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

import msgspec

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerUser,
    LifecycleHandler,
    Pod,
    Probe,
    ResourceRequirements,
    ResourceStatus,
)
from kubeloop.api.kubelet_requests import PodLogOptions, PortConnection, StandardStreams

RunState = Literal["created", "running", "exited"]  # created: about to run, or running its postStart hook
ProbeKind = Literal["startup", "liveness", "readiness"]


class ContainerStartError(Exception):
    """Raised if a container cannot be started now; reason and message are shown in its status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class PodResizeError(Exception):
    """Raised if a pod cannot be resized now; the message is shown in its PodResizeInProgress condition."""


class ContainerCheckpointError(Exception):
    """Raised if a container cannot be checkpointed."""


class EffectiveResources(msgspec.Struct, frozen=True):
    """Resources that the runtime reports for a container: CPU in thousandths, memory in bytes; 0 if unknown."""

    cpu_request: int = 0
    cpu_limit: int = 0
    memory_limit: int = 0


class EnvSourceValues(NamedTuple):
    """Environment values looked up for a container: of whole sources (envFrom), and of single variables."""

    env_from_values: Mapping[str, str]
    env_values: Mapping[str, str]


class ContainerRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one container."""

    container: str
    id: str  # prefixed by the runtime's name, as in statuses
    attempt: int  # number of earlier starts of the container
    image: str
    image_id: str
    state: RunState
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    is_stopping: bool = False  # it was stopped
    is_pre_stop_started: bool = False  # its preStop hook was started before the stop
    failed_stop_hooks: int = 0  # number of failed preStop hooks of this run
    resources: ResourceRequirements | None = None  # resources it was given; None if unknown
    user: ContainerUser | None = None  # of its first process, if the runtime reports it
    effective: EffectiveResources | None = None  # as the runtime reports them; None if it does not
    resource_statuses: tuple[ResourceStatus, ...] = ()  # health of its devices
    is_resizing: bool = False  # a resize is in progress
    hook_failure: str = ""  # error of its postStart hook, if it failed
    is_in_current_sandbox: bool = True
    is_reset: bool = False  # the pod was restarted since: ignored, except for the number of attempts


class PodObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Observed state of a pod."""

    addresses: tuple[str, ...] | None = None  # None while there is no sandbox
    runs: Mapping[str, tuple[ContainerRun, ...]] = msgspec.field(default_factory=dict)  # by container, newest first
    pod_level_resources: ResourceRequirements | None = None  # given to the pod as a whole; None if unknown
    next_change_at: datetime | None = None  # time of the next change by itself, if known

    def last_run(self, container: str) -> ContainerRun | None:
        """Return the newest run of a container."""
        runs = self.runs.get(container)
        return runs[0] if runs else None

    def current_run(self, container: str) -> ContainerRun | None:
        """Return the newest run of a container if it is in the current sandbox."""
        run = self.last_run(container)
        return run if run is not None and run.is_in_current_sandbox else None


class ProbeResult(msgspec.Struct, frozen=True):
    """Result of a probe; a runtime that knows how long it is valid says so and is not probed before.

    A probe with an error has no result: it changes nothing, and is repeated.
    """

    ok: bool
    output: str = ""
    valid_until: datetime | None = None
    is_valid_forever: bool = False
    is_warning: bool = False
    is_error: bool = False


class ContainerUsage(msgspec.Struct, frozen=True):
    """Resource usage of a container at a moment."""

    cpu_nanocores: int
    memory_bytes: int
    storage_bytes: int = 0  # on the node's disk


class Runtime(Protocol):
    """Runs the containers of pods."""

    name: str  # as in `nodeInfo.containerRuntimeVersion`
    emits_start_events: bool  # emits the events of pulls and starts by itself

    def adopt_pod(self, pod: Pod) -> None:
        """Take note of a pod that ran before this agent started."""

    def halt(self, uid: str) -> None:
        """End the containers of a pod whose simulated node is stopped."""

    async def get_pod_status(self, pod: Pod) -> PodObservation:
        """Return the present state of a pod."""

    async def run_pod_sandbox(self, pod: Pod) -> None:
        """Create the pod's sandbox with its addresses. Raises `ContainerStartError`."""

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, found: EnvSourceValues | None
    ) -> None:
        """Start a run of a container and its postStart hook. Raises `ContainerStartError`."""

    async def stop_container(self, pod: Pod, container: str, grace: float, hook: LifecycleHandler | None) -> None:
        """Start stopping a container: the hook, then the signal, within the grace period.

        If it is called again, the shorter grace period applies.
        """

    async def start_pre_stop_hook(self, pod: Pod, container: str, hook: LifecycleHandler) -> None:
        """Start the preStop hook of a container that is stopped later; the hook is not run again then."""

    async def resize_pod(self, pod: Pod, containers: Sequence[Container]) -> None:
        """Start changing a pod and running containers to the resources of its spec. Raises `PodResizeError`."""

    async def probe(self, pod: Pod, container: Container, kind: ProbeKind, probe: Probe) -> ProbeResult:
        """Return the result of a probe."""

    async def reset_pod(self, pod: Pod) -> None:
        """Reset a pod whose containers have all exited, to restart in its sandbox; old runs only count as attempts."""

    async def unprepare_pod(self, pod: Pod) -> None:
        """Release resources of a pod whose containers have all exited, before that is reported; raises to repeat it."""

    async def stop_pod_sandbox(self, pod: Pod) -> None:
        """Release the sandbox and the addresses of a terminated pod; logs are kept."""

    async def remove_pod(self, uid: str) -> None:
        """Remove everything of a pod."""

    def get_container_logs(self, pod: Pod, container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a container in pieces of whole lines."""

    async def exec(self, pod: Pod, container: str, command: tuple[str, ...], streams: StandardStreams) -> int:
        """Run a command in a container and return its exit code."""

    async def attach(self, pod: Pod, container: str, streams: StandardStreams) -> None:
        """Connect streams to the process of a container until it exits."""

    async def port_forward(self, pod: Pod, port: int, connection: PortConnection) -> None:
        """Serve a connection to a port of a pod. Raises `ForwardFailed` if nothing listens there."""

    def usage(self, pod: Pod) -> Mapping[str, ContainerUsage]:
        """Return the usage of the running containers of a pod."""

    def volume_usage(self, pod: Pod) -> Mapping[str, int]:
        """Return the bytes that the emptyDir volumes of a pod use on the node's disk, by volume name."""
