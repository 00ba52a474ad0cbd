# SPDX-License-Identifier: Apache-2.0
"""Simulated runtime: pods whose containers have planned runs instead of processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Protocol

from kubeloop.api.generated.core_v1 import Container, LifecycleHandler, Pod, Probe
from kubeloop.api.kubelet_requests import (
    ForwardFailed,
    PodLogOptions,
    PortConnection,
    StandardStreams,
)
from kubeloop.clock import Clock
from kubeloop.kubelet.containers.environment import make_environment
from kubeloop.kubelet.containers.image_pulls import IMAGE_FAILURES
from kubeloop.kubelet.runtime import (
    ContainerRun,
    ContainerStartError,
    ContainerUsage,
    EnvSourceValues,
    PodObservation,
    ProbeKind,
    ProbeResult,
)
from kubeloop.kubelet.simulated.addresses import PodAddressAllocator
from kubeloop.kubelet.simulated.commands import CommandContext, is_interactive, run_command
from kubeloop.kubelet.simulated.files import InMemoryFiles
from kubeloop.kubelet.simulated.hooks import post_start_behavior, pre_stop_behavior
from kubeloop.kubelet.simulated.logs import default_log_line, follow_lines, stream_log
from kubeloop.kubelet.simulated.pod import SimulatedPod, adopt_pod
from kubeloop.kubelet.simulated.ports import container_listening_on, serve_connection
from kubeloop.kubelet.simulated.process import SimulatedProcess
from kubeloop.kubelet.simulated.script import probe_container, simulated_usage
from kubeloop.kubelet.simulated.stages import StageRule, Stages
from kubeloop.kubelet.simulated.terminal import Terminal
from kubeloop.kubelet.sync.containers import find_container
from kubeloop.kubelet.sync.sync_queues import EnqueuePod
from kubeloop.runtime.objects.keys import key_of

SCHEME = "sim://"
_KEPT_RUNS = 2  # runs kept per container: the current and the previous one


class NodeResources(Protocol):
    """Facts about nodes that the environment of their containers contains."""

    def allocatable_of(self, name: str) -> Mapping[str, str]:
        """Return the allocatable resources of a node."""


class SimulatedRuntime:
    """Runs the containers of any number of nodes; `enqueue` queues a pod for sync."""

    name = "kubeloop://simulated"
    emits_start_events = False

    def __init__(
        self,
        clock: Clock,
        nodes: NodeResources,
        addresses: PodAddressAllocator,
        rules: Sequence[StageRule],
        enqueue: EnqueuePod,
    ) -> None:
        self._clock = clock
        self._stages = Stages(rules, clock)
        self.addresses = addresses
        self._nodes = nodes
        self._enqueue = enqueue
        self._pods: dict[str, SimulatedPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    async def get_pod_status(self, pod: Pod) -> PodObservation:
        """Return the present state of a pod; a pod that ran before this process is adopted from its status."""
        found = self._pods.get(pod.metadata.uid)
        if found is None:
            if not pod.status.container_statuses or pod.status.phase in ("Succeeded", "Failed"):
                return PodObservation()
            found = self._adopt(pod)
        now = self._clock.now()
        runs: dict[str, tuple[ContainerRun, ...]] = {}
        changes_at: datetime | None = None
        for name, processes in found.processes.items():
            runs[name] = tuple(one.observe(now) for one in processes)
            moment = processes[0].next_change_after(now)
            if moment is not None and (changes_at is None or moment < changes_at):
                changes_at = moment
        return PodObservation(
            addresses=found.addresses if found.has_sandbox else None, runs=runs, next_change_at=changes_at
        )

    async def run_pod_sandbox(self, pod: Pod) -> None:
        """Create the sandbox with its addresses. Raises `ContainerStartError`."""
        found = self._pods.setdefault(pod.metadata.uid, SimulatedPod(pod.spec.node_name))
        addresses = found.addresses
        if not addresses:
            try:
                addresses = self.addresses.allocate(found.node)
            except OverflowError as error:
                raise ContainerStartError(
                    "FailedCreatePodSandBox", f"failed to set up sandbox network: {error}"
                ) from None
        found.start_sandbox(addresses)

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, found: EnvSourceValues | None
    ) -> None:
        """Start a run of a container and its postStart hook. Raises `ContainerStartError` by script."""
        script = self._stages.script_for(pod, container)
        if script is not None and (reason := script.text("start-error")):
            raise ContainerStartError(reason, script.text("start-error-message") or _start_error(reason, container))
        process = SimulatedProcess(
            container, attempt, self._new_id(), _image_id(container.image), self._clock.now(), found
        )
        process.plan(script)
        if container.lifecycle is not None and (hook := container.lifecycle.post_start) is not None:
            process.start_post_start_hook(post_start_behavior(hook, pod, container, script))
        processes = self._pods[pod.metadata.uid].processes
        processes[container.name] = [process, *processes.get(container.name, ())][:_KEPT_RUNS]

    async def stop_container(self, pod: Pod, container: str, grace: float, hook: LifecycleHandler | None) -> None:
        """Stop a container within the grace period."""
        process = self._process(pod.metadata.uid, container)
        if process is not None:
            course = pre_stop_behavior(hook, pod, process.container, process.script) if hook is not None else None
            process.stop(self._clock.now(), course, grace)

    async def start_pre_stop_hook(self, pod: Pod, container: str, hook: LifecycleHandler) -> None:
        """Start the preStop hook of a container that is stopped later."""
        process = self._process(pod.metadata.uid, container)
        if process is not None:
            process.start_pre_stop_hook(
                self._clock.now(), pre_stop_behavior(hook, pod, process.container, process.script)
            )

    async def resize_pod(self, pod: Pod, containers: Sequence[Container]) -> None:
        """Start changing the resources of containers."""
        for container in containers:
            process = self._process(pod.metadata.uid, container.name)
            if process is not None:
                process.resize(container, self._clock.now())

    async def probe(self, pod: Pod, container: Container, kind: ProbeKind, probe: Probe) -> ProbeResult:
        """Return the result of a probe."""
        process = self._process(pod.metadata.uid, container.name)
        if process is None:
            return ProbeResult(False, "container no longer exists")
        return probe_container(kind, probe, process.script, process.starts_at, self._clock.now())

    async def reset_pod(self, pod: Pod) -> None:
        """Reset a pod, so that its last runs only count as attempts."""
        found = self._pods.get(pod.metadata.uid)
        for processes in found.processes.values() if found is not None else ():
            processes[0].leave_sandbox()
            processes[0].mark_reset()

    async def unprepare_pod(self, pod: Pod) -> None:
        """Do nothing: simulated nodes have no such resources."""

    async def stop_pod_sandbox(self, pod: Pod) -> None:
        """Release the sandbox and its addresses."""
        found = self._pods.get(pod.metadata.uid)
        if found is not None and found.addresses:
            self.addresses.release(found.addresses)
            found.stop_sandbox()

    async def remove_pod(self, uid: str) -> None:
        """Remove a pod."""
        found = self._pods.pop(uid, None)
        if found is not None and found.addresses:
            self.addresses.release(found.addresses)

    def adopt_pod(self, pod: Pod) -> None:
        """Reserve the addresses of a pod that ran before this agent started."""
        self.addresses.reserve(one.ip for one in pod.status.pod_ips)

    def halt(self, uid: str) -> None:
        """End the sandbox and processes of a pod whose node is stopped."""
        found = self._pods.get(uid)
        if found is not None:
            found.halt(self._clock.now())

    async def get_container_logs(self, pod: Pod, container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a container."""
        found = self._pods.get(pod.metadata.uid)
        processes = found.processes.get(container, []) if found is not None else []
        index = 1 if options.previous else 0
        if index < len(processes):
            async for piece in stream_log(processes[index], pod, options, self._clock):
                yield piece

    async def exec(self, pod: Pod, container: str, command: tuple[str, ...], streams: StandardStreams) -> int:
        """Run a command in a container and return its exit code."""
        return await run_command(command, self._command_context(pod, container), streams)

    async def attach(self, pod: Pod, container: str, streams: StandardStreams) -> None:
        """Connect streams to a container: to its interactive command, or to its output."""
        process = self._process(pod.metadata.uid, container)
        if process is None:
            return
        command = (*process.container.command, *process.container.args)
        if process.container.stdin and streams.stdin and is_interactive(command):
            await self._run_interactive(pod, process, command or ("sh",), streams)
            return
        count = len(process.log_entries(self._clock.now(), default_log_line(process, pod)))
        async for _, text in follow_lines(count, process, pod, self._clock):
            await Terminal(streams).write(f"{text}\n".encode())

    async def port_forward(self, pod: Pod, port: int, connection: PortConnection) -> None:
        """Serve a connection to a port of a pod. Raises `ForwardFailed`."""
        container = container_listening_on(pod, port)
        process = self._process(pod.metadata.uid, container.name) if container is not None else None
        if container is None or process is None or process.observe(self._clock.now()).state != "running":
            raise ForwardFailed(
                f'failed to connect to localhost:{port} inside namespace "{pod.metadata.uid}", '
                f"IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused"
            )
        await serve_connection(pod, container, port, connection)

    def volume_usage(self, pod: Pod) -> Mapping[str, int]:
        """Return nothing: simulated volumes have no contents."""
        return {}

    def usage(self, pod: Pod) -> Mapping[str, ContainerUsage]:
        """Return the usage of the running containers of a pod."""
        found, now = self._pods.get(pod.metadata.uid), self._clock.now()
        if found is None:
            return {}
        return {
            name: simulated_usage(processes[0].container, processes[0].script)
            for name, processes in found.processes.items()
            if processes[0].is_alive(now) and processes[0].starts_at <= now
        }

    # Helpers.

    async def _run_interactive(
        self, pod: Pod, process: SimulatedProcess, command: tuple[str, ...], streams: StandardStreams
    ) -> None:
        """Run an interactive session with the container's command; with stdinOnce its end ends the run."""
        code = await run_command(command, self._command_context(pod, process.container.name), streams)
        if process.container.stdin_once:
            process.exit_at(self._clock.now(), code)
            self._enqueue(key_of(pod))

    def _command_context(self, pod: Pod, name: str) -> CommandContext:
        """Return the context of commands in a container; files last until it is restarted."""
        container, process = find_container(pod, name), self._process(pod.metadata.uid, name)
        found = process.env_source_values if process is not None else None
        variables = self._variables(pod, container, found) if container is not None else {}
        files = process.files if process is not None else InMemoryFiles()
        return CommandContext(pod.spec.hostname or pod.metadata.name, variables, files)

    def _variables(self, pod: Pod, container: Container, found: EnvSourceValues | None) -> dict[str, str]:
        return make_environment(pod, container, found, self._nodes.allocatable_of(pod.spec.node_name))

    def _process(self, uid: str, container: str) -> SimulatedProcess | None:
        found = self._pods.get(uid)
        processes = found.processes.get(container) if found is not None else None
        return processes[0] if processes else None

    def _new_id(self) -> str:
        return f"{SCHEME}{self._clock.random().getrandbits(256):064x}"

    def _adopt(self, pod: Pod) -> SimulatedPod:
        found = self._pods[pod.metadata.uid] = adopt_pod(pod, self._stages)
        self.addresses.reserve(found.addresses)
        return found


def _start_error(reason: str, container: Container) -> str:
    if reason == "ErrImageNeverPull":
        return f'Container image "{container.image}" is not present with pull policy of Never'
    if reason == "InvalidImageName":
        why = f'couldn\'t parse image name "{container.image}": invalid reference format'
        return f'Failed to apply default image tag "{container.image}": {why}'
    if reason in IMAGE_FAILURES:
        return f'failed to pull and unpack image "{container.image}": not found'
    return f"container {container.name} could not be started"


@lru_cache(maxsize=1024)
def _image_id(image: str) -> str:
    repository = image.partition("@")[0]
    tagged = repository.rpartition(":")
    if tagged[0] and "/" not in tagged[2]:
        repository = tagged[0]
    return f"{repository}@sha256:{sha256(image.encode()).hexdigest()}"
