# SPDX-License-Identifier: Apache-2.0
"""Tests of our operator on a foreign definition, with a partial schema."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubeloop.api.errors import Invalid
from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.crd.definition import CustomKind, CustomObject
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.testing import Cluster
from tests.ecosystem.definitions import definitions, samples

HOUR = 3600


class Target(msgspec.Struct, frozen=True):
    name: str


class Trigger(msgspec.Struct, frozen=True):
    type: str
    metadata: dict[str, str]


class Spec(msgspec.Struct, frozen=True):
    target: Target
    min: int
    max: int
    triggers: tuple[Trigger, ...]


class Status(msgspec.Struct, frozen=True):
    replicas: int = 0


class Tide(CustomObject, frozen=True, kw_only=True):
    spec: Spec
    status: Status = Status()


TIDES = CustomKind(Tide, "tides.tides.example.org/v1")


def wanted(tide: Tide, hour: int) -> int:
    """High water between the hours of a clock, low water else."""
    clocks = [one.metadata for one in tide.spec.triggers if one.type == "clock"]
    is_high = any(int(one["from"]) <= hour < int(one["to"]) for one in clocks)
    return tide.spec.max if is_high else tide.spec.min


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    tides, deployments = map(context.informers.for_resource, (TIDES.resource, resource_of_class(Deployment)))

    async def reconcile(key: ObjectKey) -> Result | None:
        found = tides.get(*key)
        if found is None:
            return None
        tide, now = TIDES.read(found), context.clock.now()
        replicas = wanted(tide, now.hour)
        target = deployments.get(key.namespace, tide.spec.target.name)
        if target is not None and target.spec.replicas != replicas:
            scale = {"spec": {"replicas": replicas}}
            await context.client.patch(Deployment, tide.spec.target.name, scale, key.namespace, subresource="scale")
        if tide.status.replicas != replicas:
            status = {"status": {"replicas": replicas}}
            await context.client.patch(TIDES.resource, key.name, status, key.namespace, subresource="status")
        return Result(requeue_after=HOUR - now.minute * 60 - now.second)

    controller = Controller("tides", reconcile, context.clock, telemetry=context.telemetry)
    controller.watches(tides, own_key)
    return controller


@pytest.fixture
def shore(cluster: Cluster) -> Cluster:
    (definition,) = [one for one in definitions() if one["spec"]["names"]["kind"] == "Tide"]
    cluster.client.create(definition)
    cluster.settle()
    cluster.start(wire)
    return cluster


def tide(**spec: Any) -> dict[str, Any]:
    sample = samples()["Tide"]
    return {**sample, "metadata": {"name": "queue", "namespace": "default"}, "spec": {**sample["spec"], **spec}}


def workers() -> dict[str, Any]:
    labels = {"app": "workers"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    meta = {"name": "workers", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def test_tide_follows_the_hours(shore: Cluster) -> None:
    shore.client.create(workers())
    shore.client.create(tide(min=1))
    seen = []
    for _ in range(24):
        shore.advance(hours=1)
        seen.append(shore.client.get(Deployment, "workers", "default").spec.replicas)
    assert sorted(set(seen)) == [1, 20]
    assert seen.count(20) == 10
    told = TIDES.read(shore.client.get(TIDES.resource, "queue", "default"))
    assert told.status.replicas == seen[-1]


def test_server_rejects_invalid_tides(shore: Cluster) -> None:
    with pytest.raises(Invalid, match="30 is more than 20"):
        shore.client.create(tide(min=30))
