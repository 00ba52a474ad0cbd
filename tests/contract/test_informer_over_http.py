# SPDX-License-Identifier: Apache-2.0
"""An informer over real connections, TLS and all: whatever the network does, its copy becomes true again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.cli.pki.files import Pki
from kubeloop.client import connect
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import SystemClock
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.informer.reflector import ReflectorTimeouts
from tests.contract.faulty_network import FaultyNetwork, line_to
from tests.contract.planes import NAMESPACE, Plane, config_of_admin, play_over_http

# Everything that takes minutes in earnest takes a moment here.
HASTY = ReflectorTimeouts(page=0.5, watch=60.0, grace=1.0, bookmark=0.4, stream=0.5, first_pause=0.02)
CALL_SECONDS = 0.5


class FollowedInformer:
    """Informer with its network, and a direct client of the server."""

    def __init__(self, plane: Plane, pki: Pki, line: FaultyNetwork, informer: Informer) -> None:
        self.plane = plane
        self.pki = pki
        self.line = line
        self.informer = informer

    async def sees(self, name: str) -> None:
        """Make an object and wait until the informer has it."""
        made = await self.plane.config_map(name)
        await self.informer.wait_for_version(made.metadata.resource_version, within=60)
        assert self.informer.get(NAMESPACE, name) == made


@asynccontextmanager
async def followed(plane: Plane, pki: Pki) -> AsyncIterator[FollowedInformer]:
    async with line_to(plane.port) as line:
        client = connect(config_of_admin(pki, line.port), qps=0, timeout=CALL_SECONDS)
        informers = SharedInformerFactory(client, SystemClock(), HASTY)
        informer = informers.for_resource(resource_of_class(ConfigMap), namespace=NAMESPACE)
        informers.start()
        try:
            await informer.wait_synced()
            yield FollowedInformer(plane, pki, line, informer)
        finally:
            await informers.stop()
            await client.close()


Trial = Callable[[FollowedInformer], Awaitable[None]]


@pytest.fixture
def follow(pki: Pki, tmp_path: Path) -> Callable[[Trial], None]:
    def run(trial: Trial) -> None:
        async def scenario(plane: Plane) -> None:
            async with followed(plane, pki) as given:
                await given.sees("before")
                await trial(given)

        play_over_http(scenario, pki, tmp_path)

    return run


def test_half_open_watch_connection_is_closed_and_replaced(
    follow: Callable[[Trial], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def trial(given: FollowedInformer) -> None:
        given.line.die()
        await given.sees("during")

    with caplog.at_level("DEBUG", "kubeloop.runtime.informer.reflector"):
        follow(trial)
    assert "no event was received for" in caplog.text


def test_calls_on_a_dead_idle_connection_time_out_and_reconnect(
    follow: Callable[[Trial], None],
) -> None:
    async def trial(given: FollowedInformer) -> None:
        client = connect(config_of_admin(given.pki, given.line.port), qps=0)
        try:
            await client.list(ConfigMap, NAMESPACE)
            given.line.die()
            with pytest.raises(TimeoutError, match=r"no response within 0\.5 s"):
                await client.with_timeout(CALL_SECONDS).list(ConfigMap, NAMESPACE)
            assert await client.list(ConfigMap, NAMESPACE)
        finally:
            await client.close()

    follow(trial)


def test_dropped_connections_are_reopened(follow: Callable[[Trial], None]) -> None:
    async def trial(given: FollowedInformer) -> None:
        for name in ("one", "two", "three"):
            given.line.drop()
            await given.sees(name)

    follow(trial)


def test_network_outage_only_delays_the_informer(follow: Callable[[Trial], None]) -> None:
    async def trial(given: FollowedInformer) -> None:
        given.line.accepts = False
        given.line.drop()
        made = await given.plane.config_map("meanwhile")
        await given.plane.client.delete(ConfigMap, "before", NAMESPACE)
        while given.informer.reflector.last_error is None:  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0.01)
        assert given.informer.get(NAMESPACE, "before") is not None, "the last known state stays"
        given.line.accepts = True
        await given.informer.wait_for_version(made.metadata.resource_version, within=60)
        await given.sees("after")
        assert given.informer.get(NAMESPACE, "before") is None

    follow(trial)
