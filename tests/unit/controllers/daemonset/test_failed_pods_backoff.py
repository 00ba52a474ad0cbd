# SPDX-License-Identifier: Apache-2.0
"""Patience with pods that keep failing."""

from __future__ import annotations

import random

from kubeloop.controllers.daemonset.failed_pods_backoff import FORGOTTEN_AFTER, MAX_BACKOFF, FailedPodsBackoffManager
from kubeloop.sim.loop import START, VirtualClock, VirtualLoop

HERE = ("uid", 1, "node")


def test_backoff_doubles_up_to_a_limit() -> None:
    loop = VirtualLoop(random.Random(1))

    async def fail_again_and_again() -> list[float]:
        backoff, waits = FailedPodsBackoffManager(VirtualClock(loop, START, 0)), []
        for _ in range(14):
            waits.append(backoff.seconds_left(HERE))
            await loop.advance(waits[-1])
            assert backoff.seconds_left(HERE) == 0
            backoff.record_replacement(HERE)
        return waits

    waits = loop.run_until_complete(fail_again_and_again())
    loop.close()
    assert waits[:5] == [0, 1, 2, 4, 8]
    assert waits[-1] == MAX_BACKOFF


def test_backoff_is_per_node_and_expires() -> None:
    loop = VirtualLoop(random.Random(1))

    async def wait() -> None:
        backoff = FailedPodsBackoffManager(VirtualClock(loop, START, 0))
        for _ in range(5):
            backoff.record_replacement(HERE)
        assert backoff.seconds_left(("uid", 2, "node")) == 0
        assert backoff.seconds_left(HERE) == 16
        await loop.advance(FORGOTTEN_AFTER + 1)
        backoff.record_replacement(HERE)
        assert backoff.seconds_left(HERE) == 1

    loop.run_until_complete(wait())
    loop.close()
