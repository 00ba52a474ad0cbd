# SPDX-License-Identifier: Apache-2.0
"""Containers that were created, and whose start was interrupted, do not keep their pod."""

from __future__ import annotations

import asyncio

from kubeloop.kubelet.cri.messages.container import ContainerState, ContainerStatus
from kubeloop.kubelet.cri.pod_status_cache import PodStatusCache
from tests.unit.kubelet.cri.fake_runtime import FakeRuntime, labels_of


def test_container_whose_start_was_interrupted_is_removed() -> None:
    async def scenario() -> set[str]:
        cache = PodStatusCache(fake.as_service(), "containerd", ("10.0.0.2",))
        await cache.get("u")
        await cache.remove_unstarted("u")
        return set((await cache.get("u")).runs)

    fake = FakeRuntime()
    fake.add_sandbox("s", "u")
    for id, state in (("created", ContainerState.CREATED), ("running", ContainerState.RUNNING)):
        fake.add_container(ContainerStatus(id=id, state=state, created_at=1, labels=labels_of("u", id)), "s")
    assert (asyncio.run(scenario()), set(fake.statuses)) == ({"running"}, {"running"})
