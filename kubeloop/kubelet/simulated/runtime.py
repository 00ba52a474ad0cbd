"""Simulated runtime: pods whose containers have planned runs instead of processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256

from kubeloop.api.generated.core_v1 import Container, ContainerStatus, LifecycleHandler, Pod, Probe
from kubeloop.api.node_calls import ForwardFailed, PodLogOptions, PortConnection, StandardStreams
from kubeloop.api.scalars.times import parse_time
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
from kubeloop.kubelet.simulated.execution import CommandContext, is_interactive, run_command
from kubeloop.kubelet.simulated.files import InMemoryFiles
from kubeloop.kubelet.simulated.hooks import post_start_behavior, pre_stop_behavior
from kubeloop.kubelet.simulated.logs import default_log_line, follow_lines, stream_log
from kubeloop.kubelet.simulated.ports import container_listening_on, serve_connection
from kubeloop.kubelet.simulated.prober import probe_container
from kubeloop.kubelet.simulated.process import SimulatedProcess
from kubeloop.kubelet.simulated.script import Script
from kubeloop.kubelet.simulated.stages import StageRule, Stages
from kubeloop.kubelet.simulated.terminal import Terminal
from kubeloop.kubelet.simulated.usage import simulated_usage
from kubeloop.kubelet.sync.containers import all_containers_of, find_container
from kubeloop.kubelet.sync.restart import RESTARTING_ALL
from kubeloop.runtime.objects.keys import ObjectKey, key_of

SCHEME = "sim://"
EPOCH = datetime.fromtimestamp(0, UTC)
_KEPT_RUNS = 2  # runs kept per container: the current and the previous one
# Exit code and reason of containers whose node was stopped.
_NODE_STOPPED_EXIT = (255, "Unknown")


class _SimulatedPod:
    """State of one pod."""

    __slots__ = ("addresses", "node", "processes", "ready")

    def __init__(self, node: str) -> None:
        self.node = node
        self.addresses: tuple[str, ...] = ()
        self.ready = False  # True if there is a sandbox
        self.processes: dict[str, list[SimulatedProcess]] = {}  # by container, newest first


class SimulatedRuntime:
    """Runs the containers of any number of nodes."""

    name = "kubeloop://simulated"

    def __init__(
        self, clock: Clock, networks_of: Callable[[str], Iterable[str]] = lambda _: (), rules: Sequence[StageRule] = ()
    ) -> None:
        self._clock = clock
        self._stages = Stages(rules, clock)
        self.addresses = PodAddressAllocator(networks_of)
        self._pods: dict[str, _SimulatedPod] = {}
        self.allocatable_of: Callable[[str], Mapping[str, str]] = lambda _: {}  # allocatable resources of a node
        self.wake: Callable[[ObjectKey], None] = lambda _: None  # queues a pod for sync

    def __len__(self) -> int:
        return len(self._pods)

    async def observe(self, pod: Pod) -> PodObservation:
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
            runs[name] = tuple(one.seen_at(now) for one in processes)
            moment = processes[0].changes_after(now)
            if moment is not None and (changes_at is None or moment < changes_at):
                changes_at = moment
        return PodObservation(addresses=found.addresses if found.ready else None, runs=runs, changes_at=changes_at)

    async def prepare(self, pod: Pod) -> None:
        """Create the sandbox with its addresses. Raises `ContainerStartError`."""
        found = self._pods.setdefault(pod.metadata.uid, _SimulatedPod(pod.spec.node_name))
        if not found.addresses:
            try:
                found.addresses = self.addresses.take(found.node)
            except OverflowError as error:
                raise ContainerStartError(
                    "FailedCreatePodSandBox", f"failed to set up sandbox network: {error}"
                ) from None
        found.ready = True

    async def start(self, pod: Pod, container: Container, attempt: int, found: EnvSourceValues | None = None) -> None:
        """Start a run of a container and its postStart hook. Raises `ContainerStartError` by script."""
        script = self._stages.script(pod, container)
        if script is not None and (reason := script.text("start-error")):
            raise ContainerStartError(reason, script.text("start-error-message") or _start_error(reason, container))
        process = SimulatedProcess(container, attempt, self._new_id(), _image_id(container.image), self._clock.now())
        process.follow(script)
        process.found = found
        if container.lifecycle is not None and (hook := container.lifecycle.post_start) is not None:
            process.begin_hook(post_start_behavior(hook, pod, container, script))
        processes = self._pods[pod.metadata.uid].processes
        processes[container.name] = [process, *processes.get(container.name, ())][:_KEPT_RUNS]

    async def stop(self, pod: Pod, container: str, grace: float, hook: LifecycleHandler | None) -> None:
        """Stop a container within the grace period."""
        process = self._process(pod.metadata.uid, container)
        if process is not None:
            course = pre_stop_behavior(hook, pod, process.container, process.script) if hook is not None else None
            process.stop(self._clock.now(), course, grace)

    async def warn(self, pod: Pod, container: str, hook: LifecycleHandler) -> None:
        """Start the preStop hook of a container that is stopped later."""
        process = self._process(pod.metadata.uid, container)
        if process is not None:
            process.warn(self._clock.now(), pre_stop_behavior(hook, pod, process.container, process.script))

    async def resize(self, pod: Pod, container: Container) -> None:
        """Start changing the resources of a container."""
        process = self._process(pod.metadata.uid, container.name)
        if process is not None:
            process.resize(container, self._clock.now())

    async def probe(self, pod: Pod, container: Container, kind: ProbeKind, probe: Probe) -> ProbeResult:
        """Return the result of a probe."""
        process = self._process(pod.metadata.uid, container.name)
        if process is None:
            return ProbeResult(False, "container is gone")
        return probe_container(kind, probe, process.script, process.starts_at, self._clock.now())

    async def put_aside(self, pod: Pod) -> None:
        """Reset a pod, so that its last runs only count as attempts."""
        found = self._pods.get(pod.metadata.uid)
        for processes in found.processes.values() if found is not None else ():
            processes[0].of_present_sandbox, processes[0].put_aside = False, True

    async def release(self, pod: Pod) -> None:
        """Release the sandbox and its addresses."""
        found = self._pods.get(pod.metadata.uid)
        if found is not None and found.addresses:
            self.addresses.release(found.addresses)
            found.addresses, found.ready = (), False

    async def remove(self, uid: str) -> None:
        """Remove a pod."""
        found = self._pods.pop(uid, None)
        if found is not None and found.addresses:
            self.addresses.release(found.addresses)

    def halt(self, uid: str) -> None:
        """End the sandbox and processes of a pod whose node is stopped."""
        found = self._pods.get(uid)
        if found is None:
            return
        found.ready = False
        for processes in found.processes.values():
            for process in processes:
                process.end(self._clock.now(), *_NODE_STOPPED_EXIT)
                process.of_present_sandbox = False

    async def logs(self, pod: Pod, container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a container."""
        found = self._pods.get(pod.metadata.uid)
        processes = found.processes.get(container, []) if found is not None else []
        index = 1 if options.previous else 0
        if index < len(processes):
            async for piece in stream_log(processes[index], pod, options, self._clock):
                yield piece

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], streams: StandardStreams) -> int:
        """Run a command in a container and return its exit code."""
        return await run_command(command, self._surroundings(pod, container), streams)

    async def attach(self, pod: Pod, container: str, streams: StandardStreams) -> None:
        """Connect streams to a container: to its interactive command, or to its output."""
        process = self._process(pod.metadata.uid, container)
        if process is None:
            return
        command = (*process.container.command, *process.container.args)
        if process.container.stdin and streams.stdin and is_interactive(command):
            await self._converse(pod, process, command or ("sh",), streams)
            return
        count = len(process.written(self._clock.now(), default_log_line(process, pod)))
        async for _, text in follow_lines(count, process, pod, self._clock):
            await Terminal(streams).write(f"{text}\n".encode())

    async def forward(self, pod: Pod, port: int, connection: PortConnection) -> None:
        """Serve a connection to a port of a pod. Raises `ForwardFailed`."""
        container = container_listening_on(pod, port)
        process = self._process(pod.metadata.uid, container.name) if container is not None else None
        if container is None or process is None or process.seen_at(self._clock.now()).state != "running":
            raise ForwardFailed(
                f'failed to connect to localhost:{port} inside namespace "{pod.metadata.uid}", '
                f"IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused"
            )
        await serve_connection(pod, container, port, connection)

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

    async def _converse(
        self, pod: Pod, process: SimulatedProcess, command: tuple[str, ...], streams: StandardStreams
    ) -> None:
        """Run an interactive session with the container's command; with stdinOnce its end ends the run."""
        code = await run_command(command, self._surroundings(pod, process.container.name), streams)
        if process.container.stdin_once:
            process.end(self._clock.now(), code)
            self.wake(key_of(pod))

    def _surroundings(self, pod: Pod, name: str) -> CommandContext:
        """Return the context of commands in a container; files last until it is restarted."""
        container, process = find_container(pod, name), self._process(pod.metadata.uid, name)
        found = process.found if process is not None else None
        variables = self._variables(pod, container, found) if container is not None else {}
        files = InMemoryFiles()
        if process is not None:
            files = process.files = process.files or files
        return CommandContext(pod.spec.hostname or pod.metadata.name, variables, files)

    def _variables(self, pod: Pod, container: Container, found: EnvSourceValues | None) -> dict[str, str]:
        return make_environment(pod, container, found, self.allocatable_of(pod.spec.node_name))

    def _process(self, uid: str, container: str) -> SimulatedProcess | None:
        found = self._pods.get(uid)
        processes = found.processes.get(container) if found is not None else None
        return processes[0] if processes else None

    def _new_id(self) -> str:
        return f"{SCHEME}{self._clock.random().getrandbits(256):064x}"

    def _adopt(self, pod: Pod) -> _SimulatedPod:
        """Reconstruct a pod that ran before this process from its status."""
        found = self._pods[pod.metadata.uid] = _SimulatedPod(pod.spec.node_name)
        found.addresses = tuple(one.ip for one in pod.status.pod_ips)
        found.ready = bool(found.addresses)
        self.addresses.claim(found.addresses)
        reported = (
            *pod.status.init_container_statuses,
            *pod.status.container_statuses,
            *pod.status.ephemeral_container_statuses,
        )
        statuses = {one.name: one for one in reported}
        for container in all_containers_of(pod):
            script = self._stages.script(pod, container)
            status = statuses.get(container.name)
            process = _adopt_run(container, status, script)
            if process is not None and status is not None:
                found.processes[container.name] = [process, *_adopt_previous_run(container, status)]
        return found


def _adopt_previous_run(container: Container, status: ContainerStatus) -> list[SimulatedProcess]:
    """Return the previous run, as far as the status shows it."""
    over = status.last_state.terminated
    if over is None or status.state.waiting is not None:
        return []
    began = parse_time(over.started_at) if over.started_at is not None else EPOCH
    process = SimulatedProcess(container, status.restart_count - 1, over.container_id, status.image_id, began)
    process.end(parse_time(over.finished_at) if over.finished_at is not None else began, over.exit_code, over.reason)
    process.put_aside = over.reason == RESTARTING_ALL
    return [process]


def _adopt_run(container: Container, status: ContainerStatus | None, script: Script | None) -> SimulatedProcess | None:
    if status is None or not status.container_id:
        return None
    running, over = status.state.running, status.state.terminated or status.last_state.terminated
    began = running.started_at if running is not None else over.started_at if over is not None else None
    if began is None:
        return None
    process = SimulatedProcess(container, status.restart_count, status.container_id, status.image_id, parse_time(began))
    process.follow(script)
    process.starts_at = process.created_at
    if status.resources is not None:
        process.resources = status.resources
    if running is None and over is not None:
        process.end(parse_time(over.finished_at or began), over.exit_code, over.reason)
    return process


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
