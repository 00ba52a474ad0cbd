# SPDX-License-Identifier: Apache-2.0
"""A pod group is not deleted while pods belong to it that have not ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.controllers import podgroup_protection
from kubeloop.controllers.podgroup_protection import FINALIZER
from kubeloop.testing import Cluster
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step, steps
from tests.controllers.permissions import start_as

NS = "default"
SERVED: Any = {"runtime_config": "scheduling.k8s.io/v1beta1=true", "feature_gates": "GenericWorkload=true"}
TROUBLE = tuple(one for one in (*NETWORK, *LOSSES) if not one.endswith(("create", "delete")))


def group(name: str = "g", *finalizers: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": NS, "finalizers": list(finalizers)}
    spec: Any = {"schedulingPolicy": {"basic": {}}}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def member(name: str, of: str = "g") -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": of}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NS}, "spec": spec}


def there(cluster: Cluster, name: str = "g") -> PodGroup | None:
    try:
        found: PodGroup = cluster.client.get(PodGroup, name, NS)
    except NotFound:
        return None
    return found


def end(cluster: Cluster, name: str, phase: str = "Succeeded") -> None:
    cluster.client.patch(Pod, name, {"status": {"phase": phase}}, NS, subresource="status")
    cluster.settle()


def delete(cluster: Cluster, kind: Any, name: str) -> None:
    cluster.client.delete(kind, name, NS, **({"grace_seconds": 0} if kind is Pod else {}))
    cluster.settle()


@pytest.fixture
def env(make_cluster: Callable[..., Cluster]) -> Cluster:
    cluster = make_cluster(**SERVED)
    cluster.start(podgroup_protection.wire)
    return cluster


def test_new_group_is_protected_and_deleted_immediately_if_unused(env: Cluster) -> None:
    assert env.client.create(group()).metadata.finalizers == (FINALIZER,)
    delete(env, PodGroup, "g")
    assert there(env) is None


def test_group_is_kept_until_its_last_pod_is_deleted(env: Cluster) -> None:
    env.add(group(), member("a"), member("b"), member("other", "h"))
    delete(env, PodGroup, "g")
    delete(env, Pod, "a")
    assert there(env) is not None
    delete(env, Pod, "b")
    assert there(env) is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_terminated_pod_does_not_protect_its_group(env: Cluster, phase: str) -> None:
    env.add(group(), member("a"))
    delete(env, PodGroup, "g")
    end(env, "a", phase)
    assert there(env) is None


def test_terminating_pod_protects_its_group(env: Cluster) -> None:
    pod = member("a")
    pod["metadata"]["finalizers"] = ["example.com/stay"]
    env.add(group(), pod)
    delete(env, PodGroup, "g")
    delete(env, Pod, "a")
    assert there(env) is not None


def test_active_group_keeps_its_finalizer_and_other_finalizers(env: Cluster) -> None:
    env.add(group("g", "example.com/stay"), member("a"))
    end(env, "a")
    assert FINALIZER in there(env).metadata.finalizers  # type: ignore[union-attr]
    delete(env, PodGroup, "g")
    assert there(env).metadata.finalizers == ("example.com/stay",)  # type: ignore[union-attr]


def test_recreated_pod_releases_the_former_group(env: Cluster) -> None:
    env.add(group(), group("h"), member("a"))
    delete(env, PodGroup, "g")
    env.faults.drop_watches()
    env.client.delete(Pod, "a", NS, grace_seconds=0)
    env.client.create(member("a", "h"))
    env.advance(minutes=1)
    assert there(env) is None
    assert there(env, "h") is not None


def test_pods_of_other_namespaces_do_not_protect(env: Cluster) -> None:
    env.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    env.settle()
    stranger = member("a")
    stranger["metadata"]["namespace"] = "other"
    env.add(group(), stranger)
    delete(env, PodGroup, "g")
    assert there(env) is None


def test_group_deleted_before_the_start_is_finalized(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(**SERVED)
    cluster.add(group(), member("a"))
    delete(cluster, PodGroup, "g")
    end(cluster, "a")
    assert there(cluster) is not None
    cluster.start(podgroup_protection.wire)
    assert there(cluster) is None


def test_controllers_role_is_sufficient(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(**SERVED)
    start_as(cluster, "podgroup-protection-controller", podgroup_protection.wire)
    cluster.add(group(), member("a"))
    delete(cluster, PodGroup, "g")
    end(cluster, "a")
    assert there(cluster) is None


class Groups:
    """Groups that are made and deleted, and pods that come, end and go. A group needs no pod to be there first."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._process = ControllerProcess(cluster, podgroup_protection.wire)
        self._made = 0
        self._held: set[str] = set()

    def take(self, step: Step) -> None:
        name, number = step
        of = f"g{number % 3}"
        happenings: dict[str, Callable[[], Any]] = {
            "group": lambda: there(self.cluster, of) or self.cluster.client.create(group(of)),
            "pod": lambda: self._add(of),
            "end": lambda: self._with_pod(number, lambda pod: end(self.cluster, pod)),
            "remove": lambda: self._with_pod(number, lambda pod: delete(self.cluster, Pod, pod)),
            "delete": lambda: there(self.cluster, of) and self.cluster.client.delete(PodGroup, of, NS),
            "wait": lambda: self.cluster.advance(number),
        }
        happenings.get(name, lambda: self._process.disturb(name, number))()
        self._check()

    def _add(self, of: str) -> None:
        self._made += 1
        self.cluster.client.create(member(f"p{self._made}", of))

    def _with_pod(self, number: int, change: Callable[[str], None]) -> None:
        pods = self.cluster.client.list(Pod, NS).items
        if pods:
            change(pods[number % len(pods)].metadata.name)

    def _active(self) -> set[str]:
        pods = self.cluster.client.list(Pod, NS).items
        return {one.spec.scheduling_group.pod_group_name for one in pods if one.status.phase == "Pending"}

    def _check(self) -> None:
        """A group that a pod needed at the last look, and needs still, is there still."""
        found, active = {one.metadata.name for one in self.cluster.client.list(PodGroup, NS).items}, self._active()
        assert self._held & active <= found
        self._held = found & active

    def check_end(self) -> None:
        self.cluster.faults.clear()
        self.cluster.advance(minutes=10)
        for one in self.cluster.client.list(PodGroup, NS).items:
            assert one.metadata.deletion_timestamp is None or one.metadata.name in self._active()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(steps("group", "pod", "pod", "end", "remove", "delete", "delete", "wait", *TROUBLE), st.integers(0, 2**16))
def test_deleted_group_is_removed_exactly_after_its_pods(taken: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True, **SERVED) as cluster:
        groups = Groups(cluster)
        for step in taken:
            groups.take(step)
        groups.check_end()
