# SPDX-License-Identifier: Apache-2.0
"""Tests of a controller with its own CRD, while the server rejects the CRD."""

from __future__ import annotations

import asyncio

from kubeloop.api import errors
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.unstructured import Unstructured
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.app.ensure_crds import wire_with_kinds
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.crd.definition import CustomKind, CustomObject
from kubeloop.runtime.manager import LoopManager
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.testing import Cluster


class Garden(CustomObject, frozen=True, kw_only=True):
    beds: int = 1


GARDENS = CustomKind(Garden, "gardens.example.com/v1")
GARDEN = {"apiVersion": "example.com/v1", "kind": "Garden", "metadata": {"name": "g", "namespace": "default"}}


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    gardens = context.informers.for_resource(context.declare_kind(GARDENS))

    async def reconcile(key: ObjectKey) -> None:
        await context.client.patch(GARDENS.resource, key.name, {"beds": 2}, key.namespace)

    controller = Controller("gardens", reconcile, context.clock)
    controller.watches(gardens, own_key)
    return controller


def beds(cluster: Cluster) -> int:
    found: Unstructured = cluster.client.get(GARDENS.resource, "g", "default")
    return int(found["beds"])


def test_kind_is_served_when_the_controller_starts(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(GARDEN)
    cluster.settle()
    assert beds(cluster) == 2


def test_rejected_kind_makes_an_unhealthy_controller_that_recovers(cluster: Cluster) -> None:
    refused = cluster.faults.fail("patch", "customresourcedefinitions", times=None, error=errors.internal_error("no"))
    loop = wire_with_kinds(wire, cluster.context)
    manager = LoopManager([loop], cluster.clock)

    async def keep() -> None:
        cluster.context.informers.start()
        await manager.run()

    async def start() -> asyncio.Task[None]:
        return asyncio.create_task(keep())

    cluster.run(start())
    cluster.advance(10)
    ok, why = manager.health("gardens")
    assert not ok
    assert "no" in why
    assert not cluster.client.list(CustomResourceDefinition).items
    cluster.faults.clear()
    cluster.advance(minutes=3)
    assert manager.health("gardens").ok
    cluster.add(GARDEN)
    cluster.advance(minutes=1)
    assert beds(cluster) == 2
    assert refused.hits
