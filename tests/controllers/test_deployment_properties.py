# SPDX-License-Identifier: Apache-2.0
"""Property tests of Deployments: they converge to the desired pods under faults.

On the way there are never more pods than replicas and surge, and never fewer available than it may be without, but
where nodes take pods away, somebody changes the numbers, or a rollout is reverted before the replica sets have reported
the pods they removed for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.apps_v1 import Deployment, DeploymentStrategy, ReplicaSet, RollingUpdateDeployment
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_active, is_ready
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers import deployment as deployment_loop
from kubeloop.controllers import pod_garbage_collector
from kubeloop.controllers import replicaset as replicaset_loop
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.deployment.limits import max_replicas, min_available
from kubeloop.controllers.deployment.replica_sets import replicas_of
from kubeloop.controllers.deployment.status import is_deployment_complete
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.manager import Loop
from kubeloop.testing import Cluster, deployment
from kubeloop.testing.cluster import ADMIN
from tests.controllers.deployments import BROKEN, NS, get, image_of, running_pods, sets_of

Step = tuple[str, int]
TEMPLATES = ("one", "two", "three", BROKEN)
USER = ("template", "pause", "resume", "annotate")
NUMBERS = ("scale", "limits", "strategy", "scale set", "delete set", "orphan set")
NODES = ("delete pod", "unready pod", "fail pod")
NETWORK = ("drop watches", "expire watches", "late watch", "conflict", "lose answers", "refuse", "crash")
PASSING = ("settle", "wait")


class RolloutLimitChecker:
    """Checks the limits of a rollout at every event. Its own watches never fail, so that it misses none."""

    def __init__(self, cluster: Cluster, most: int, fewest: int, witnessed: list[str]) -> None:
        self._cluster = cluster
        self._most, self._fewest, self._witnessed = most, fewest, witnessed
        self._informers = SharedInformerFactory(
            Client(InProcessTransport(cluster.server, ADMIN), user_agent="witness"), cluster.clock
        )
        self._pods, self._sets, self._deployments = map(self._follow, (Pod, ReplicaSet, Deployment))
        self._reverted = False

    def _follow(self, kind: type) -> Informer:
        return self._informers.for_resource(resource_of_class(kind))

    def start(self) -> None:
        async def begin() -> None:
            self._sets.add_handler(ResourceEventHandlerFuncs(on_add=self._count_wanted, on_update=self._on_set_update))
            self._pods.add_handler(
                ResourceEventHandlerFuncs(on_update=self._count_available, on_delete=self._count_available)
            )
            self._deployments.add_handler(ResourceEventHandlerFuncs(on_update=self._on_deployment_update))
            self._informers.start()

        self._cluster.run(begin())
        self._cluster.settle()

    def _count_wanted(self, *_: Any) -> None:
        wanted = sum(one.spec.replicas or 0 for one in self._sets.list(NS))
        if wanted > self._most:
            self._witnessed.append(f"{wanted} pods wanted, {self._most} allowed")

    def _count_available(self, *_: Any) -> None:
        available = sum(is_active(one) and is_ready(one) for one in self._pods.list(NS))
        if available < self._fewest and not self._reverted:
            self._witnessed.append(f"{available} pods available, {self._fewest} needed")

    def _on_set_update(self, old: ReplicaSet, new: ReplicaSet) -> None:
        """Note a replica set that grows before it has reported the pods that it removed to shrink.

        The rollout then counts the replacements of these pods as available although they are not yet. Upstream does so
        too: reconcileOldReplicaSets and scaleDownOldReplicaSetsForRollingUpdate add up Status.AvailableReplicas and
        never compare Status.ObservedGeneration. The limit holds again once the deployment has reported completion.
        """
        if replicas_of(new) > replicas_of(old) and _is_shrinking_unreported(old):
            self._reverted = True
        self._count_wanted()

    def _on_deployment_update(self, _: Deployment, new: Deployment) -> None:
        if is_deployment_complete(new, new.status):
            self._reverted = False


def _is_shrinking_unreported(one: ReplicaSet) -> bool:
    return one.status.observed_generation < one.metadata.generation or one.status.replicas > replicas_of(one)


class DeploymentHarness:
    """Cluster with one deployment, its controllers, and an observer of its pods."""

    def __init__(self, cluster: Cluster, replicas: int, surge: int, unavailable: int) -> None:
        self.cluster = cluster
        cluster.start(running_pods)
        # The deletion of a pod without a node is two writes: it is marked, then removed. Where the caller dies between
        # them it stays marked, here as in upstream's Store.Delete, until the pod garbage collector removes it.
        cluster.start(pod_garbage_collector.wire)
        self._start()
        limits = RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable)
        strategy = DeploymentStrategy(type="RollingUpdate", rolling_update=limits)
        cluster.add(deployment(replicas=replicas, image="one", strategy=strategy, revision_history_limit=2))
        cluster.advance(5)
        made = get(cluster)
        self.most, self.fewest = max_replicas(made), min_available(made)
        self.witnessed: list[str] = []

    def watch_limits(self) -> None:
        """Require the limits of the beginning at every single moment from now on."""
        RolloutLimitChecker(self.cluster, self.most, self.fewest, self.witnessed).start()

    # Controllers with their own caches, as in a separate process.

    def _start(self) -> None:
        self._informers = SharedInformerFactory(self.cluster.async_client, self.cluster.clock)
        context: ControllerContext = replace(self.cluster.context, informers=self._informers)

        async def begin() -> None:
            self._informers.start()

        self._loops: list[Loop] = [deployment_loop.wire(context), replicaset_loop.wire(context)]
        self.cluster.run(begin())
        for loop in self._loops:
            self.cluster.start(loop)

    def crash(self, turns: int) -> None:
        """Killed after so many turns of the event loop, wherever they wait then."""

        async def run_on() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self.cluster.run(run_on())
        for loop in self._loops:
            self.cluster.stop(loop)
        self.cluster.run(self._informers.stop())
        self._start()

    # Steps

    def take(self, step: Step) -> None:
        name, number = step
        actions: dict[str, Callable[[], Any]] = {
            "settle": self.cluster.settle,
            "wait": lambda: self.cluster.advance(number * 40),
            "crash": lambda: self.crash(number * 5),
            "template": lambda: self._set_template(number),
            "pause": lambda: self._change({"paused": True}),
            "resume": lambda: self._change({"paused": False}),
            "scale": lambda: self._change({"replicas": number}),
            "strategy": lambda: self._set_strategy(number),
            "limits": lambda: self._set_limits(number),
            "annotate": lambda: self._patch(Deployment, "app", {"metadata": {"annotations": {"n": str(number)}}}),
        }
        if name in actions:
            actions[name]()
        elif name in NETWORK:
            self._disturb(name, number)
        elif name in NODES:
            self._hurt_pod(name, number)
        else:
            self._meddle(name, number)
        assert self.witnessed == []

    def _set_template(self, number: int) -> None:
        container = {"name": "app", "image": TEMPLATES[number % len(TEMPLATES)]}
        self._change({"template": {"spec": {"containers": [container]}}})

    def _set_strategy(self, number: int) -> None:
        if number % 2:
            self._change({"strategy": {"type": "Recreate", "rollingUpdate": None}})
        else:
            self._change({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": number}}})

    def _set_limits(self, number: int) -> None:
        if get(self.cluster).spec.strategy.type == "RollingUpdate":
            limits = {"maxSurge": number % 3, "maxUnavailable": 1 + number % 2}
            self._change({"strategy": {"rollingUpdate": limits}})

    def _meddle(self, name: str, number: int) -> None:
        sets = sets_of(self.cluster)
        if not sets:
            return
        called = sets[number % len(sets)].metadata.name
        with suppress(Conflict, NotFound):
            if name == "scale set":
                self._patch(ReplicaSet, called, {"spec": {"replicas": number}})
            elif name == "delete set":
                self.cluster.client.delete(ReplicaSet, called, NS)
                self._collect_garbage()
            else:
                self._patch(ReplicaSet, called, {"metadata": {"ownerReferences": None}})

    def _collect_garbage(self) -> None:
        """Return pods whose replica set is deleted; one may be created after the deletion, before it is observed."""
        living = {one.metadata.uid for one in self.cluster.client.list(ReplicaSet, NS).items}
        for pod in self.cluster.client.list(Pod, NS).items:
            if not living.intersection(one.uid for one in pod.metadata.owner_references):
                with suppress(NotFound):
                    self.cluster.client.delete(Pod, pod.metadata.name, NS)

    def _hurt_pod(self, name: str, number: int) -> None:
        pods = [one for one in self.cluster.client.list(Pod, NS).items if is_active(one)]
        if not pods:
            return
        called = pods[number % len(pods)].metadata.name
        with suppress(Conflict, NotFound):
            if name == "delete pod":
                self.cluster.client.delete(Pod, called, NS)
            elif name == "fail pod":
                self._patch(Pod, called, {"status": {"phase": "Failed"}}, subresource="status")
            else:
                # Pending, so that the node makes it ready again.
                status = {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}
                self._patch(Pod, called, {"status": status}, subresource="status")

    def _disturb(self, name: str, number: int) -> None:
        faults, times = self.cluster.faults, number + 1
        disturbances: dict[str, Callable[[], Any]] = {
            "drop watches": faults.drop_watches,
            "expire watches": faults.expire_watches,
            "late watch": lambda: (faults.delay(number, "watch", times=3), faults.drop_watches()),
            "conflict": lambda: (faults.conflict("patch", times=times), faults.conflict("update", times=times)),
            "lose answers": lambda: faults.lose_answers("write", times=times, chance=0.5),
            "refuse": lambda: faults.fail("write", times=times, chance=0.5),
        }
        disturbances[name]()

    def _change(self, spec: dict[str, Any]) -> None:
        self._patch(Deployment, "app", {"spec": spec})

    def _patch(self, kind: type, name: str, patch: dict[str, Any], **options: Any) -> None:
        self.cluster.client.patch(kind, name, patch, NS, **options)

    # Final state

    def check_end(self) -> None:
        """Check the final state without faults, pauses and failures."""
        cluster = self.cluster
        cluster.faults.clear()
        self._change({"paused": False})
        if image_of(get(cluster)) == BROKEN:
            self._set_template(0)
        cluster.advance(minutes=20)
        self._collect_garbage()
        cluster.advance(minutes=20)
        made = get(cluster)
        wanted = made.spec.replicas or 0
        sets = sets_of(cluster)
        assert {image_of(one): one.spec.replicas for one in sets if one.spec.replicas} == (
            {image_of(made): wanted} if wanted else {}
        )
        said = made.status
        assert (said.replicas, said.updated_replicas, said.available_replicas) == (wanted, wanted, wanted)
        assert (said.unavailable_replicas, said.terminating_replicas) == (0, 0)
        assert said.observed_generation == made.metadata.generation
        conditions = {one.type: one.reason for one in said.conditions}
        assert conditions == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
        assert len(sets) <= 3
        newest = max(int(one.metadata.annotations["deployment.kubernetes.io/revision"]) for one in sets)
        assert made.metadata.annotations["deployment.kubernetes.io/revision"] == str(newest)
        active = [one for one in cluster.client.list(Pod, NS).items if is_active(one)]
        assert len(active) == wanted
        assert self.witnessed == []


def steps(*names: str) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 7)), max_size=20)


QUIET = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)


@QUIET
@given(steps(*USER, *NETWORK, *PASSING), st.integers(1, 6), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2**16))
# The creation of a replica set has no answer, and the template changes before the watch shows the set.
@example(
    taken=[("template", 2), ("lose answers", 0), ("template", 1), ("template", 0)],
    replicas=1,
    surge=0,
    unavailable=0,
    seed=1,
)
@example(taken=[("template", 2), ("lose answers", 0), ("template", 1)], replicas=1, surge=0, unavailable=0, seed=1)
# A rollout is reverted twice before the replica sets have reported the pods they removed.
@example(
    taken=[("template", 1), ("annotate", 0), ("annotate", 0), ("template", 0), ("template", 1)],
    replicas=2,
    surge=3,
    unavailable=1,
    seed=1908,
)
def test_limits_hold_at_all_times(taken: list[Step], replicas: int, surge: int, unavailable: int, seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = DeploymentHarness(cluster, replicas, surge or int(unavailable == 0), unavailable)
        harness.watch_limits()
        for step in taken:
            harness.take(step)
        harness.check_end()


@QUIET
@given(steps(*USER, *NUMBERS, *NODES, *NETWORK, *PASSING), st.integers(0, 2**16))
# The controllers die between the two writes that delete a pod.
@example(taken=[("template", 1), ("crash", 0), ("annotate", 0), ("crash", 2)], seed=1)
def test_deployment_converges_under_faults(taken: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = DeploymentHarness(cluster, 3, 1, 1)
        for step in taken:
            harness.take(step)
        harness.check_end()
