# SPDX-License-Identifier: Apache-2.0
"""Node shutdown manager of a real node: delays a shutdown of the machine until its pods have ended in their order."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.clock import Clock
from kubeloop.kubelet.config.decode import features_of
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.node_status.shutdown import ShutdownStatus
from kubeloop.kubelet.nodeshutdown.dbus_connection import DBusError
from kubeloop.kubelet.nodeshutdown.logind import Logind, connect_logind
from kubeloop.kubelet.nodeshutdown.shutdown_groups import (
    BY_PRIORITY_GATE,
    ShutdownGroup,
    group_pods,
    shutdown_groups,
    termination_reason_of,
)
from kubeloop.kubelet.nodeshutdown.shutdown_state import ShutdownState
from kubeloop.kubelet.sync.pod_state import TerminationReason
from kubeloop.metrics import MetricRegistry

_RECONNECT_SECONDS = 1.0
_POLL_SECONDS = 0.1
_EVENT = "NodeShutdown"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShutdownHost:
    """Parts of the kubelet that a shutdown uses."""

    clock: Clock
    status: ShutdownStatus
    pods: Callable[[], Iterable[Pod]]  # all that have not ended
    evict: Callable[[Pod, TerminationReason], bool]
    has_ended: Callable[[Pod], bool]  # and its volumes are unmounted
    record_event: Callable[[str, str, str], None]  # type, reason and message of an event of the node
    sync_node: Callable[[], None]  # writes the node's status soon
    connect: Callable[[], Awaitable[Logind]] = connect_logind


class GracefulShutdownManager:
    """Handles the shutdowns of one machine. `groups` are those of the configuration, lowest priority first."""

    def __init__(self, groups: Sequence[ShutdownGroup], host: ShutdownHost, state: ShutdownState | None) -> None:
        self._groups = groups
        self._host = host
        self._state = state  # None without the feature gate
        self._lock: int | None = None  # descriptor of logind's lock

    async def run(self) -> None:
        """Follow logind forever; without it, say so and return: pods are not terminated gracefully then."""
        if not self._groups:
            return
        try:
            logind = await self._start()
        except DBusError as error:
            log.error("failed to start node shutdown manager: %s", error)
            return
        if self._state is not None:
            self._state.restore()
        try:
            while True:
                await self._follow(logind)
                log.error("ended watching the node for shutdown events")
                logind = await self._start_again()
        finally:
            self._release()

    async def _start(self) -> Logind:
        """Connect, watch and acquire the lock. Raises `DBusError`."""
        logind = await self._host.connect()
        try:
            await logind.ensure_delay(sum(one.seconds for one in self._groups))
            await logind.watch()  # before the lock: an announcement in between is not lost
            await self._acquire(logind)
        except BaseException:
            await logind.close()
            raise
        return logind

    async def _start_again(self) -> Logind:
        while True:
            await asyncio.sleep(_RECONNECT_SECONDS)
            log.info("restarting watch for node shutdown events")
            try:
                return await self._start()
            except DBusError as error:
                log.error("unable to watch the node for shutdown events: %s", error)

    async def _follow(self, logind: Logind) -> None:
        """Handle announcements until the connection ends."""
        try:
            async for is_shutting_down in logind.shutdowns():
                what = "shutdown event" if is_shutting_down else "shutdown cancellation"
                log.info("shutdown manager detected %s", what)
                self._host.record_event("Normal", _EVENT, f"Shutdown manager detected {what}")
                self._host.status.set_shutting_down(is_shutting_down)
                self._host.sync_node()
                if is_shutting_down:
                    await self._process_shutdown()
                else:
                    with suppress(DBusError):
                        await self._acquire(logind)
        finally:
            await logind.close()

    async def _process_shutdown(self) -> None:
        """Terminate all pods, then let the machine shut down."""
        clock, state = self._host.clock, self._state
        began = clock.now()
        if state is not None:
            state.begin(began)
        try:
            for group in group_pods(self._groups, self._host.pods()):
                await self._terminate(group)
        finally:
            if state is not None:
                state.end(began, clock.now())
            self._release()
            log.info("shutdown manager completed processing shutdown event, node will shutdown shortly")

    async def _terminate(self, group: ShutdownGroup) -> None:
        """Terminate the pods of a group and wait until they have ended, or their time is over."""
        for pod in group.pods:
            self._host.evict(pod, termination_reason_of(pod, group))
        try:
            async with asyncio.timeout(group.seconds):
                while not all(map(self._host.has_ended, group.pods)):  # noqa: ASYNC110  # unmounts have no event
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            left = [
                f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in group.pods if not self._host.has_ended(pod)
            ]
            log.warning("pods of priority %d did not end within %d s: %s", group.priority, group.seconds, left)

    async def _acquire(self, logind: Logind) -> None:
        lock = await logind.inhibit()
        self._release()
        self._lock = lock

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def new_shutdown_manager(
    settings: KubeletConfiguration, root: Path, host: ShutdownHost, registry: MetricRegistry
) -> GracefulShutdownManager:
    """Return the manager of a node with its files in `root`."""
    features = features_of(settings.feature_gates)
    state = ShutdownState(root, registry) if features.is_enabled(BY_PRIORITY_GATE) else None
    return GracefulShutdownManager(shutdown_groups(settings, features), host, state)
