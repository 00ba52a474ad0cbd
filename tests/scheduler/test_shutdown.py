# SPDX-License-Identifier: Apache-2.0
"""Tests of shutdown: a scheduler finishes its started work, writes statuses, and leaves the rest pending."""

from __future__ import annotations

import asyncio

from kubeloop.scheduler.scheduler import Scheduler, wire
from kubeloop.testing import Cluster, node, pod
from tests.scheduler.cluster_objects import join, node_of
from tests.scheduler.test_custom_plugins import WaitOnPermit, with_plugins

GRACE = 3.0


def test_pending_statuses_are_written_before_shutdown(cluster: Cluster) -> None:
    loop = cluster.start(wire)
    assert isinstance(loop, Scheduler)
    told = [cluster.add(pod(f"web-{number}")) for number in range(30)]

    async def stop() -> bool:
        for one in told:
            loop.handle.reporter.record_event(one, "Normal", "Remembered", "until the end", action="Remembering")
        return await loop.drain(GRACE)

    assert cluster.run(stop())
    assert len(cluster.events(reason="Remembered")) == len(told)


def test_pods_being_bound_are_bound_before_shutdown(cluster: Cluster) -> None:
    loop = cluster.start(wire)
    join(cluster, node("n1"))

    async def stop_in_the_middle() -> bool:
        await cluster.async_client.create(pod("web"))
        for _ in range(1000):
            await asyncio.sleep(0)
            if loop.status().active:
                break
        return await loop.drain(GRACE)

    assert cluster.run(stop_in_the_middle())
    assert node_of(cluster, "web") == "n1"
    assert [one.reason for one in cluster.events("default")] == ["Scheduled"]


def test_waiting_pods_do_not_delay_shutdown_and_are_rescheduled(cluster: Cluster) -> None:
    loop = cluster.start(with_plugins(WaitOnPermit))
    join(cluster, node("n1"))
    cluster.add(pod("web"))
    cluster.settle()
    began = cluster.clock.monotonic()
    assert cluster.run(loop.drain(GRACE))
    assert cluster.clock.monotonic() == began
    assert node_of(cluster, "web") == ""
    cluster.stop(loop)
    cluster.start(wire)
    assert node_of(cluster, "web") == "n1"
