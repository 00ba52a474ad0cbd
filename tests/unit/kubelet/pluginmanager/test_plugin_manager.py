# SPDX-License-Identifier: Apache-2.0
"""Plugin manager against plugins of the real gRPC library: registration, rejection, recreation and removal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from kubeloop.clock import SystemClock
from kubeloop.grpc.message import encode_message
from kubeloop.kubelet.pluginmanager.messages import PluginInfo, RegistrationStatus
from kubeloop.kubelet.pluginmanager.plugin_manager import PluginManager
from kubeloop.kubelet.pluginmanager.registration import PluginRegistrationError
from kubeloop.kubelet.pluginmanager.sockets import find_sockets
from kubeloop.metrics import MetricRegistry
from tests.bounds import GIVE_UP_SECONDS
from tests.dra_driver import DRADriver


class RecordingHandler:
    """Handler that records its calls; `invalid` and `refused` are raised."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.invalid = self.refused = ""

    async def validate_plugin(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        self.calls.append(("validate", name, endpoint, *versions))
        if self.invalid:
            raise PluginRegistrationError(self.invalid)

    async def register_plugin(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        self.calls.append(("register", name, endpoint, *versions))
        if self.refused:
            raise PluginRegistrationError(self.refused)

    async def deregister_plugin(self, name: str, endpoint: str) -> None:
        self.calls.append(("deregister", name, endpoint))


class Registry:
    """Plugin manager of a folder, which is reconciled until a condition holds."""

    def __init__(self, folder: Path) -> None:
        self.handler = RecordingHandler()
        self.metrics = MetricRegistry()
        handlers = {"DRAPlugin": self.handler}
        self.manager = PluginManager(folder / "plugins_registry", handlers, SystemClock(), self.metrics)

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            await self.manager.reconcile()
            await asyncio.sleep(0.01)


def with_registry(tmp_path: Path, story: Callable[[Registry, DRADriver], Awaitable[None]], kind: str = "") -> None:
    async def run() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            driver = DRADriver("gpu.example.com", tmp_path, kind=kind or "DRAPlugin")
            await driver.start()
            try:
                await story(Registry(tmp_path), driver)
            finally:
                await driver.stop()

    asyncio.run(run())


def test_a_plugin_is_registered_and_told_so_and_deregistered_when_its_socket_goes(tmp_path: Path) -> None:
    async def story(registry: Registry, driver: DRADriver) -> None:
        await registry.until(lambda: registry.manager.registered)
        about = ("gpu.example.com", str(driver.socket))
        assert registry.handler.calls == [("validate", *about, "v1.DRAPlugin"), ("register", *about, "v1.DRAPlugin")]
        assert driver.statuses == [RegistrationStatus(plugin_registered=True)]
        page = registry.metrics.render()
        labels = f'socket_path="{driver.registration}"'
        assert f'plugin_manager_total_plugins{{{labels},state="actual_state_of_world"}} 1' in page
        assert f'plugin_manager_total_plugins{{{labels},state="desired_state_of_world"}} 1' in page
        await driver.stop_registration()
        await registry.until(lambda: not registry.manager.registered)
        assert registry.handler.calls[2:] == [("deregister", *about)]

    with_registry(tmp_path, story)


def test_a_recreated_socket_is_deregistered_and_registered_again(tmp_path: Path) -> None:
    async def story(registry: Registry, driver: DRADriver) -> None:
        await registry.until(lambda: registry.manager.registered)
        await driver.stop_registration()
        await driver.start_registration()
        await registry.until(lambda: len(driver.statuses) > 1)
        names = [call[0] for call in registry.handler.calls]
        assert names == ["validate", "register", "deregister", "validate", "register"]

    with_registry(tmp_path, story)


def test_an_unknown_type_and_a_handler_that_refuses_are_told_to_the_plugin(tmp_path: Path) -> None:
    async def unknown(registry: Registry, driver: DRADriver) -> None:
        await registry.until(lambda: driver.statuses)
        where = f"at socket {driver.registration}"
        why = f"RegisterPlugin error -- no handler registered for plugin type: OtherPlugin {where}"
        assert driver.statuses == [RegistrationStatus(error=why)]
        assert not registry.manager.registered
        assert not registry.handler.calls

    async def invalid(registry: Registry, driver: DRADriver) -> None:
        registry.handler.invalid = "too old"
        await registry.until(lambda: driver.statuses)
        why = "RegisterPlugin error -- plugin validation failed with err: too old"
        assert driver.statuses == [RegistrationStatus(error=why)]

    async def refused(registry: Registry, driver: DRADriver) -> None:
        registry.handler.refused = "taken"
        await registry.until(lambda: driver.statuses)
        why = "RegisterPlugin error -- plugin registration failed with err: taken"
        assert driver.statuses == [RegistrationStatus(error=why)]
        assert not registry.manager.registered
        registry.handler.refused = ""  # tried again, after the back-off
        await registry.until(lambda: registry.manager.registered)

    with_registry(tmp_path / "1", unknown, "OtherPlugin")
    with_registry(tmp_path / "2", invalid)
    with_registry(tmp_path / "3", refused)


def test_a_failed_registration_waits_before_the_next_attempt(tmp_path: Path) -> None:
    class StoppedClock(SystemClock):
        monotonic = staticmethod(lambda: 5.0)

    async def story(registry: Registry, driver: DRADriver) -> None:
        registry.handler.invalid = "too old"
        manager = PluginManager(
            tmp_path / "plugins_registry", {"DRAPlugin": registry.handler}, StoppedClock(), MetricRegistry()
        )
        while not driver.statuses:
            await manager.reconcile()
            await asyncio.sleep(0.01)
        for _ in range(20):  # its time has not come
            await manager.reconcile()
            await asyncio.sleep(0)
        assert len(driver.statuses) == 1

    with_registry(tmp_path, story)


def test_sockets_are_found_in_subfolders_and_other_files_are_not(tmp_path: Path) -> None:
    async def story(registry: Registry, driver: DRADriver) -> None:
        folder = driver.registration.parent
        (folder / "file.txt").write_text("no socket")
        (folder / "sub").mkdir()
        (folder / ".hidden").mkdir()
        before = find_sockets(folder)
        driver.registration.chmod(0o600)
        assert find_sockets(folder) == before
        assert list(before) == [str(driver.registration)]
        for name, found in (("sub/x.sock", True), (".hidden/x.sock", False), (".x.sock", False)):
            driver.registration.rename(folder / name)
            assert list(find_sockets(folder)) == ([str(folder / name)] if found else [])
            (folder / name).rename(driver.registration)

    with_registry(tmp_path, story)


def test_messages_have_the_field_numbers_of_the_service() -> None:
    info = PluginInfo(type="t", name="n", endpoint="e", supported_versions=("v", "w"))
    assert encode_message(info) == b"\x0a\x01t\x12\x01n\x1a\x01e\x22\x01v\x22\x01w"
    assert encode_message(RegistrationStatus(plugin_registered=True, error="x")) == b"\x08\x01\x12\x01x"
