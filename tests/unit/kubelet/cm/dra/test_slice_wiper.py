# SPDX-License-Identifier: Apache-2.0
"""Removal of the ResourceSlices of drivers that are gone, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from kubeloop.api.errors import ApiError, Unauthorized
from kubeloop.client import Client
from kubeloop.kubelet.cm.dra.slice_wiper import WIPING_DELAY_SECONDS, ResourceSliceWiper
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual


class SliceClient:
    """Client that records the selectors of deletions; `failures` are raised first."""

    def __init__(self) -> None:
        self.selectors: list[str] = []
        self.failures: list[ApiError] = []

    async def delete_collection(self, what: type, *, fields: str) -> Any:
        self.selectors.append(f"{what.__name__} {fields}")
        if self.failures:
            raise self.failures.pop()


class Node:
    """A wiper and its virtual time."""

    def __init__(self) -> None:
        self.loop, self.client, self.has_node = VirtualLoop(), SliceClient(), True
        clock = VirtualClock(self.loop)
        self.wiper = ResourceSliceWiper(cast(Client, self.client), "n1", lambda: self.has_node, clock)


def test_slices_are_removed_after_the_delay_unless_the_driver_comes_back() -> None:
    node = Node()

    async def story() -> None:
        for driver in ("a", "b"):
            node.wiper.schedule(driver)
        await asyncio.sleep(WIPING_DELAY_SECONDS - 1)
        node.wiper.schedule("a")  # the delay does not begin again
        node.wiper.cancel("b")
        node.wiper.cancel("never")
        assert node.client.selectors == []
        await asyncio.sleep(2)
        assert node.client.selectors == ["ResourceSlice spec.nodeName=n1,spec.driver=a"]
        node.wiper.schedule("a")
        await asyncio.sleep(WIPING_DELAY_SECONDS + 1)
        assert len(node.client.selectors) == 2
        await node.wiper.close()

    run_virtual(story(), loop=node.loop)


def test_a_removal_is_repeated_until_it_succeeds_and_waits_for_the_node() -> None:
    node = Node()
    node.client.failures = [Unauthorized("no"), ApiError("later")]
    node.has_node = False

    async def story() -> None:
        task = asyncio.create_task(node.wiper.wipe())
        await asyncio.sleep(10)
        assert node.client.selectors == []
        node.has_node = True
        await task
        assert node.client.selectors == ["ResourceSlice spec.nodeName=n1"] * 3

    run_virtual(story(), loop=node.loop)


def test_no_removal_is_left_after_the_end() -> None:
    node = Node()

    async def story() -> None:
        node.wiper.schedule("a")
        await node.wiper.close()
        await asyncio.sleep(WIPING_DELAY_SECONDS * 2)
        assert node.client.selectors == []

    run_virtual(story(), loop=node.loop)
