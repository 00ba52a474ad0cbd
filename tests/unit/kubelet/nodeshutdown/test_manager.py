# SPDX-License-Identifier: Apache-2.0
"""The shutdown manager holds logind's lock until the pods have ended in their order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.clock import SystemClock
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.node_status.shutdown import ShutdownStatus
from kubeloop.kubelet.nodeshutdown.dbus_connection import DBusConnection
from kubeloop.kubelet.nodeshutdown.logind import Logind
from kubeloop.kubelet.nodeshutdown.manager import GracefulShutdownManager, ShutdownHost, new_shutdown_manager
from kubeloop.kubelet.nodeshutdown.shutdown_groups import ShutdownGroup
from kubeloop.kubelet.nodeshutdown.shutdown_state import STATE_FILE, ShutdownState
from kubeloop.kubelet.sync.pod_state import TerminationReason
from kubeloop.metrics import MetricRegistry
from tests.unit.kubelet.nodeshutdown.fake_bus import FakeBus
from tests.unit.kubelet.nodeshutdown.test_shutdown_groups import make_pod


class Node:
    """Node with pods that end when the test says so; `host` is what the manager gets."""

    def __init__(self, folder: Path, *pods: Pod) -> None:
        self.folder = folder
        self.pods = list(pods)
        self.ended: set[str] = set()
        self.evicted: list[tuple[str, float | None]] = []
        self.events: list[tuple[str, str, str]] = []
        self.syncs: list[bool] = []
        self.status = ShutdownStatus()
        self.registry = MetricRegistry()
        self.path = str(folder / "bus")

    @property
    def host(self) -> ShutdownHost:
        return ShutdownHost(
            SystemClock(),
            self.status,
            lambda: self.pods,
            self._evict,
            lambda pod: pod.metadata.uid in self.ended,
            lambda *event: self.events.append(event),
            lambda: self.syncs.append(self.status.is_shutting_down),
            self._connect,
        )

    def manager(self, *groups: ShutdownGroup) -> GracefulShutdownManager:
        return GracefulShutdownManager(groups, self.host, ShutdownState(self.folder, self.registry))

    def _evict(self, pod: Pod, reason: TerminationReason) -> bool:
        self.evicted.append((pod.metadata.uid, reason.grace_period_seconds))
        return True

    async def _connect(self) -> Logind:
        bus = DBusConnection(self.path)
        await bus.open()
        return Logind(bus, self.folder / "logind.conf.d")


async def eventually(look: Callable[[], object]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(60):
        while not look():  # noqa: ASYNC110  # any condition
            await asyncio.sleep(0.01)


def run(scenario: Awaitable[None]) -> None:
    async def main() -> None:
        await scenario

    asyncio.run(main())


LOW, HIGH = ShutdownGroup(0, 60), ShutdownGroup(10, 60)


def test_groups_end_one_after_another_and_then_the_lock_is_released(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeBus(tmp_path / "bus", delay=120) as bus:
            task = asyncio.create_task(node.manager(LOW, HIGH).run())
            await eventually(bus.held_locks)
            inhibit = dict(bus.calls)["Inhibit"]
            assert inhibit == ("shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay")
            assert bus.held_locks() == 1
            await bus.announce(True)
            await eventually(lambda: node.evicted)
            assert (node.evicted, node.syncs) == ([("u1", 30.0)], [True])
            assert bus.held_locks() == 1
            node.ended.add("u1")
            await eventually(lambda: len(node.evicted) == 2)
            assert bus.held_locks() == 1, "critical pods have not ended yet"
            node.ended.add("u20")
            await eventually(lambda: not bus.held_locks())
            assert node.status.is_shutting_down
            await bus.announce(False)
            await eventually(lambda: bus.held_locks() == 1)
            assert not node.status.is_shutting_down
            assert [event[2] for event in node.events] == [
                "Shutdown manager detected shutdown event",
                "Shutdown manager detected shutdown cancellation",
            ]
            await stop(task)
            assert not bus.held_locks()

    node = Node(tmp_path, make_pod(20), make_pod(1))
    run(scenario())
    state = msgspec.json.decode((tmp_path / STATE_FILE).read_bytes())
    assert "0001-01-01T00:00:00Z" < state["startTime"] <= state["endTime"]


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_group_has_no_more_than_its_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with FakeBus(tmp_path / "bus", delay=120) as bus:
            task = asyncio.create_task(node.manager(ShutdownGroup(0, 0), HIGH).run())
            await eventually(bus.held_locks)
            await bus.announce(True)
            await eventually(lambda: len(node.evicted) == 2)
            await stop(task)

    node = Node(tmp_path, make_pod(1), make_pod(20))
    run(scenario())
    assert node.evicted == [("u1", 0.0), ("u20", 30.0)]
    assert "did not end within 0 s" in caplog.text


def test_a_short_delay_of_logind_is_changed_by_its_configuration(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeBus(tmp_path / "bus", delay=5) as bus:
            bus.delay_after_reload = 120
            task = asyncio.create_task(node.manager(LOW, HIGH).run())
            await eventually(lambda: "Inhibit" in dict(bus.calls))
            assert dict(bus.calls)["KillUnit"] == ("systemd-logind.service", "all", 1)
            await stop(task)

    node = Node(tmp_path)
    run(scenario())
    content = (tmp_path / "logind.conf.d" / "99-kubelet.conf").read_text()
    assert content == "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=120\n"


@pytest.mark.parametrize(
    ("has_bus", "has_logind", "said"),
    [
        (False, False, "No such file or directory"),
        (True, False, "failed reading InhibitDelayMaxUSec property from logind: The name org.freedesktop.login1"),
        (True, True, "was timed out after 5 attempts waiting for logind InhibitDelayMaxSec to update to 120s"),
    ],
)
def test_without_logind_the_kubelet_says_so_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_bus: bool, has_logind: bool, said: str
) -> None:
    async def scenario() -> None:
        if not has_bus:
            await node.manager(LOW, HIGH).run()
            return
        async with FakeBus(tmp_path / "bus") as bus:
            bus.has_logind = has_logind
            await node.manager(LOW, HIGH).run()
            assert not bus.locks

    node = Node(tmp_path)
    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert "failed to start node shutdown manager: " in caplog.text
    assert said in caplog.text


def test_a_lost_connection_is_made_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeBus(tmp_path / "bus", delay=120) as bus:
            task = asyncio.create_task(node.manager(LOW, HIGH).run())
            await eventually(bus.held_locks)
            bus.disconnect()
            await eventually(lambda: len(bus.locks) == 2 and bus.held_locks() == 1)  # that of before is released
            await bus.announce("no", "s")  # is ignored
            await bus.announce(True)
            await eventually(lambda: node.status.is_shutting_down)
            await stop(task)

    node = Node(tmp_path)
    run(scenario())


def values_of(registry: MetricRegistry) -> Iterator[float]:
    lines = (line for line in registry.render().splitlines() if "graceful" in line and line[0] != "#")
    return (float(line.rpartition(" ")[2]) for line in lines)


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (None, [0, 0]),
        ('{"startTime":"2026-01-02T03:04:05.123456789Z","endTime":"0001-01-01T00:00:00Z"}', [1767323045, 0]),
        ("{", [0, 0]),
    ],
)
def test_times_of_the_last_shutdown_are_metrics(tmp_path: Path, content: str | None, values: list[float]) -> None:
    if content is not None:
        (tmp_path / STATE_FILE).write_text(content)
    registry = MetricRegistry()
    ShutdownState(tmp_path, registry).restore()
    assert sorted(values_of(registry), reverse=True) == values


def test_nothing_is_done_without_a_grace_period(tmp_path: Path) -> None:
    node = Node(tmp_path)
    run(new_shutdown_manager(KubeletConfiguration(), tmp_path, node.host, node.registry).run())
