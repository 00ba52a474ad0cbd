# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to a forest of owners: what has a live owner stays, what has none goes, and orphans stay."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers import garbage_collector
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.testing import Cluster
from kubeloop.testing.cluster import ADMIN
from tests.controllers.ownership import owned, reference

STEPS = 40


class DeletionChecker:
    """Sees every change in the order of revisions, and objects to deletions of what had a live owner."""

    def __init__(self, cluster: Cluster) -> None:
        self.live: dict[str, Any] = {}
        self.excused: set[str] = set()  # deleted by the test itself
        self.wrongs: list[str] = []
        self._informers = SharedInformerFactory(Client(InProcessTransport(cluster.server, ADMIN)), cluster.clock)
        cluster.run(self._start())

    async def _start(self) -> None:
        self._informers.for_resource(resource_of_class(ConfigMap), namespace="default").add_handler(self)
        self._informers.start()
        await self._informers.wait_synced()

    def on_add(self, obj: Any) -> None:
        self.live[obj.metadata.uid] = obj.metadata

    def on_update(self, old: Any, new: Any) -> None:
        if old.metadata.deletion_timestamp is None and new.metadata.deletion_timestamp is not None:
            self._judge(new.metadata)
        self.live[new.metadata.uid] = new.metadata

    def on_delete(self, obj: Any) -> None:
        if obj.metadata.deletion_timestamp is None:
            self._judge(obj.metadata)
        self.live.pop(obj.metadata.uid)

    def _judge(self, meta: Any) -> None:
        keepers = [one.name for one in meta.owner_references if self._keeps(self.live.get(one.uid))]
        if meta.uid not in self.excused and (keepers or not meta.owner_references):
            self.wrongs.append(f"{meta.name} was deleted in spite of {keepers or 'having no owners'}")

    def _keeps(self, owner: Any) -> bool:
        if owner is None:
            return False
        return owner.deletion_timestamp is None or "foregroundDeletion" not in owner.finalizers


class GarbageCollectorHarness:
    """A cluster in which chance owns, deletes, disturbs and kills."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.witness = DeletionChecker(cluster)
        self.loop = cluster.start(garbage_collector.wire)
        self.number = 0
        self.orphans: set[str] = set()  # that no other owner may take along

    def step(self) -> None:
        actions = (self.create, self.create, self.create, self.delete, self.disturb, self.wait, self.kill)
        self.chance.choice(actions)()

    def create(self) -> None:
        known = list(self.witness.live.values())
        owners = self.chance.sample(known, min(len(known), self.chance.choice((0, 1, 1, 1, 2, 3))))
        references = [reference(_object(one), block=self.chance.choice((True, False, None))) for one in owners]
        if known and self.chance.random() < 0.1:
            references.append(reference(_object(known[0]), uid=f"absent-{self.number}"))
        self.number += 1
        self.cluster.client.create(owned(f"object-{self.number}", *references))

    def delete(self) -> None:
        client = self.cluster.client
        known = client.list(ConfigMap, "default").items
        going = [one.metadata for one in known if one.metadata.deletion_timestamp is None]
        if not going:
            return
        meta = self.chance.choice(going)
        policy = self.chance.choice(("Background", "Foreground", "Orphan"))
        as_seen = Preconditions(uid=meta.uid, resource_version=meta.resource_version)
        self.witness.excused.add(meta.uid)
        self.orphans.discard(meta.uid)
        with suppress(NotFound, Conflict):  # the collector may be quicker
            client.delete(ConfigMap, meta.name, "default", propagation=policy, preconditions=as_seen)
            if policy == "Orphan":
                self.orphans |= {one.uid for one in going if {ref.uid for ref in one.owner_references} == {meta.uid}}
                self.orphans.discard(meta.uid)

    def disturb(self) -> None:
        faults, times = self.cluster.faults, self.chance.randrange(1, 5)
        self.chance.choice(
            (
                lambda: faults.conflict("patch", "configmaps", times=times),
                lambda: faults.conflict("delete", "configmaps", times=times),
                lambda: faults.lose_answers("write", "configmaps", times=times),
                lambda: faults.fail("", "configmaps", times=times),
                lambda: faults.drop_watches("configmaps"),
                lambda: faults.expire_watches("configmaps"),
            )
        )()

    def wait(self) -> None:
        self.cluster.advance(self.chance.choice((0, 0, 0.01, 1, 40)))

    def kill(self) -> None:
        self.cluster.stop(self.loop)
        self.loop = self.cluster.start(garbage_collector.wire)

    def settle(self) -> None:
        self.cluster.faults.clear()
        self.cluster.advance(minutes=5)


def _object(metadata: Any) -> ConfigMap:
    """An object of which only the metadata is known."""
    return ConfigMap(metadata=metadata)


@settings(max_examples=12, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_exactly_the_objects_without_live_owner_are_deleted(seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = GarbageCollectorHarness(cluster, seed)
        for _ in range(STEPS):
            harness.step()
        harness.settle()
        assert harness.witness.wrongs == []
        left = {one.metadata.uid: one.metadata for one in cluster.client.list(ConfigMap, "default").items}
        for meta in left.values():
            assert meta.deletion_timestamp is None, f"{meta.name} does not go"
            owners = [one.uid for one in meta.owner_references]
            assert not owners or any(uid in left for uid in owners), f"{meta.name} has no owner left"
        assert harness.orphans <= left.keys()
