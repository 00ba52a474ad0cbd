# SPDX-License-Identifier: Apache-2.0
"""Locks by key: one task at a time for each key."""

from __future__ import annotations

import asyncio

from kubeloop.kubelet.cri.lifecycle.keyed_lock import KeyedLock


def test_one_task_at_a_time_holds_a_key() -> None:
    async def scenario() -> list[str]:
        lock, seen, gate = KeyedLock(), list[str](), asyncio.Event()

        async def work(name: str, key: str) -> None:
            async with lock.hold(key):
                seen.append(f"{name} begins")
                await gate.wait()
                seen.append(f"{name} ends")

        async with asyncio.TaskGroup() as tasks:
            for name, key in (("first", "a"), ("second", "a"), ("other", "b")):
                tasks.create_task(work(name, key))
            await asyncio.sleep(0)
            gate.set()
        return seen

    seen = asyncio.run(scenario())
    assert seen[:2] == ["first begins", "other begins"]
    assert seen.index("first ends") < seen.index("second begins")


def test_a_failed_holder_releases_its_key() -> None:
    async def scenario() -> bool:
        lock = KeyedLock()
        try:
            async with lock.hold("a"):
                raise ValueError
        except ValueError:
            async with lock.hold("a"):
                return True

    assert asyncio.run(scenario())
