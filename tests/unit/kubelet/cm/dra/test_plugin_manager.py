# SPDX-License-Identifier: Apache-2.0
"""Plugins of DRA drivers, served by the real gRPC library: versions, rolling updates, connections and health."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from kubeloop.clock import SystemClock
from kubeloop.kubelet.checkpoints.store import CheckpointStore
from kubeloop.kubelet.cm.dra.claim_info import ClaimInfo
from kubeloop.kubelet.cm.dra.claim_info_cache import ClaimInfoCache
from kubeloop.kubelet.cm.dra.driver_calls import prepare_claims, unprepare_claims
from kubeloop.kubelet.cm.dra.health_info import HealthInfoCache
from kubeloop.kubelet.cm.dra.health_watch import HealthWatch
from kubeloop.kubelet.cm.dra.messages import (
    DeviceIdentifier,
    HealthStatus,
    NodeWatchResourcesResponse,
    ReportedDeviceHealth,
)
from kubeloop.kubelet.cm.dra.metrics import DRAMetrics
from kubeloop.kubelet.cm.dra.plugin_manager import DRAPluginManager, UnusableDriverError
from kubeloop.kubelet.cm.dra.slice_wiper import ResourceSliceWiper
from kubeloop.kubelet.pluginmanager.registration import PluginRegistrationError
from kubeloop.metrics import MetricRegistry
from tests.bounds import GIVE_UP_SECONDS
from tests.dra_driver import V1BETA1, DRADriver

DRIVER = "gpu.example.com"
INFO = ClaimInfo("u", "x", "ns", {"p": {}}, {})


class FakeWiper:
    """Wiper that keeps the drivers whose slices are to be removed."""

    def __init__(self) -> None:
        self.scheduled: set[str] = set()
        self.wiped: list[str] = []

    def schedule(self, driver: str) -> None:
        self.scheduled.add(driver)

    def cancel(self, driver: str) -> None:
        self.scheduled.discard(driver)

    async def wipe(self, driver: str = "") -> None:
        self.wiped.append(driver)

    async def close(self) -> None:
        pass


class Plugins:
    """Plugin manager with a fake wiper, and health in a folder."""

    def __init__(self, folder: Path) -> None:
        self.wiper, self.registry, self.queued = FakeWiper(), MetricRegistry(), list[str]()
        clock, store = SystemClock(), CheckpointStore(folder)
        self.claims, self.health = ClaimInfoCache(store), HealthInfoCache(store, clock)
        watch = HealthWatch(self.health, self.claims, self.queued.append).run
        wiper = cast(ResourceSliceWiper, self.wiper)
        self.manager = DRAPluginManager(wiper, DRAMetrics(self.registry), clock, watch)

    async def register(self, driver: DRADriver) -> None:
        await self.manager.register_plugin(driver.name, str(driver.socket), driver.versions)

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():  # noqa: ASYNC110  # no event tells it
            await asyncio.sleep(0.01)


def run_story(tmp_path: Path, story: Callable[[Plugins], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            plugins = Plugins(tmp_path)
            task = asyncio.create_task(plugins.manager.run())
            try:
                await story(plugins)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("versions", "service"),
    [(("v1.DRAPlugin", "v1beta1.DRAPlugin"), ""), (("v1beta1.DRAPlugin",), V1BETA1), (("x", "v1.DRAPlugin"), "")],
)
def test_a_driver_is_called_by_the_first_version_that_both_know(
    tmp_path: Path, versions: tuple[str, ...], service: str
) -> None:
    async def story(plugins: Plugins) -> None:
        driver = DRADriver(DRIVER, tmp_path, versions, **({"service": service} if service else {}))
        await driver.start()
        await plugins.register(driver)
        plugin = plugins.manager.get(DRIVER)
        found = await prepare_claims(plugin, [INFO])
        assert found["u"].devices[0].cdi_device_ids == (f"{DRIVER}/device=x",)
        await unprepare_claims(plugin, [INFO])
        assert driver.calls == [("prepare", ("x",)), ("unprepare", ("x",))]
        name = service or "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
        labels = f'driver_name="{DRIVER}",grpc_status_code="OK",method_name="/{name}/NodePrepareResources"'
        assert f"dra_grpc_operations_duration_seconds_count{{{labels}}} 1" in plugins.registry.render()
        await driver.stop()

    run_story(tmp_path, story)


def test_a_plugin_without_a_usable_version_is_refused(tmp_path: Path) -> None:
    async def story(plugins: Plugins) -> None:
        about = f"invalid supported gRPC versions of DRA driver plugin {DRIVER} at endpoint /e: "
        with pytest.raises(PluginRegistrationError) as raised:
            await plugins.manager.validate_plugin(DRIVER, "/e", ())
        assert str(raised.value) == f"{about}empty list of supported gRPC services (aka supported versions)"
        with pytest.raises(PluginRegistrationError) as raised:
            await plugins.manager.register_plugin(DRIVER, "/e", ("v1alpha4",))
        ours = '(["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
        none = 'none of services supported by the plugin (["v1alpha4"]) are supported by the kubelet'
        assert str(raised.value) == f"{about}{none} {ours}"
        with pytest.raises(UnusableDriverError, match=f"^DRA driver {DRIVER} is not registered$"):
            plugins.manager.get(DRIVER)
        with pytest.raises(UnusableDriverError, match="DRA driver name is empty"):
            plugins.manager.get("")

    run_story(tmp_path, story)


def test_the_newest_connected_plugin_of_a_driver_is_called(tmp_path: Path) -> None:
    async def story(plugins: Plugins) -> None:
        old, new = (DRADriver(DRIVER, tmp_path, endpoint=f"{one}.sock", registration=one) for one in ("old", "new"))
        await old.start()
        await new.start()
        await plugins.register(old)
        await plugins.register(new)
        with pytest.raises(PluginRegistrationError, match="already registered for DRA driver plugin"):
            await plugins.register(new)
        await plugins.until(lambda: plugins.manager.get(DRIVER).endpoint == str(new.socket))
        await plugins.until(lambda: not plugins.wiper.scheduled)
        await new.stop()  # the driver is still usable by its old plugin
        await plugins.until(lambda: plugins.manager.get(DRIVER).endpoint == str(old.socket))
        assert not plugins.wiper.scheduled
        await plugins.manager.deregister_plugin(DRIVER, str(old.socket))
        assert plugins.manager.get(DRIVER).endpoint == str(new.socket)  # better than none
        assert plugins.wiper.scheduled == {DRIVER}
        await new.start()
        await plugins.until(lambda: not plugins.wiper.scheduled)
        await plugins.manager.deregister_plugin(DRIVER, str(new.socket))
        assert plugins.wiper.scheduled == {DRIVER}
        await plugins.manager.deregister_plugin(DRIVER, str(new.socket))
        await new.stop()
        await old.stop()

    run_story(tmp_path, story)


def test_a_kubelet_that_starts_removes_all_slices_of_its_node(tmp_path: Path) -> None:
    async def story(plugins: Plugins) -> None:
        await plugins.until(lambda: plugins.wiper.wiped)
        assert plugins.wiper.wiped == [""]

    run_story(tmp_path, story)


def test_health_reports_queue_the_pods_that_use_changed_devices(tmp_path: Path) -> None:
    def report(**health: HealthStatus) -> NodeWatchResourcesResponse:
        devices = tuple(
            ReportedDeviceHealth(device=DeviceIdentifier(pool_name="pool", device_name=name), health=one)
            for name, one in health.items()
        )
        return NodeWatchResourcesResponse(devices=devices)

    async def story(plugins: Plugins) -> None:
        driver = DRADriver(DRIVER, tmp_path, ("v1.DRAPlugin", "v1.DRAResourceHealth"))
        await driver.start()
        await plugins.register(driver)
        found = await prepare_claims(plugins.manager.get(DRIVER), [INFO])
        plugins.claims.put(INFO.with_devices(DRIVER, found["u"].devices))
        await driver.health.put(report(d0=HealthStatus.HEALTHY, d1=HealthStatus.HEALTHY))
        await plugins.until(lambda: plugins.queued == ["p"])
        assert plugins.health.get(DRIVER, "pool", "d0").health == "Healthy"
        await driver.health.put(report(d0=HealthStatus.HEALTHY, d1=HealthStatus.UNHEALTHY))
        await plugins.until(lambda: plugins.health.get(DRIVER, "pool", "d1").health == "Unhealthy")
        assert plugins.queued == ["p"]  # it does not use the other device
        await plugins.manager.deregister_plugin(DRIVER, str(driver.socket))
        assert plugins.health.get(DRIVER, "pool", "d0").health == "Unknown"
        await driver.stop()

    run_story(tmp_path, story)
