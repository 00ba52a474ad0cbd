# SPDX-License-Identifier: Apache-2.0
"""The whole way round: a change on a server, the cache, the queue, a reconcile, and its write with the cause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubeloop.api.generated import core_v1, meta_v1
from kubeloop.client.client import Client
from kubeloop.runtime.causes.cause import Origin, cause_text
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.runtime.controller import Controller, Telemetry
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.owner_references import controller_reference
from kubeloop.runtime.queue.enqueue import own_key
from tests.unit.runtime.in_process_server import Server, play, resource

MAPS, SECRETS = resource("configmaps"), resource("secrets")


async def with_copying_loop(
    server: Server, scenario: Callable[[Controller[ObjectKey], Telemetry], Awaitable[None]]
) -> None:
    """A loop that gives each config map a secret of its name."""
    informers = SharedInformerFactory(server.client, server.clock)
    maps, secrets = informers.for_resource(MAPS), informers.for_resource(SECRETS)
    client = Client(CauseTransport(server.transport), cause=cause_text)
    telemetry = Telemetry()

    async def reconcile(key: ObjectKey) -> None:
        found = maps.get(*key)
        if found is None or secrets.get(*key) is not None:
            return
        meta = meta_v1.ObjectMeta(
            name=key.name, namespace=key.namespace, owner_references=(controller_reference(found, MAPS),)
        )
        await client.create(core_v1.Secret(metadata=meta))

    controller = Controller("copying", reconcile, server.clock, telemetry=telemetry)
    controller.watches(maps, own_key)
    controller.owns(secrets, MAPS)
    informers.start()
    running = asyncio.create_task(controller.run())
    await scenario(controller, telemetry)
    assert await controller.drain(grace=10)
    await running
    await informers.stop()


def test_deleted_dependent_is_recreated_with_its_cause_in_the_journal() -> None:
    async def scenario(server: Server) -> None:
        async def story(controller: Controller[ObjectKey], telemetry: Telemetry) -> None:
            made = await server.create(MAPS, core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name="a", namespace="d")))
            await server.loop.advance(1)
            first = await server.client.get(SECRETS, "a", "d")
            await server.delete(SECRETS, "d", "a")
            await server.loop.advance(1)
            second = await server.client.get(SECRETS, "a", "d")
            assert first.metadata.uid != second.metadata.uid

            wrote = [entry for entry in telemetry.journal.entries() if entry.writes]
            assert [entry.writes[0].outcome for entry in wrote] == [
                first.metadata.resource_version,
                second.metadata.resource_version,
            ]
            assert wrote[0].origins == (Origin("ConfigMap", "d", "a", made.metadata.resource_version, "ADDED"),)
            assert [(one.kind, one.event) for one in wrote[1].origins] == [("Secret", "DELETED")]
            assert controller.status().errors == 0

        await with_copying_loop(server, story)

    play(scenario)
