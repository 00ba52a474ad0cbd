# SPDX-License-Identifier: Apache-2.0
"""Runtime of real containers over CRI: performs the operations that the pod workers decide on.

Stops and hooks run in tasks of their own (`operations`): their ends queue the pod, as changes seen by the PLEG do.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kubeloop.api.generated.core_v1 import Container, HostIP, LifecycleHandler, Pod, PodIP, Probe, Service
from kubeloop.api.kubelet_requests import PodLogOptions, PortConnection, StandardStreams
from kubeloop.grpc.streams import NOT_FOUND, RpcError
from kubeloop.kubelet.admission.resize import needs_pod_level_resize
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError
from kubeloop.kubelet.cm.container_manager import ContainerManager
from kubeloop.kubelet.cm.resource_managers import PrepareError, ResourceManagers, RunOptionsError
from kubeloop.kubelet.containers.env_sources import CONFIG_ERROR
from kubeloop.kubelet.containers.environment import make_environment, without_default_hostname
from kubeloop.kubelet.containers.service_environment import service_environment
from kubeloop.kubelet.cri import container_logs
from kubeloop.kubelet.cri.config.container_config import ContainerInputs, make_container_config
from kubeloop.kubelet.cri.config.labels import POD_UID
from kubeloop.kubelet.cri.config.linux_resources import MachineMemory
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.config.sandbox_config import HostnameError, SandboxInputs, make_sandbox_config
from kubeloop.kubelet.cri.config.security_context import ContainerConfigError
from kubeloop.kubelet.cri.container_mounts import ContainerMounts, MountInputs
from kubeloop.kubelet.cri.gc.log_links import ContainerLogLinks
from kubeloop.kubelet.cri.gc.log_manager import remove_logs
from kubeloop.kubelet.cri.image_manager import ImageManager
from kubeloop.kubelet.cri.isolation.host_security import HostSecurity
from kubeloop.kubelet.cri.isolation.pod_isolation import IsolationError, IsolationManager, PodIsolation
from kubeloop.kubelet.cri.lifecycle.actuated_state import ActuatedState, PodResourceInfo
from kubeloop.kubelet.cri.lifecycle.hooks import HookRunner
from kubeloop.kubelet.cri.lifecycle.keyed_lock import KeyedLock
from kubeloop.kubelet.cri.lifecycle.operations import ContainerOperations
from kubeloop.kubelet.cri.lifecycle.probers import Prober, ProbeTarget
from kubeloop.kubelet.cri.lifecycle.resize import PodResizer, actuated_resources
from kubeloop.kubelet.cri.messages.container import CreateContainerRequest
from kubeloop.kubelet.cri.messages.sandbox import DNSConfig, PodSandboxConfig
from kubeloop.kubelet.cri.pod_status_cache import KnownSandbox, PodParts, PodStatusCache
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.kubelet.cri.stats.collector import StatsCollector
from kubeloop.kubelet.cri.streams import StreamingClient
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.runtime import (
    ContainerCheckpointError,
    ContainerRun,
    ContainerStartError,
    ContainerUsage,
    EnvSourceValues,
    PodObservation,
    PodResizeError,
    ProbeKind,
    ProbeResult,
)
from kubeloop.kubelet.sync.containers import find_container, target_container_of
from kubeloop.kubelet.sync.sync_queues import EnqueuePod
from kubeloop.runtime.objects.keys import ObjectKey, key_of

log = logging.getLogger(__name__)

_KEPT_RUNS = 2  # of each container: the present one and the one before


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts about the node that its containers depend on."""

    paths: NodePaths
    addresses: tuple[str, ...]
    memory: MachineMemory
    cluster_domain: str
    dns_of: Callable[[Pod], DNSConfig | None]
    allocatable_of: Callable[[], Mapping[str, str]]
    services_of: Callable[[], Iterable[Service] | None]  # None until they were listed
    security: HostSecurity = field(default_factory=HostSecurity)
    seccomp_default: bool = False  # `seccompDefault`
    default_sysctls: Mapping[str, str] = field(default_factory=dict)  # `defaultPodSysctls`


