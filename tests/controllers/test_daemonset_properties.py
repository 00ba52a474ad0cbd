# SPDX-License-Identifier: Apache-2.0
"""Property tests of DaemonSets: every node converges to the desired pods, and limits hold on the way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.apps_v1 import DaemonSet
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.pod import is_ready
from kubeloop.controllers.daemonset import wire
from kubeloop.controllers.daemonset.nodes import target_node_of
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.testing import Cluster, daemon_set
from tests.controllers.daemon_sets import NS, add_node, by_node, counts, pods, read, rolling, template
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step, steps
from tests.controllers.kubelet import Kubelet

NODES = ("a", "b", "c", "d")
EDITS = ("image", "taint", "untaint", "label")
POD_LIVES = ("delete", "fail", "succeed", "orphan")
PASSING = ("settle", "wait", "slower")
QUIET = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)


class DaemonSetHarness:
    """A cluster of four nodes of varying speed, and the set under test."""

    def __init__(self, cluster: Cluster, unavailable: int, surge: int) -> None:
        self.cluster = cluster
        self.unavailable, self.surge = unavailable, surge
        self.image = "1"
        self.tainted: dict[str, str] = {}
        self.complaints: list[str] = []
        self.kubelet = Kubelet(cluster)
        for name in NODES:
            add_node(cluster, name)
        cluster.start(self.kubelet.wire)
        self.process = ControllerProcess(cluster, wire)
        cluster.add(daemon_set(update_strategy=rolling(unavailable, surge)))
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
        client, node = self.cluster.client, NODES[number % len(NODES)]
        if name == "image":
            self.image = str(number % 3 + 1)
            client.patch(DaemonSet, "app", {"spec": {"template": template(self.image)}}, NS)
        elif name == "label":
            client.patch(Node, node, {"metadata": {"labels": {"number": str(number)}}})
        elif name == "taint":
            self.tainted[node] = "NoExecute" if number % 2 else "NoSchedule"
            client.patch(Node, node, {"spec": {"taints": [{"key": "x", "effect": self.tainted[node]}]}})
        else:
            self.tainted.pop(node, None)
            client.patch(Node, node, {"spec": {"taints": None}})

    def _change_pod(self, name: str, one: Pod) -> None:
        client, called = self.cluster.client, one.metadata.name
        changes: dict[str, Callable[[], Any]] = {
            "delete": lambda: client.delete(Pod, called, NS),
            "fail": lambda: client.patch(Pod, called, {"status": {"phase": "Failed"}}, NS, subresource="status"),
            "succeed": lambda: client.patch(Pod, called, {"status": {"phase": "Succeeded"}}, NS, subresource="status"),
            "orphan": lambda: client.patch(Pod, called, {"metadata": {"ownerReferences": None}}, NS),
        }
        changes[name]()

    # Invariants

    def watch_limits(self) -> None:
        """Start reporting nodes with too many pods, and too few available nodes."""

        def look(*_: object) -> None:
            staying = [one for one in self.kubelet.pods.list() if one.metadata.deletion_timestamp is None]
            served = {target_node_of(one) for one in staying if is_ready(one) and one.status.phase == "Running"}
            if len(NODES) - len(served) > self.unavailable:
                self.complaints.append(f"only {sorted(served)} are served")
            if len(staying) > len(NODES) + self.surge:
                self.complaints.append(f"{len(staying)} pods on {len(NODES)} nodes")

        async def add() -> None:
            self.kubelet.pods.add_handler(ResourceEventHandlerFuncs(on_add=look, on_update=look, on_delete=look))

        self.cluster.run(add())
        self.kubelet.start_seconds = self.kubelet.end_seconds = 0.5  # what takes no time can't be caught half done
        self.complaints.clear()  # what was there at first came one after the other

    def check_end(self) -> None:
        """Check the final state without faults."""
        self.cluster.faults.clear()
        self.cluster.advance(minutes=60)
        here, said = by_node(self.cluster), counts(read(self.cluster))
        wanted = [name for name in NODES if name not in self.tainted]
        assert {name: here.get(name) for name in wanted} == {name: [self.image] for name in wanted}
        assert all(effect == "NoSchedule" for name, effect in self.tainted.items() if name in here)
        misplaced = len(here) - len(wanted)
        size = len(wanted)
        assert said == (size, size, misplaced, size, size, size, 0)
        assert read(self.cluster).status.observed_generation == read(self.cluster).metadata.generation
        assert all(one.metadata.owner_references for one in pods(self.cluster))
        assert self.complaints == []


@QUIET
@given(
    steps(*EDITS, *POD_LIVES, *NETWORK, *LOSSES, *PASSING),
    st.sampled_from([(1, 0), (2, 0), (0, 1), (0, 3)]),
    st.integers(0, 2**16),
)
def test_daemonset_converges_under_faults(taken: list[Step], limits: tuple[int, int], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = DaemonSetHarness(cluster, *limits)
        for step in taken:
            harness.take(step)
        harness.check_end()


@QUIET
@given(
    steps("image", *PASSING, "drop watches", "late watch", "conflict", "refuse patch"),
    st.sampled_from([(1, 0), (3, 0), (0, 1), (0, 2)]),
    st.integers(0, 2**16),
)
def test_updates_respect_max_unavailable(taken: list[Step], limits: tuple[int, int], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = DaemonSetHarness(cluster, *limits)
        harness.watch_limits()
        for step in taken:
            harness.take(step)
        harness.check_end()
