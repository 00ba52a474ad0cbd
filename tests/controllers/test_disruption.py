# SPDX-License-Identifier: Apache-2.0
"""Disruption budgets say how many pods may go, and evictions keep to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest

from kubeloop.api.errors import NotFound, TooManyRequests
from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.api.scalars.times import format_time
from kubeloop.client import SyncClient
from kubeloop.controllers.disruption import wire
from kubeloop.testing import Cluster, deployment, pod, replica_set, stateful_set
from tests.controllers.replicas import NS, as_account, make_ready, set_status


def budget(name: str = "b", app: str = "a", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def add_pods(cluster: Cluster, count: int, owner: Any = None, app: str = "a", ready: bool = True) -> list[Pod]:
    stem = app if owner is None else owner.metadata.name
    made = [cluster.add(pod(f"{stem}-{number}", labels={"app": app}, owner=owner)) for number in range(count)]
    if ready:
        make_ready(cluster, *made)
    return made


def status(cluster: Cluster, name: str = "b") -> Any:
    cluster.settle()
    return cluster.client.get(PodDisruptionBudget, name, NS).status


def numbers(cluster: Cluster, name: str = "b") -> tuple[int, int, int, int]:
    """Allowed disruptions, healthy pods, those that are needed, those that are expected."""
    said = status(cluster, name)
    return said.disruptions_allowed, said.current_healthy, said.desired_healthy, said.expected_pods


def condition(cluster: Cluster) -> tuple[str, str, str]:
    (found,) = status(cluster).conditions
    return found.status, found.reason, found.message


# Numbers


def test_budget_without_pods_allows_no_disruption(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(budget(minAvailable=1))
    assert numbers(cluster) == (0, 0, 1, 0)
    assert condition(cluster) == ("False", "InsufficientPods", "")
    event = cluster.events(reason="NoPods")[0]
    assert (event.type, event.message, event.source.component) == (
        "Normal",
        "No matching pods found",
        "controllermanager",
    )
    assert status(cluster).observed_generation == 1


def test_min_available_counts_ready_pods_of_any_owner(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(budget(minAvailable=3))
    first = add_pods(cluster, 4)
    assert numbers(cluster) == (1, 4, 3, 4)
    assert condition(cluster) == ("True", "SufficientPods", "")
    make_ready(cluster, first[0], ready=False)
    assert numbers(cluster) == (0, 3, 3, 4)
    assert condition(cluster) == ("False", "InsufficientPods", "")
    assert cluster.events(reason="UnmanagedPods") == []


def test_terminating_pod_is_not_healthy(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(budget(minAvailable=1))
    first = add_pods(cluster, 2)[0]
    cluster.client.patch(Pod, first.metadata.name, {"metadata": {"finalizers": ["test/kept"]}}, NS)
    cluster.client.delete(Pod, first.metadata.name, NS)
    assert numbers(cluster) == (0, 1, 1, 2)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"maxUnavailable": 2}, (2, 7, 5, 7)),
        ({"maxUnavailable": "30%"}, (3, 7, 4, 7)),  # 2.1 is rounded up
        ({"maxUnavailable": "100%"}, (7, 7, 0, 7)),
        ({"maxUnavailable": 20}, (7, 7, 0, 7)),
        ({"maxUnavailable": 0}, (0, 7, 7, 7)),
        ({"minAvailable": "30%"}, (4, 7, 3, 7)),  # 2.1 is rounded up
        ({"minAvailable": "100%"}, (0, 7, 7, 7)),
        ({"minAvailable": 9}, (0, 7, 9, 7)),
    ],
)
def test_percentages_are_relative_to_the_owners_scale(
    cluster: Cluster, spec: dict[str, Any], expected: tuple[int, int, int, int]
) -> None:
    rs = cluster.add(replica_set("rs", labels={"app": "a"}, replicas=7))
    add_pods(cluster, 7, rs)
    cluster.start(wire)
    cluster.add(budget(**spec))
    assert numbers(cluster) == expected


def test_missing_pods_count_against_the_budget(cluster: Cluster) -> None:
    sts = cluster.add(stateful_set("s", labels={"app": "a"}, replicas=5))
    add_pods(cluster, 3, sts)
    cluster.start(wire)
    cluster.add(budget(maxUnavailable=2))
    assert numbers(cluster) == (0, 3, 3, 5)


def test_pods_of_a_deployment_are_counted_by_its_scale(cluster: Cluster) -> None:
    owner = cluster.add(deployment("d", labels={"app": "a"}, replicas=4))
    old = cluster.add(replica_set("old", labels={"app": "a"}, replicas=2, owner=owner))
    new = cluster.add(replica_set("new", labels={"app": "a"}, replicas=3, owner=owner))
    add_pods(cluster, 2, old)
    add_pods(cluster, 3, new)
    cluster.start(wire)
    cluster.add(budget(maxUnavailable="25%"))
    assert numbers(cluster) == (2, 5, 3, 4)
    cluster.client.patch(Deployment, "d", {"spec": {"replicas": 8}}, NS)
    cluster.client.patch(PodDisruptionBudget, "b", {"spec": {"maxUnavailable": "50%"}}, NS)
    assert numbers(cluster)[3] == 8


def test_pods_of_several_controllers_are_added(cluster: Cluster) -> None:
    rs = cluster.add(replica_set("rs", labels={"app": "a"}, replicas=3))
    rc = cluster.add(
        {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": "rc", "namespace": NS},
            "spec": {
                "replicas": 2,
                "selector": {"app": "a"},
                "template": {
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        }
    )
    add_pods(cluster, 3, rs)
    add_pods(cluster, 2, rc)
    cluster.start(wire)
    cluster.add(budget(minAvailable="40%"))
    assert numbers(cluster) == (3, 5, 2, 5)


def test_unmanaged_pods_record_an_event_and_are_not_expected(cluster: Cluster) -> None:
    add_pods(cluster, 1, app="lone")
    cluster.start(wire)
    cluster.add(budget(app="lone", maxUnavailable=1))
    assert numbers(cluster) == (0, 1, 0, 0)
    event = cluster.events(reason="UnmanagedPods")[0]
    assert event.type == "Warning"
    assert event.message == (
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: lone,},"
        "MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the "
        "PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
        'set ".spec.minAvailable" field of the PDB to an integer value.'
    )


def test_pod_that_moves_to_another_budget_is_counted_there(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(budget("one", app="a", minAvailable=1), budget("two", app="b", minAvailable=1))
    first = add_pods(cluster, 2)[0]
    cluster.client.patch(Pod, first.metadata.name, {"metadata": {"labels": {"app": "b"}}}, NS)
    assert numbers(cluster, "one") == (0, 1, 1, 1)
    assert numbers(cluster, "two") == (0, 1, 1, 1)


def test_empty_selector_matches_all_pods_of_the_namespace(cluster: Cluster) -> None:
    cluster.start(wire)
    everything = budget(minAvailable=1)
    everything["spec"]["selector"] = {}
    cluster.add(everything)
    add_pods(cluster, 2)
    add_pods(cluster, 1, app="b")
    assert numbers(cluster) == (2, 3, 1, 3)


@pytest.mark.parametrize("selector", [{}, {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}])
def test_pods_without_labels_can_be_selected(cluster: Cluster, selector: dict[str, Any]) -> None:
    """Upstream: TestSelectorsForPodsWithoutLabels."""
    cluster.start(wire)
    make_ready(cluster, cluster.add(pod("bare")))
    cluster.add(budget(minAvailable=1) | {"spec": {"minAvailable": 1, "selector": selector}})
    assert numbers(cluster) == (0, 1, 1, 1)


def test_pod_with_several_budgets_records_an_event(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(budget("one", minAvailable=1), budget("two", minAvailable=0))
    add_pods(cluster, 1)
    assert numbers(cluster, "one")[1] == numbers(cluster, "two")[1] == 1
    event = cluster.events(reason="MultiplePodDisruptionBudgets")[0]
    assert event.message == 'Pod "default"/"a-0" matches multiple PodDisruptionBudgets.  Chose "one" arbitrarily.'
    assert event.involved_object.kind == "Pod"


# Owners of other kinds


def definition(scale: bool) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if scale:
        paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        version["subresources"] = {"scale": paths}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "flocks.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "flocks", "singular": "flock", "kind": "Flock"},
            "versions": [version],
        },
    }


def flock(cluster: Cluster, *, scale: bool) -> dict[str, Any]:
    """A pod that belongs to a custom resource of four."""
    cluster.add(definition(scale))
    cluster.settle()
    meta = {"name": "geese", "namespace": NS}
    made = cluster.add({"apiVersion": "example.com/v1", "kind": "Flock", "metadata": meta, "spec": {"replicas": 4}})
    return owned_by("Flock", "geese", made.metadata.uid)


def owned_by(kind: str, name: str, uid: str) -> dict[str, Any]:
    reference = {"apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
    meta = {"name": "a-0", "namespace": NS, "labels": {"app": "a"}, "ownerReferences": [reference]}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def test_scale_of_any_owner_is_read(cluster: Cluster) -> None:
    made = cluster.add(flock(cluster, scale=True))
    make_ready(cluster, made)
    cluster.start(wire)
    cluster.add(budget(maxUnavailable=3))
    assert numbers(cluster) == (0, 1, 1, 4)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("Flock", "flocks.example.com does not implement the scale subresource"),
        ("Swarm", 'no matches for kind "Swarm" in version "example.com/v1"'),
    ],
)
def test_owner_without_scale_disallows_disruptions(cluster: Cluster, kind: str, why: str) -> None:
    one = flock(cluster, scale=False)
    one["metadata"]["ownerReferences"][0]["kind"] = kind
    cluster.add(one)
    cluster.start(wire)
    cluster.add(budget(maxUnavailable=1))
    assert condition(cluster) == ("False", "SyncFailed", why)
    assert numbers(cluster)[0] == 0
    event = cluster.events(reason="CalculateExpectedPodCountFailed")[0]
    assert event.message == f"Failed to calculate the number of expected pods: {why}"
    make_ready(cluster, cluster.client.get(Pod, "a-0", NS))
    with pytest.raises(TooManyRequests) as refused:
        cluster.client.evict("a-0", NS)
    (cause,) = refused.value.causes
    assert cause.message == "The disruption budget b is still being processed by the server."
    observed = {"status": {"observedGeneration": 1}}  # as if it had been synced before
    cluster.client.patch(PodDisruptionBudget, "b", observed, NS, subresource="status")
    with pytest.raises(TooManyRequests) as refused:
        cluster.client.evict("a-0", NS)
    (cause,) = refused.value.causes
    assert cause.message.endswith(f"b does not allow evicting pods currently because it failed sync: {why}")


def test_missing_owner_records_an_event(cluster: Cluster) -> None:
    rs = replica_set("rs", labels={"app": "a"})
    made = cluster.add(rs)
    add_pods(cluster, 1, made)
    cluster.client.delete("replicasets.apps/v1", "rs", NS, propagation="Orphan")
    cluster.client.patch("replicasets.apps/v1", "rs", {"metadata": {"finalizers": None}}, NS)
    cluster.start(wire)
    cluster.add(budget(maxUnavailable=1))
    assert condition(cluster) == ("False", "SyncFailed", 'found no controllers for pod "rs-0"')


def test_failed_budget_recovers_when_its_pods_change(cluster: Cluster) -> None:
    test_missing_owner_records_an_event(cluster)
    cluster.client.delete(Pod, "rs-0", NS, grace_seconds=0)
    assert condition(cluster) == ("False", "InsufficientPods", "")


def test_unresponsive_server_is_retried(cluster: Cluster) -> None:
    made = cluster.add(flock(cluster, scale=True))
    make_ready(cluster, made)
    cluster.start(wire)
    cluster.faults.fail("get", "flocks", times=4)
    cluster.add(budget(maxUnavailable=3))
    assert condition(cluster)[1] == "SyncFailed"
    cluster.advance(10)
    assert numbers(cluster) == (0, 1, 1, 4)
    assert condition(cluster) == ("False", "InsufficientPods", "")


# Evictions


def test_evicted_pod_is_not_counted_while_terminating(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(budget(minAvailable=2))
    add_pods(cluster, 4)
    assert numbers(cluster)[0] == 2
    cluster.client.evict("a-0", NS)
    assert numbers(cluster) == (1, 3, 2, 3)
    assert status(cluster).disrupted_pods == {}
    cluster.client.evict("a-1", NS)
    cluster.settle()
    with pytest.raises(TooManyRequests, match="Cannot evict pod as it would violate the pod's disruption budget"):
        cluster.client.evict("a-2", NS)


def test_concurrent_evictions_respect_the_budget(cluster: Cluster) -> None:
    """Evict while the budget is not updated."""
    loop = cluster.start(wire)
    cluster.add(budget(minAvailable=12))
    add_pods(cluster, 20)
    assert numbers(cluster)[0] == 8
    cluster.stop(loop)

    async def evict_all() -> list[Any]:
        calls = (cluster.async_client.evict(f"a-{number}", NS) for number in range(20))
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = cluster.run(evict_all())
    refused = [one for one in answers if isinstance(one, Exception)]
    assert len(refused) == 12
    assert all(isinstance(one, TooManyRequests) and one.causes[0].reason == "DisruptionBudget" for one in refused)
    assert len(cluster.client.list(Pod, NS).items) == 12
    said = cluster.client.get(PodDisruptionBudget, "b", NS).status
    assert (said.disruptions_allowed, len(said.disrupted_pods)) == (0, 8)
    assert said.conditions[0].reason == "InsufficientPods"
    cluster.start(wire)
    assert numbers(cluster) == (0, 12, 12, 12)
    assert status(cluster).disrupted_pods == {}


def test_concurrent_evictions_over_http_respect_the_budget(live_cluster: Cluster) -> None:
    """Upstream: TestConcurrentEvictionRequests. Conflicts are not returned; each client has its own connections."""
    live_cluster.start(wire)
    live_cluster.add(budget(minAvailable=14))
    add_pods(live_cluster, 20)

    def knows(healthy: int, allowed: int) -> bool:
        said = live_cluster.client.get(PodDisruptionBudget, "b", NS).status
        return (said.current_healthy, said.disruptions_allowed) == (healthy, allowed)

    def evict(own: int) -> list[str]:
        answers = []
        with SyncClient() as client:
            for number in range(20):  # all try all, each from another one on
                try:
                    client.evict(f"a-{(number + 5 * own) % 20}", NS)
                    answers.append("gone")
                except (TooManyRequests, NotFound) as error:
                    answers.append(type(error).__name__)
        return answers

    live_cluster.eventually(lambda: knows(20, 6))
    with ThreadPoolExecutor(4) as programs:
        answers = Counter(chain.from_iterable(programs.map(evict, range(4))))
    assert (answers["gone"], len(live_cluster.client.list(Pod, NS).items)) == (6, 14)
    live_cluster.eventually(lambda: knows(14, 0))


def test_eviction_between_read_and_write_is_not_overwritten(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(budget(minAvailable=1))
    first, *others = add_pods(cluster, 4)
    assert numbers(cluster)[0] == 3
    cluster.faults.delay(1, "patch", "poddisruptionbudgets")
    make_ready(cluster, first, ready=False)
    cluster.settle()  # its new counts are in flight, and new events are delayed
    cluster.faults.delay(60, "watch", times=None)
    cluster.faults.drop_watches()
    for one in others[:2]:
        cluster.client.evict(one.metadata.name, NS)
    cluster.advance(10)
    assert numbers(cluster)[0] == 1
    cluster.advance(minutes=2)
    assert numbers(cluster) == (0, 1, 1, 2)
    assert status(cluster).disrupted_pods == {}


@pytest.mark.parametrize("policy", [None, "IfHealthyBudget", "AlwaysAllow"])
def test_unhealthy_pod_is_evicted_if_the_policy_allows(cluster: Cluster, policy: str | None) -> None:
    spec = {"minAvailable": 2} if policy is None else {"minAvailable": 2, "unhealthyPodEvictionPolicy": policy}
    cluster.start(wire)
    cluster.add(budget(**spec))
    first, second, third = add_pods(cluster, 3)
    make_ready(cluster, first, ready=False)
    assert numbers(cluster) == (0, 2, 2, 3)
    cluster.client.evict(first.metadata.name, NS)  # the others are enough, so nothing is lost by it
    make_ready(cluster, second, ready=False)
    assert numbers(cluster) == (0, 1, 2, 2)
    if policy == "AlwaysAllow":
        cluster.client.evict(second.metadata.name, NS)
    else:
        with pytest.raises(TooManyRequests) as refused:
            cluster.client.evict(second.metadata.name, NS)
        (cause,) = refused.value.causes
        assert cause.message == "The disruption budget b needs 2 healthy pods and has 1 currently"
    with pytest.raises(TooManyRequests):
        cluster.client.evict(third.metadata.name, NS)


def test_changed_budget_disallows_evictions_until_synced(cluster: Cluster) -> None:
    loop = cluster.start(wire)
    cluster.add(budget(minAvailable=1))
    add_pods(cluster, 3)
    assert numbers(cluster)[0] == 2
    cluster.stop(loop)
    cluster.client.patch(PodDisruptionBudget, "b", {"spec": {"minAvailable": 3}}, NS)
    with pytest.raises(TooManyRequests) as refused:
        cluster.client.evict("a-0", NS)
    assert refused.value.causes[0].message == "The disruption budget b is still being processed by the server."


def test_pod_that_was_not_deleted_is_counted_again_after_two_minutes(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(budget(minAvailable=1))
    add_pods(cluster, 3)
    assert numbers(cluster) == (2, 3, 1, 3)
    announced = {"a-0": format_time(cluster.clock.now()), "never-was": format_time(cluster.clock.now())}
    patch = {"status": {"disruptedPods": announced, "disruptionsAllowed": 1}}
    cluster.client.patch(PodDisruptionBudget, "b", patch, NS, subresource="status")
    assert numbers(cluster) == (1, 2, 1, 3)
    assert set(status(cluster).disrupted_pods) == {"a-0"}
    cluster.advance(119)
    assert numbers(cluster) == (1, 2, 1, 3)
    cluster.advance(2)
    assert numbers(cluster) == (2, 3, 1, 3)
    assert status(cluster).disrupted_pods == {}
    (event,) = cluster.events(reason="NotDeleted")
    assert event.message == "Pod was expected by PDB default/default to be deleted but it wasn't"


# Announced evictions


def set_disruption_target(cluster: Cluster, one: Pod, **about: Any) -> None:
    now = format_time(cluster.clock.now())
    target = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": now, **about}
    set_status(cluster, one, conditions=[target])


def target_of(cluster: Cluster, name: str) -> Any:
    found = cluster.client.get(Pod, name, NS).status.conditions
    return next(one for one in found if one.type == "DisruptionTarget")


def test_stale_disruption_condition_is_removed_after_two_minutes(cluster: Cluster) -> None:
    cluster.start(wire)
    set_disruption_target(cluster, add_pods(cluster, 1)[0], reason="PreemptionByScheduler", message="for somebody else")
    cluster.advance(119)
    assert target_of(cluster, "a-0").status == "True"
    cluster.advance(2)
    found = target_of(cluster, "a-0")
    assert (found.status, found.reason, found.message) == ("False", "", "")
    assert found.observed_generation == 1
    assert found.last_transition_time == "2026-01-01T00:02:00Z"


def test_stale_disruption_condition_from_before_the_start_is_removed(cluster: Cluster) -> None:
    set_disruption_target(cluster, add_pods(cluster, 1)[0], reason="EvictionByEvictionAPI")
    cluster.advance(minutes=10)
    cluster.start(wire)
    assert target_of(cluster, "a-0").status == "False"


@pytest.mark.parametrize("why", ["by the kubelet", "it has failed", "it is being deleted"])
def test_valid_disruption_condition_is_kept(cluster: Cluster, why: str) -> None:
    cluster.start(wire)
    (one,) = add_pods(cluster, 1)
    set_disruption_target(
        cluster, one, reason="TerminationByKubelet" if why == "by the kubelet" else "EvictionByEvictionAPI"
    )
    if why == "it has failed":
        set_status(cluster, one, phase="Failed")
    if why == "it is being deleted":
        cluster.client.patch(Pod, "a-0", {"metadata": {"finalizers": ["test/kept"]}}, NS)
        cluster.client.delete(Pod, "a-0", NS)
    cluster.advance(minutes=10)
    assert target_of(cluster, "a-0").status == "True"


# In spite of everything


def test_controllers_role_is_sufficient(cluster: Cluster) -> None:
    made = cluster.add(flock(cluster, scale=True))
    make_ready(cluster, made)
    set_disruption_target(cluster, made, reason="EvictionByEvictionAPI")
    make_ready(cluster, made)
    cluster.start(wire(as_account(cluster, "disruption-controller")))
    cluster.add(budget(maxUnavailable=4))
    cluster.advance(minutes=5)
    assert numbers(cluster) == (1, 1, 0, 4)


def test_other_conditions_of_a_budget_are_kept(cluster: Cluster) -> None:
    cluster.add(budget(minAvailable=1))
    now = format_time(cluster.clock.now())
    mine = {"type": "Mine", "status": "True", "reason": "R", "message": "", "lastTransitionTime": now}
    cluster.client.patch(PodDisruptionBudget, "b", {"status": {"conditions": [mine]}}, NS, subresource="status")
    cluster.start(wire)
    assert {one.type for one in status(cluster).conditions} == {"Mine", "DisruptionAllowed"}


def test_unchanged_budget_is_not_written(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(budget(minAvailable=1))
    add_pods(cluster, 2)
    cluster.advance(1)
    before = cluster.client.get(PodDisruptionBudget, "b", NS).metadata.resource_version
    cluster.advance(hours=2)
    assert cluster.client.get(PodDisruptionBudget, "b", NS).metadata.resource_version == before
