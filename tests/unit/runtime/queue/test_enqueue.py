# SPDX-License-Identifier: Apache-2.0
"""Tests of event handlers: keys, priority and origin."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.api.generated import core_v1, meta_v1
from kubeloop.api.kinds import RESOURCES
from kubeloop.runtime.causes.cause import Origin
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import EnqueueHandler, Predicate, controller_key, own_key
from kubeloop.runtime.queue.workqueue import LOW, NORMAL, Item, WorkQueue
from kubeloop.sim.loop import VirtualClock, VirtualLoop

SETS = next(one for one in RESOURCES if one.plural == "replicasets")
NODES = next(one for one in RESOURCES if one.plural == "nodes")


def pod(name: str = "p", revision: str = "1", *owners: meta_v1.OwnerReference) -> core_v1.Pod:
    meta = meta_v1.ObjectMeta(name=name, namespace="d", resource_version=revision, owner_references=owners)
    return core_v1.Pod(metadata=meta)


def owner(kind: str, api_version: str, controller: bool = True) -> meta_v1.OwnerReference:
    return meta_v1.OwnerReference(kind=kind, api_version=api_version, name="o", uid="u", controller=controller)


class QueueHandler:
    """Handler on a queue without workers."""

    def __init__(self, predicate: Predicate | None = None) -> None:
        self.loop = VirtualLoop()
        self.queue: WorkQueue[ObjectKey] = WorkQueue(VirtualClock(self.loop))
        self.handler = EnqueueHandler(self.queue, "Pod", own_key, predicate)

    def items(self) -> list[Item[ObjectKey]]:
        async def rest() -> list[Item[ObjectKey]]:
            self.queue.shut_down()
            found = []
            while (item := await self.queue.get()) is not None:
                found.append(item)
            return found

        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            return runner.run(rest())


def test_each_event_enqueues_the_key_with_its_origin() -> None:
    told = QueueHandler()
    told.handler.on_add(pod("a", "1"))
    told.handler.on_update(pod("b", "1"), pod("b", "2"))
    told.handler.on_delete(pod("c", "3"))
    assert [(str(item.key), item.origins, item.priority) for item in told.items()] == [
        ("d/a", (Origin("Pod", "d", "a", "1", "ADDED"),), NORMAL),
        ("d/b", (Origin("Pod", "d", "b", "2", "MODIFIED"),), NORMAL),
        ("d/c", (Origin("Pod", "d", "c", "3", "DELETED"),), NORMAL),
    ]


def test_update_without_a_change_is_a_resync_with_lower_priority() -> None:
    told = QueueHandler()
    same = pod("a", "1")
    told.handler.on_update(same, same)
    told.handler.on_update(pod("b", "1"), pod("b", "1"))
    told.handler.on_add(pod("c"))
    assert [(item.key.name, item.priority, item.origins[0].event) for item in told.items()] == [
        ("c", NORMAL, "ADDED"),
        ("a", LOW, "resync"),
        ("b", LOW, "resync"),
    ]


def test_predicate_gets_old_and_new_and_a_resync_as_create() -> None:
    asked: list[tuple[Any, Any]] = []

    def refuse(old: Any, new: Any) -> bool:
        asked.append((old, new))
        return False

    told = QueueHandler(refuse)
    first, second = pod("a", "1"), pod("a", "2")
    told.handler.on_add(first)
    told.handler.on_update(first, second)
    told.handler.on_update(second, second)
    told.handler.on_delete(second)
    assert asked == [(None, first), (first, second), (None, second), (second, None)]
    assert told.items() == []


@pytest.mark.parametrize(
    ("reference", "keys"),
    [
        (owner("ReplicaSet", "apps/v1"), (ObjectKey("d", "o"),)),
        (owner("ReplicaSet", "apps/v1beta2"), (ObjectKey("d", "o"),)),
        (owner("ReplicaSet", "extensions/v1"), ()),
        (owner("ReplicaSet", "apps/v1", controller=False), ()),
        (owner("StatefulSet", "apps/v1"), ()),
    ],
)
def test_only_a_controlling_owner_of_the_kind_is_enqueued(
    reference: meta_v1.OwnerReference, keys: tuple[ObjectKey, ...]
) -> None:
    assert tuple(controller_key(SETS)(pod("p", "1", reference))) == keys


def test_cluster_scoped_owner_is_enqueued_without_namespace() -> None:
    assert tuple(controller_key(NODES)(pod("p", "1", owner("Node", "v1")))) == (ObjectKey("", "o"),)


def test_keys_are_formatted_like_kubectl() -> None:
    assert str(key_of(pod("p"))) == "d/p"
    assert str(ObjectKey("", "node-1")) == "node-1"
