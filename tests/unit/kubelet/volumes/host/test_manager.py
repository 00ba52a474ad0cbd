# SPDX-License-Identifier: Apache-2.0
"""Volume manager of a real node: retries, and no set-up before volumes are attached."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import msgspec
import pytest

from kubeloop.api.generated.core_v1 import Node, Pod, PodStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.sync.pod_state import PodState, UnmountedVolumes
from kubeloop.kubelet.volumes.host.manager import HostVolumeManager
from kubeloop.kubelet.volumes.host.mounter import FindVolume, VolumeMounter
from kubeloop.kubelet.volumes.host.payload_error import PayloadError
from kubeloop.kubelet.volumes.volume_manager import VolumeManager
from kubeloop.sim.loop import START, VirtualClock, VirtualLoop, run_virtual

POD, NODE = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u")), Node()
BEGIN = PodState(reported_status=PodStatus(), first_seen=START)


class FakeParts:
    """Checks, mounter and events; fails the first `failures` set-ups."""

    def __init__(self, failures: int = 0, *, is_attached: bool = True) -> None:
        self.failures = failures
        self.is_attached = is_attached
        self.set_ups = 0
        self.messages: list[tuple[str, str]] = []
        self.timeouts: list[list[str]] = []

    async def check_attach_and_mount(self, pod: Pod, node: Node, memory: PodState) -> PodState:
        if self.is_attached:
            return memory
        return msgspec.structs.replace(memory, unmounted_volumes=UnmountedVolumes({}))

    async def set_up(self, pod: Pod, allocatable: Mapping[str, str], volume_of: FindVolume) -> list[PayloadError]:
        self.set_ups += 1
        return [PayloadError("not there").of_volume("pv", "v")] if self.set_ups <= self.failures else []

    async def refresh(self, pod: Pod, allocatable: Mapping[str, str]) -> None:
        self.set_ups += 1
        if self.set_ups <= self.failures:
            raise PayloadError("not there")

    def record_volume_setup_failed(self, pod: Pod, volume: str, message: str, step: str) -> None:
        self.messages.append((volume, message))

    def record_mount_timeout(self, pod: Pod, unmounted: list[str]) -> None:
        self.timeouts.append(unmounted)

    def manager(self, loop: VirtualLoop) -> HostVolumeManager:
        return HostVolumeManager(
            cast(VolumeManager, self),
            cast(VolumeMounter, self),
            lambda pod, volume: None,
            cast(PodEvents, self),
            VirtualClock(loop),
        )


def test_a_failed_set_up_is_repeated_with_growing_delays() -> None:
    async def scenario() -> None:
        parts = FakeParts(failures=3)
        manager, memory, tries = parts.manager(loop), BEGIN, []
        while not memory.volumes_mounted:
            before = parts.set_ups
            memory = await manager.check_attach_and_mount(POD, NODE, memory)
            if parts.set_ups > before:
                tries.append(loop.time())
            await loop.advance(0.1)
        assert tries == pytest.approx([0, 0.5, 1.5, 3.5], abs=0.11)
        assert parts.messages == [("pv", "not there")] * 3
        assert memory.unmounted_volumes is None
        await manager.check_attach_and_mount(POD, NODE, memory)
        assert parts.set_ups == 4

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


def test_volumes_that_are_missing_for_two_minutes_are_reported() -> None:
    async def scenario() -> None:
        parts = FakeParts(failures=1000)
        manager, memory = parts.manager(loop), BEGIN
        while loop.time() < 400:
            memory = await manager.check_attach_and_mount(POD, NODE, memory)
            await loop.advance(1)
        assert parts.timeouts == [["v"], ["v"]]  # by the names in the pod

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


def test_nothing_is_set_up_before_volumes_are_attached() -> None:
    async def scenario() -> None:
        parts = FakeParts(is_attached=False)
        manager = parts.manager(loop)
        memory = await manager.check_attach_and_mount(POD, NODE, BEGIN)
        assert (memory.volumes_mounted, parts.set_ups) == (False, 0)
        parts.is_attached = True
        memory = await manager.check_attach_and_mount(
            POD, NODE, msgspec.structs.replace(memory, unmounted_volumes=None)
        )
        assert (memory.volumes_mounted, parts.set_ups) == (True, 1)

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


def test_contents_are_refreshed_every_minute_in_spite_of_failures() -> None:
    async def scenario() -> None:
        parts = FakeParts(failures=1)
        task = asyncio.create_task(parts.manager(loop).refresh(lambda: (POD,), dict))
        await loop.advance(181)
        assert parts.set_ups == 3
        task.cancel()

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)
