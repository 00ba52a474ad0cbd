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
from tests.contract.line import Line, line_to
from tests.contract.planes import NAMESPACE, Plane, config_of_admin, play_over_http

# Everything that takes minutes in earnest takes a moment here.
HASTY = ReflectorTimeouts(page=0.5, watch=60.0, grace=1.0, bookmark=0.4, stream=0.5, first_pause=0.02)
CALL_SECONDS = 0.5


class Followed:
    """An informer, the network that it speaks over, and somebody who speaks to the server directly."""

    def __init__(self, plane: Plane, pki: Pki, line: Line, informer: Informer) -> None:
        self.plane = plane
        self.pki = pki
        self.line = line
        self.informer = informer

    async def sees(self, name: str) -> None:
        """Make an object and wait until the informer has it."""
        made = await self.plane.config_map(name)
        await self.informer.seen(made.metadata.resource_version, within=10)
        assert self.informer.get(NAMESPACE, name) == made


@asynccontextmanager
async def followed(plane: Plane, pki: Pki) -> AsyncIterator[Followed]:
    async with line_to(plane.port) as line:
        client = connect(config_of_admin(pki, line.port), qps=0, timeout=CALL_SECONDS)
        informers = SharedInformerFactory(client, SystemClock(), HASTY)
        informer = informers.of(resource_of_class(ConfigMap), namespace=NAMESPACE)
        informers.start()
        try:
            await informer.wait_synced()
            yield Followed(plane, pki, line, informer)
        finally:
            await informers.stop()
            await client.close()


Trial = Callable[[Followed], Awaitable[None]]


@pytest.fixture
def follow(pki: Pki, tmp_path: Path) -> Callable[[Trial], None]:
    def run(trial: Trial) -> None:
        async def scenario(plane: Plane) -> None:
            async with followed(plane, pki) as given:
                await given.sees("before")
                await trial(given)

        play_over_http(scenario, pki, tmp_path)

    return run


def test_a_connection_whose_other_side_is_gone_without_a_word_is_given_up_and_renewed(
    follow: Callable[[Trial], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def trial(given: Followed) -> None:
        given.line.die()
        await given.sees("during")

    with caplog.at_level("DEBUG", "kubeloop.runtime.informer.reflector"):
        follow(trial)
    assert "nothing was heard for" in caplog.text


def test_calls_on_a_connection_that_died_idle_end_in_time_and_the_next_use_another(
    follow: Callable[[Trial], None],
) -> None:
    async def trial(given: Followed) -> None:
        client = connect(config_of_admin(given.pki, given.line.port), qps=0, timeout=CALL_SECONDS)
        try:
            await client.list(ConfigMap, NAMESPACE)
            given.line.die()
            with pytest.raises(TimeoutError, match=r"no answer within 0\.5 s"):
                await client.list(ConfigMap, NAMESPACE)
            assert await client.list(ConfigMap, NAMESPACE)
        finally:
            await client.close()

    follow(trial)


def test_dropped_connections_are_made_anew(follow: Callable[[Trial], None]) -> None:
    async def trial(given: Followed) -> None:
        for name in ("one", "two", "three"):
            given.line.drop()
            await given.sees(name)

    follow(trial)


def test_a_network_that_is_gone_for_a_while_costs_nothing_but_that_while(follow: Callable[[Trial], None]) -> None:
    async def trial(given: Followed) -> None:
        given.line.accepts = False
        given.line.drop()
        made = await given.plane.config_map("meanwhile")
        await given.plane.client.delete(ConfigMap, "before", NAMESPACE)
        while given.informer.reflector.last_error is None:  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0.01)
        assert given.informer.get(NAMESPACE, "before") is not None, "the last known state stays"
        given.line.accepts = True
        await given.informer.seen(made.metadata.resource_version, within=10)
        await given.sees("after")
        assert given.informer.get(NAMESPACE, "before") is None

    follow(trial)