@dataclass(frozen=True, slots=True)
class CriParts:
    """Parts that provide images, mounts, streams and statistics."""

    events: PodEvents
    images: ImageManager
    mounts: ContainerMounts
    streams: StreamingClient
    isolation: IsolationManager
    resources: ContainerManager
    managers: ResourceManagers
    actuated: ActuatedState
    stats: StatsCollector | None = None
    is_absent: Callable[[str], bool] | None = None  # True for the UID of a pod that the runtime has nothing of


class CriRuntime:
    """Runs the containers of one node; `enqueue` queues a pod for sync."""

    emits_start_events = True

    def __init__(
        self, service: RuntimeService, name: str, facts: NodeFacts, parts: CriParts, enqueue: EnqueuePod
    ) -> None:
        self.name = name
        self._service = service
        self._facts = facts
        self._parts = parts
        self._enqueue = enqueue
        self._cache = PodStatusCache(service, name.partition("://")[0], facts.addresses, parts.is_absent)
        self._synced: dict[str, PodObservation] = {}  # by pod UID: what its worker has seen last
        self._busy: Counter[str] = Counter()  # sandboxes and containers that are being created, by pod UID
        self._log_links = ContainerLogLinks(facts.paths.container_logs())
        self._hooks = HookRunner(service)
        self._prober = Prober(service)
        self._operations = ContainerOperations(service, self._hooks, self._on_operation_end)
        self._resizer = PodResizer(service, parts.resources.pods, parts.actuated, facts.memory, parts.managers)
        self._starts: dict[str, asyncio.Task[None]] = {}  # starts under way, by pod UID
        self._removals = KeyedLock()  # by pod UID: of pod workers and of orphaned pods

    # Changes that others see.

    def on_listed_change(self, uid: str, key: ObjectKey, parts: PodParts) -> bool:
        """Handle a change that the PLEG has found; returns False while the pod's worker creates something of it.

        A change that the worker has made, and seen, needs no sync.
        """
        if self._busy[uid]:
            return False
        seen = self._cache.peek(uid)
        if seen is None or seen is not self._synced.get(uid) or self._cache.parts_of(uid) != parts:
            self.on_pod_change(uid, key)
        return True

    def on_pod_change(self, uid: str, key: ObjectKey) -> None:
        """Handle a change of a pod's containers by themselves."""
        self._cache.invalidate(uid)
        self._enqueue(key)

    def adopt_pod(self, pod: Pod) -> None:
        """Do nothing: the runtime knows its pods."""

    def halt(self, uid: str) -> None:
        """Do nothing: only simulated nodes are stopped by an annotation."""

    def interrupt(self, uid: str) -> None:
        """Cancel the start of a container of a pod that is to be stopped: a pull may take long."""
        if (task := self._starts.get(uid)) is not None:
            task.cancel()

    async def close(self) -> None:
        """End operations under way; containers run on."""
        await self._operations.close()

    # Observation.

    async def get_pod_status(self, pod: Pod) -> PodObservation:
        """Return the present state of a pod."""
        uid = pod.metadata.uid
        if uid not in self._starts:
            await self._cache.remove_unstarted(uid)
        found = self._synced[uid] = await self._cache.get(uid)
        seen = self._with_resource_statuses(pod, self._operations.overlay(found))
        given = self._parts.actuated.get(uid)
        if given is None:
            return seen
        runs = {name: tuple(_with_resources(one, given) for one in found) for name, found in seen.runs.items()}
        return msgspec.structs.replace(seen, runs=runs, pod_level_resources=given.pod_level)

    def _with_resource_statuses(self, pod: Pod, seen: PodObservation) -> PodObservation:
        names = [one.name for one in pod.spec.containers or () if one.name in seen.runs]
        health = {name: self._parts.managers.resource_statuses(pod, name) for name in names}
        changed = {
            name: tuple(msgspec.structs.replace(one, resource_statuses=found) for one in seen.runs[name])
            for name, found in health.items()
            if found
        }
        return msgspec.structs.replace(seen, runs={**seen.runs, **changed}) if changed else seen

    # Sandboxes.

    async def run_pod_sandbox(self, pod: Pod) -> None:
        """Create the pod's sandbox. Raises `ContainerStartError`."""
        uid = pod.metadata.uid
        old = await self._cache.sandboxes(uid)
        attempt, id = max((one.attempt + 1 for one in old), default=0), ""
        try:
            for one in old:
                await self._service.stop_pod_sandbox(one.id)
            self._facts.paths.pod(uid).mkdir(mode=0o750, parents=True, exist_ok=True)
            has_exclusive_cpus = self._parts.managers.has_exclusive_cpus(pod)
            await self._parts.resources.ensure_pod(pod, has_exclusive_cpus=has_exclusive_cpus)
            await self._parts.managers.prepare(pod)
            isolation = await self._parts.isolation.isolation_of(pod)
            config = self._sandbox_config(pod, attempt, isolation)
            self._facts.paths.logs(pod).mkdir(mode=0o755, parents=True, exist_ok=True)
            with self._creating(uid):
                id = await self._service.run_pod_sandbox(config, isolation.handler)
                self._cache.add_sandbox(uid, KnownSandbox(id, attempt))
        except CgroupError as error:
            message = f"unable to ensure pod container exists: {error}"
            raise ContainerStartError("FailedCreatePodContainer", message) from None
        except PrepareError as error:
            raise ContainerStartError(error.reason, str(error)) from None
        except (HostnameError, IsolationError) as error:
            raise ContainerStartError("FailedCreatePodSandBox", str(error)) from None
        except RpcError as error:
            raise ContainerStartError("FailedCreatePodSandBox", error.format()) from None
        finally:
            if not id:
                self._cache.invalidate(uid)

    async def unprepare_pod(self, pod: Pod) -> None:
        """Release what the resource managers have allocated and prepared for a pod."""
        await self._parts.managers.unprepare(pod)

    async def stop_pod_sandbox(self, pod: Pod) -> None:
        """Stop the sandboxes of a terminated pod and unmount its volumes; its logs are kept."""
        for one in await self._service.list_pod_sandboxes({POD_UID: pod.metadata.uid}):
            await self._service.stop_pod_sandbox(one.id)
        self._parts.mounts.unmount_pod(pod.metadata.uid)
        self._parts.isolation.release(pod.metadata.uid)
        self._cache.invalidate(pod.metadata.uid)
        try:
            await self._parts.resources.pods.destroy(pod.metadata.uid)
        except CgroupError as error:  # the housekeeping tries again
            log.info("control group of pod %s: %s", pod.metadata.uid, error)

    def is_unmounted(self, uid: str) -> bool:
        """Return True if nothing is left of the volumes of a pod."""
        return self._parts.mounts.is_unmounted(uid)

    async def remove_pod(self, uid: str) -> None:
        """Remove the sandboxes, containers, mounts and files of a pod; a runtime refuses two removals at a time."""
        async with self._removals.hold(uid):
            await self._remove_pod(uid)

    async def _remove_pod(self, uid: str) -> None:
        containers = await self._service.list_containers({POD_UID: uid})
        self._operations.forget({one.id for one in containers})
        for one in await self._service.list_pod_sandboxes({POD_UID: uid}):
            await self._service.stop_pod_sandbox(one.id)
            await self._service.remove_pod_sandbox(one.id)
        for container in containers:
            self._log_links.remove(container.id, container.labels)
        self._cache.remove(uid)
        self._parts.managers.remove_pod(uid)
        self._synced.pop(uid, None)
        self._parts.isolation.release(uid)
        self._parts.mounts.remove_pod(uid)
        await self._parts.resources.pods.destroy(uid)
        self._parts.actuated.remove_pod(uid)
        for folder in self._facts.paths.pod_logs.glob(f"*_{uid}"):
            shutil.rmtree(folder, ignore_errors=True)

    async def reset_pod(self, pod: Pod) -> None:
        """Reset a pod whose containers have all exited; their runs only count as attempts."""
        seen = await self.get_pod_status(pod)
        self._operations.mark_reset(_bare(found[0].id) for found in seen.runs.values() if found)

    # Containers.

    async def start_container(
        self, pod: Pod, container: Container, attempt: int, found: EnvSourceValues | None
    ) -> None:
        """Start a run of a container and its postStart hook. Raises `ContainerStartError`."""
        uid = pod.metadata.uid
        task = self._starts[uid] = asyncio.create_task(self._start(pod, container, attempt, found))
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            del self._starts[uid]
            if not task.done() or task.cancelled() or task.exception() is not None:
                self._cache.invalidate(uid)
        if task.cancelled():
            raise ContainerStartError("ErrImagePull", "context canceled")
        task.result()

    async def _start(self, pod: Pod, container: Container, attempt: int, found: EnvSourceValues | None) -> None:
        seen = await self._cache.get(pod.metadata.uid)
        pod = self._with_addresses(pod, seen)
        try:
            isolation = await self._parts.isolation.isolation_of(pod)
        except IsolationError as error:
            raise ContainerStartError(CONFIG_ERROR, str(error)) from None
        sandbox, sandbox_id = self._sandbox_config(pod, 0, isolation), self._cache.sandbox_of(pod.metadata.uid)
        image = await self._parts.images.ensure_image(pod, container, sandbox)
        environment = self._environment(pod, container, found)
        images = await self._parts.images.ensure_volume_images(pod, container, sandbox)
        facts = self._facts
        try:
            inputs = ContainerInputs(
                attempt,
                image.ref,
                image.user,
                environment,
                self._parts.mounts.prepare(
                    pod, container, MountInputs(environment, images, isolation.has_recursive_read_only)
                ),
                facts.memory,
                str(facts.paths.seccomp()),
                facts.seccomp_default,
                facts.security.masked_paths,
                devices=self._parts.mounts.devices(pod, container),
                target_id=_target_id(pod, container, seen),
                user_namespace=isolation.user_namespace,
                options=await self._parts.managers.run_options(pod, container),
            )
            config = make_container_config(pod, container, inputs)
        except (ContainerConfigError, RunOptionsError) as error:
            raise ContainerStartError(CONFIG_ERROR, str(error)) from None
        if self._resizer.is_resized(pod, container):
            await self._resize_before_start(pod, sandbox_id)
        await self._remove_old_runs(pod, seen, container.name)
        (facts.paths.logs(pod) / container.name).mkdir(mode=0o755, parents=True, exist_ok=True)
        request = CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox)
        with self._creating(pod.metadata.uid):
            id = await self._create_and_start(pod, container, request)
            self._cache.add_container(pod.metadata.uid, sandbox_id, id)
        self._log_links.create(id, config.labels, facts.paths.logs(pod) / config.log_path)
        self._operations.start_post_start(pod, container, id)

    async def _create_and_start(self, pod: Pod, container: Container, request: CreateContainerRequest) -> str:
        """Create and start a container; returns its ID. Its resources are on the disk before it runs."""
        self._parts.actuated.set_container(pod, container)
        recorded = asyncio.create_task(self._parts.actuated.wait_durable())
        try:
            id = await self._service.create_container(request)
        except RpcError as error:
            raise ContainerStartError("CreateContainerError", error.details) from None
        finally:
            await recorded
        self._parts.events.record_container_created(pod, container)
        try:
            await self._service.start_container(id)
        except RpcError as error:
            raise ContainerStartError("RunContainerError", error.details) from None
        self._parts.events.record_container_started(pod, container)
        return id

    @contextmanager
    def _creating(self, uid: str) -> Iterator[None]:
        """Keep the PLEG from reporting what the worker of a pod is about to see itself."""
        self._busy[uid] += 1
        try:
            yield
        finally:
            self._busy[uid] -= 1
            if not self._busy[uid]:
                del self._busy[uid]

    async def _resize_before_start(self, pod: Pod, sandbox: str) -> None:
        """Change the pod's control group for a container that starts again with other resources."""
        try:
            await self._resizer.resize(pod, {}, sandbox)
        except PodResizeError as error:
            raise ContainerStartError("CreateContainerError", str(error)) from None

    def _environment(self, pod: Pod, container: Container, found: EnvSourceValues | None) -> dict[str, str]:
        services = self._facts.services_of()
        if services is None:
            message = "services have not yet been read at least once, cannot construct envvars"
            raise ContainerStartError(CONFIG_ERROR, message)
        addresses = service_environment(pod, services)
        values = make_environment(pod, container, found, self._facts.allocatable_of(), addresses)
        return without_default_hostname(values, container, found)

    async def stop_container(self, pod: Pod, container: str, grace: float, hook: LifecycleHandler | None) -> None:
        """Start stopping a container within the grace period."""
        seen = await self._cache.get(pod.metadata.uid)
        run = seen.last_run(container)
        if run is not None and run.state != "exited":
            self._operations.stop(self._with_addresses(pod, seen), container, _bare(run.id), grace, hook)

    async def start_pre_stop_hook(self, pod: Pod, container: str, hook: LifecycleHandler) -> None:
        """Start the preStop hook of a container that is stopped later."""
        seen = await self._cache.get(pod.metadata.uid)
        run, spec = seen.last_run(container), find_container(pod, container)
        if run is not None and spec is not None:
            self._operations.start_pre_stop(self._with_addresses(pod, seen), spec, _bare(run.id), hook)

    async def resize_pod(self, pod: Pod, containers: Sequence[Container]) -> None:
        """Change a pod and its running containers to the resources of its spec. Raises `PodResizeError`."""
        uid = pod.metadata.uid
        seen = await self._cache.get(uid)
        is_whole = needs_pod_level_resize(pod, await self.get_pod_status(pod))  # changes limits of all containers
        names = seen.runs if is_whole else [one.name for one in containers]
        runs = ((name, seen.current_run(name)) for name in names)
        running = {name: _bare(run.id) for name, run in runs if run is not None and run.state == "running"}
        try:
            await self._resizer.resize(pod, running, self._cache.sandbox_of(uid))
        finally:
            self._cache.invalidate(uid)

    async def probe(self, pod: Pod, container: Container, kind: ProbeKind, probe: Probe) -> ProbeResult:
        """Return the result of a probe."""
        seen = await self._cache.get(pod.metadata.uid)
        run = seen.last_run(container.name)
        if run is None or seen.addresses is None:
            return ProbeResult(False, "container no longer exists")
        return await self._prober.probe(ProbeTarget(container, _bare(run.id), seen.addresses[0]), probe)

    def forget_containers(self, kept: set[str]) -> None:
        """Forget containers that the runtime does not have any more."""
        self._cache.forget_containers(kept)
        self._operations.retain(kept)

    async def _remove_old_runs(self, pod: Pod, seen: PodObservation, name: str) -> None:
        """Remove all runs of a container but the last one, with their logs, before another begins."""
        for run in seen.runs.get(name, ())[_KEPT_RUNS - 1 :]:
            await self._service.remove_container(_bare(run.id))
            self._operations.forget({_bare(run.id)})
            remove_logs(self._facts.paths.logs(pod) / name / f"{run.attempt}.log")
            self._cache.invalidate(pod.metadata.uid)

    # Access.

    async def get_container_logs(self, pod: Pod, container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        """Yield the log of a container."""
        uid = pod.metadata.uid
        runs = (await self._cache.get(uid)).runs.get(container, ())
        index = 1 if options.previous else 0
        if index >= len(runs):
            return
        run = runs[index]
        path = self._facts.paths.logs(pod) / container / f"{run.attempt}.log"

        def is_running() -> bool:
            now = self._cache.peek(uid)
            last = now.last_run(container) if now is not None else None
            return now is None or (last is not None and last.id == run.id and last.state != "exited")

        async for piece in container_logs.read_log(path, options, is_running):
            yield piece

    async def exec(self, pod: Pod, container: str, command: tuple[str, ...], streams: StandardStreams) -> int:
        """Run a command in a container and return its exit code."""
        return await self._parts.streams.exec(await self._id_of(pod, container), command, streams)

    async def attach(self, pod: Pod, container: str, streams: StandardStreams) -> None:
        """Connect streams to the process of a container until it exits."""
        spec = find_container(pod, container)
        has_terminal = spec is not None and spec.tty
        await self._parts.streams.attach(await self._id_of(pod, container), streams, tty=has_terminal)

    async def checkpoint_container(self, pod: Pod, container: str, location: Path, seconds: int) -> None:
        """Write a checkpoint of a running container. Raises `ContainerCheckpointError` or `RpcError`."""
        run = (await self._cache.get(pod.metadata.uid)).current_run(container)
        if run is None or run.state != "running":
            raise ContainerCheckpointError(f"container {container} not found")
        if seconds < 0:
            raise ContainerCheckpointError("CheckpointContainer requires the timeout value to be > 0")
        await self._service.checkpoint_container(_bare(run.id), str(location), seconds)

    async def port_forward(self, pod: Pod, port: int, connection: PortConnection) -> None:
        """Serve a connection to a port of a pod."""
        await self._cache.get(pod.metadata.uid)
        await self._parts.streams.port_forward(self._cache.sandbox_of(pod.metadata.uid), port, connection)

    def usage(self, pod: Pod) -> Mapping[str, ContainerUsage]:
        """Return the usage of the running containers of a pod, as collected last."""
        stats = self._parts.stats
        return stats.usage_of(pod.metadata.uid) if stats is not None else {}

    def volume_usage(self, pod: Pod) -> Mapping[str, int]:
        """Return the bytes of the emptyDir volumes of a pod, as measured last."""
        stats = self._parts.stats
        return stats.volume_usage_of(pod.metadata.uid) if stats is not None else {}

    # Helpers.

    async def _id_of(self, pod: Pod, container: str) -> str:
        run = (await self._cache.get(pod.metadata.uid)).last_run(container)
        if run is None:
            raise RpcError(NOT_FOUND, f'container "{container}" not found')
        return _bare(run.id)

    def _sandbox_config(self, pod: Pod, attempt: int, isolation: PodIsolation) -> PodSandboxConfig:
        facts = self._facts
        inputs = SandboxInputs(
            attempt,
            str(facts.paths.logs(pod)),
            self._parts.resources.pods.path(pod),
            facts.cluster_domain,
            facts.dns_of(pod),
            isolation.user_namespace,
            facts.memory.policy,
            facts.default_sysctls,
        )
        return make_sandbox_config(pod, inputs)

    def _with_addresses(self, pod: Pod, seen: PodObservation) -> Pod:
        """Return a pod whose status has its addresses, which the API server may not know yet."""
        ips, hosts = seen.addresses or (), self._facts.addresses
        status = msgspec.structs.replace(
            pod.status,
            pod_ip=ips[0] if ips else "",
            pod_ips=tuple(PodIP(ip=ip) for ip in ips),
            host_ip=hosts[0],
            host_ips=tuple(HostIP(ip=ip) for ip in hosts),
        )
        return msgspec.structs.replace(pod, status=status)

    def _on_operation_end(self, pod: Pod) -> None:
        self.on_pod_change(pod.metadata.uid, key_of(pod))


def _target_id(pod: Pod, container: Container, seen: PodObservation) -> str:
    """Return the ID of the container that an ephemeral container targets. Raises `ContainerConfigError`."""
    name = target_container_of(pod, container.name)
    if not name:
        return ""
    if (run := seen.last_run(name)) is None:
        raise ContainerConfigError(f"unable to find target container {name}")
    return _bare(run.id)


def _with_resources(run: ContainerRun, given: PodResourceInfo) -> ContainerRun:
    resources = actuated_resources(given, run.container) if run.state == "running" else None
    return run if resources is None else msgspec.structs.replace(run, resources=resources)


def _bare(id: str) -> str:
    """Return the ID of a container in the runtime, without its scheme."""
    return id.rpartition("/")[2]
