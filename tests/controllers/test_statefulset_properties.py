# SPDX-License-Identifier: Apache-2.0
"""Property tests of StatefulSets: they converge to the desired state, and order and limits hold on the way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.apps_v1 import (
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetUpdateStrategy,
)
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_ready
from kubeloop.controllers.statefulset import wire
from kubeloop.controllers.statefulset.identity import ordinal_of, revision_of
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.testing import Cluster, persistent_volume_claim, stateful_set
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step, steps
from tests.controllers.kubelet import Kubelet, image_of
from tests.controllers.stateful_sets import NS, claims, pods, read, template

EDITS = ("scale", "image", "partition")
POD_LIVES = ("delete", "fail", "orphan", "unready")
PASSING = ("settle", "wait", "slower")
QUIET = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)


class StatefulSetHarness:
    """A cluster, nodes of varying speed, and the set under test."""

    def __init__(self, cluster: Cluster, policy: str, limit: int = 1, replicas: int = 3) -> None:
        self.cluster = cluster
        self.ordered = policy == "OrderedReady"
        self.limit = limit
        self.wanted, self.image, self.partition = replicas, "1", 0
        self.complaints: list[str] = []
        self.kubelet = Kubelet(cluster)
        cluster.start(self.kubelet.wire)
        self.process = ControllerProcess(cluster, wire)
        rolling = RollingUpdateStatefulSetStrategy(partition=0, max_unavailable=limit)
        cluster.add(
            stateful_set(
                replicas=replicas,
                pod_management_policy=policy,
                update_strategy=StatefulSetUpdateStrategy(type="RollingUpdate", rolling_update=rolling),
                volume_claim_templates=(persistent_volume_claim("data", ""),),
                persistent_volume_claim_retention_policy=StatefulSetPersistentVolumeClaimRetentionPolicy(
                    when_deleted="Delete", when_scaled="Retain"
                ),
            )
        )
        cluster.settle()

    def take(self, step: Step) -> None:
        name, number = step
        if name in NETWORK or name in LOSSES:
            self.process.disturb(name, number)
        elif name == "settle":
            self.cluster.settle()
        elif name == "wait":
            self.cluster.advance(number)
        elif name == "slower":
            self.kubelet.start_seconds = self.kubelet.end_seconds = number / 2
        elif name in EDITS:
            self._edit(name, number)
        elif there := pods(self.cluster):
            with suppress(Conflict, NotFound):  # the loop may be quicker
                self._change_pod(name, there[number % len(there)])

    def _edit(self, name: str, number: int) -> None:
        if name == "scale":
            self.wanted = number % 6
            self._patch({"replicas": self.wanted})
        elif name == "image":
            self.image = str(number % 3 + 1)
            self._patch({"template": template(self.image)})
        else:
            self.partition = number % 4
            self._patch({"updateStrategy": {"rollingUpdate": {"partition": self.partition}}})

    def _patch(self, spec: dict[str, Any]) -> None:
        self.cluster.client.patch(StatefulSet, "app", {"spec": spec}, NS)

    def _change_pod(self, name: str, one: Pod) -> None:
        client, called = self.cluster.client, one.metadata.name
        unready = [{"type": "Ready", "status": "False"}]
        # A kubelet reports a failed pod as not ready, too (GeneratePodReadyCondition). Upstream depends on it: a failed
        # condemned pod that were ready would neither be running nor the first unavailable one, and
        # processCondemned would wait for it forever.
        failed = {"status": {"phase": "Failed", "conditions": unready}}
        changes: dict[str, Callable[[], Any]] = {
            "delete": lambda: client.delete(Pod, called, NS),
            "fail": lambda: client.patch(Pod, called, failed, NS, subresource="status"),
            "unready": lambda: client.patch(Pod, called, {"status": {"conditions": unready}}, NS, subresource="status"),
            "orphan": lambda: client.patch(Pod, called, {"metadata": {"ownerReferences": None}}, NS),
        }
        changes[name]()

    # Invariants

    def watch_order(self) -> None:
        """Start reporting pods created before their predecessors are ready."""

        def came(new: Pod) -> None:
            for one in self.kubelet.pods.list():
                if ordinal_of(one) < ordinal_of(new) < self.wanted and not _serves(one):
                    self.complaints.append(f"{new.metadata.name} came before {one.metadata.name} was ready")
            there = {ordinal_of(one) for one in self.kubelet.pods.list()}
            if missing := set(range(ordinal_of(new))) - there:
                self.complaints.append(f"{new.metadata.name} came while {missing} were missing")

        self._listen(ResourceEventHandlerFuncs(on_add=came))

    def watch_limit(self) -> None:
        """Start reporting fewer available pods than an update must leave."""

        def look(*_: object) -> None:
            serving = sum(_serves(one) for one in self.kubelet.pods.list())
            if self.wanted - serving > self.limit:
                self.complaints.append(f"only {serving} of {self.wanted} serve")

        self._listen(ResourceEventHandlerFuncs(on_add=look, on_update=look, on_delete=look))

    def _listen(self, callbacks: ResourceEventHandlerFuncs) -> None:
        async def add() -> None:
            self.kubelet.pods.add_handler(callbacks)

        self.cluster.run(add())
        self.kubelet.start_seconds = self.kubelet.end_seconds = 0.5  # what takes no time can't be caught half done
        self.complaints.clear()  # what was there at first came earlier

    def heal(self) -> None:
        """Make unready pods ready again."""
        for one in pods(self.cluster):
            if one.status.phase == "Running" and not is_ready(one):
                ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
                with suppress(Conflict, NotFound):
                    self.cluster.client.patch(Pod, one.metadata.name, ready, NS, subresource="status")
        self._unblock()
        self.cluster.settle()

    def _unblock(self) -> None:
        """Delete failed pods that block a scale-down in order.

        A condemned pod that does not serve is only deleted if no lower one is unavailable, so several failed ones wait
        for each other. Upstream's processCondemned does the same: only the first unavailable pod may go.
        """
        condemned = [one for one in pods(self.cluster) if ordinal_of(one) >= self.wanted and not _serves(one)]
        for one in sorted(condemned, key=ordinal_of)[1:] if self.ordered else ():
            if one.status.phase == "Failed":
                with suppress(NotFound):
                    self.cluster.client.delete(Pod, one.metadata.name, NS)

    def check_end(self) -> None:
        """Check the final state without faults."""
        self.cluster.faults.clear()
        for _ in range(3):
            self.cluster.advance(minutes=20)
            self.heal()
        self.cluster.advance(minutes=20)
        found, status = pods(self.cluster), read(self.cluster).status
        assert [one.metadata.name for one in found] == [f"app-{number}" for number in range(self.wanted)]
        updated = [one for one in found if revision_of(one) == status.update_revision]
        assert {image_of(one) for one in updated} <= {self.image}
        assert {ordinal_of(one) for one in updated} >= set(range(self.partition, self.wanted))
        assert all(one.metadata.owner_references for one in found)
        assert (status.replicas, status.ready_replicas, status.available_replicas) == (self.wanted,) * 3
        assert status.updated_replicas == len(updated)
        assert status.observed_generation == read(self.cluster).metadata.generation
        assert {f"data-app-{number}" for number in range(self.wanted)} <= claims(self.cluster).keys()
        assert all(one.metadata.owner_references for one in claims(self.cluster).values())
        assert self.complaints == []


def _serves(pod: Pod) -> bool:
    return pod.status.phase == "Running" and is_ready(pod) and pod.metadata.deletion_timestamp is None


@QUIET
@given(
    steps(*EDITS, *POD_LIVES, *NETWORK, *LOSSES, *PASSING),
    st.sampled_from(["OrderedReady", "Parallel"]),
    st.integers(0, 2**16),
)
@example(taken=[("scale", 0), ("fail", 0)], policy="OrderedReady", seed=0)
@example(taken=[("scale", 0), ("fail", 0), ("fail", 1)], policy="OrderedReady", seed=1)
@example(taken=[("orphan", 0), ("orphan", 0), ("delete", 0)], policy="Parallel", seed=1)
def test_stateful_set_converges_under_faults(taken: list[Step], policy: str, seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = StatefulSetHarness(cluster, policy, limit=2)
        for step in taken:
            harness.take(step)
        harness.check_end()


@QUIET
@given(steps(*EDITS, "delete", "fail", "crash", *PASSING), st.integers(0, 2**16))
def test_ordered_pods_are_created_after_their_predecessors_are_ready(taken: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = StatefulSetHarness(cluster, "OrderedReady", limit=1)
        harness.watch_order()
        for step in taken:
            harness.take(step)
            cluster.settle()
        harness.check_end()


@QUIET
@given(
    steps("image", "partition", *PASSING, "crash", "drop watches", "conflict"),
    st.sampled_from(["OrderedReady", "Parallel"]),
    st.integers(1, 4),
    st.integers(0, 2**16),
)
def test_updates_respect_max_unavailable(taken: list[Step], policy: str, limit: int, seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = StatefulSetHarness(cluster, policy, limit, replicas=5)
        harness.watch_limit()
        for step in taken:
            harness.take(step)
        harness.check_end()
