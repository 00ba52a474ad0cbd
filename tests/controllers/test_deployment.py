# SPDX-License-Identifier: Apache-2.0
"""Tests of Deployments: pods of the current template, and status."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import forbidden
from kubeloop.api.generated.apps_v1 import Deployment, DeploymentStrategy, ReplicaSet, RollingUpdateDeployment
from kubeloop.api.generated.core_v1 import Namespace, Pod
from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.controllers import deployment as deployment_loop
from kubeloop.controllers import replicaset as replicaset_loop
from kubeloop.testing import Cluster, deployment, namespace, replica_set
from tests.controllers.deployments import (
    BROKEN,
    NS,
    REVISION,
    change,
    get,
    image_of,
    running_pods,
    scalings,
    set_image,
    sets_of,
    settle,
    sizes,
    start,
    summarize_condition,
)
from tests.controllers.replicas import as_account, pods_of


def rolling(max_surge: int | str, max_unavailable: int | str) -> DeploymentStrategy:
    limits = RollingUpdateDeployment(max_surge=max_surge, max_unavailable=max_unavailable)
    return DeploymentStrategy(type="RollingUpdate", rolling_update=limits)


def deployed(cluster: Cluster, replicas: int = 3, **spec: Any) -> Deployment:
    """Return a deployment whose first rollout is complete."""
    start(cluster)
    cluster.add(deployment(replicas=replicas, image="one", **spec))
    settle(cluster)
    return get(cluster)


# The first rollout


def test_replica_set_is_created_from_the_template(cluster: Cluster) -> None:
    made = deployed(cluster, 3, min_ready_seconds=0)
    (one,) = sets_of(cluster)
    digest = one.metadata.labels["pod-template-hash"]
    assert one.metadata.name == f"app-{digest}"
    assert one.metadata.labels == {"app": "app", "pod-template-hash": digest}
    assert one.spec.selector == LabelSelector(match_labels={"app": "app", "pod-template-hash": digest})
    assert one.spec.template.metadata.labels == one.metadata.labels
    assert one.spec.template.spec == made.spec.template.spec
    assert one.metadata.annotations == {
        REVISION: "1",
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
    }
    (reference,) = one.metadata.owner_references
    assert (reference.api_version, reference.kind, reference.name) == ("apps/v1", "Deployment", "app")
    assert (reference.uid, reference.controller, reference.block_owner_deletion) == (made.metadata.uid, True, True)
    assert one.spec.replicas == 3


def test_status_counts_all_pods(cluster: Cluster) -> None:
    made = deployed(cluster, 3)
    said = made.status
    assert (said.replicas, said.updated_replicas, said.ready_replicas, said.available_replicas) == (3, 3, 3, 3)
    assert (said.unavailable_replicas, said.terminating_replicas, said.collision_count) == (0, 0, None)
    assert said.observed_generation == made.metadata.generation == 1
    assert made.metadata.annotations == {REVISION: "1"}
    assert summarize_condition(cluster, "Available") == (
        "True",
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
    )
    name = sets_of(cluster)[0].metadata.name
    done = f'ReplicaSet "{name}" has successfully progressed.'
    assert summarize_condition(cluster, "Progressing") == ("True", "NewReplicaSetAvailable", done)
    (event,) = cluster.events(reason="ScalingReplicaSet")
    assert event.message == f"Scaled up replica set {name} from 0 to 3"
    assert (event.type, event.source.component, event.involved_object.name) == (
        "Normal",
        "deployment-controller",
        "app",
    )


def test_pods_that_are_not_running_are_unavailable(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(deployment(replicas=2, image=BROKEN))
    settle(cluster)
    said = get(cluster).status
    assert (said.replicas, said.updated_replicas, said.ready_replicas, said.unavailable_replicas) == (2, 2, 0, 2)
    unavailable = "Deployment does not have minimum availability."
    assert summarize_condition(cluster, "Available") == ("False", "MinimumReplicasUnavailable", unavailable)
    moving = f'ReplicaSet "{sets_of(cluster)[0].metadata.name}" is progressing.'
    assert summarize_condition(cluster, "Progressing") == ("True", "ReplicaSetUpdated", moving)


def test_new_replica_set_event_precedes_the_first_pod(cluster: Cluster) -> None:
    cluster.start(deployment_loop.wire)
    cluster.add(deployment(replicas=2))
    settle(cluster)
    name = sets_of(cluster)[0].metadata.name
    assert summarize_condition(cluster, "Progressing") == (
        "True",
        "NewReplicaSetCreated",
        f'Created new replica set "{name}"',
    )
    assert get(cluster).status.unavailable_replicas == 2


def test_deployment_of_zero_replicas_is_complete_without_scaling_event(cluster: Cluster) -> None:
    made = deployed(cluster, 0)
    assert sizes(cluster) == {"one": 0}
    assert summarize_condition(cluster, "Progressing") is not None
    assert made.status.observed_generation == 1
    assert scalings(cluster) == []


def test_rollout_needs_few_writes(cluster: Cluster) -> None:
    writes = cluster.faults.delay(0, "write", "deployments", times=None)
    sets = cluster.faults.delay(0, "create", "replicasets", times=None)
    deployed(cluster, 3)
    assert sets.hits == 1
    # The creation event, then the replica set's: its pods, and their readiness.
    assert writes.hits <= 3
    before = writes.hits
    cluster.advance(hours=10)
    assert writes.hits == before


# Rolling updates


def test_update_replaces_pods_within_the_limits(cluster: Cluster) -> None:
    deployed(cluster, 2)
    first = sets_of(cluster)[0].metadata.name
    set_image(cluster, "two")
    second = sets_of(cluster)[1].metadata.name
    assert sizes(cluster) == {"one": 0, "two": 2}
    assert scalings(cluster)[1:] == [
        f"Scaled up replica set {second} from 0 to 1",
        f"Scaled down replica set {first} from 2 to 1",
        f"Scaled up replica set {second} from 1 to 2",
        f"Scaled down replica set {first} from 1 to 0",
    ]
    said = get(cluster)
    assert said.metadata.annotations[REVISION] == "2"
    assert (said.status.replicas, said.status.updated_replicas, said.status.available_replicas) == (2, 2, 2)
    assert summarize_condition(cluster, "Progressing") == (
        "True", "NewReplicaSetAvailable", f'ReplicaSet "{second}" has successfully progressed.'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("surge", "unavailable", "new", "old"),
    [
        (1, 0, 1, 10),
        (0, 1, 0, 9),
        (3, 2, 3, 8),
        ("100%", 0, 10, 10),
        ("25%", "25%", 3, 8),  # rounded up, rounded down
        ("0%", "5%", 0, 9),  # both are nothing, so one may be unavailable
        (0, "100%", 0, 0),
    ],
)
def test_first_step_of_a_rollout_uses_the_full_limits(
    cluster: Cluster, surge: int | str, unavailable: int | str, new: int, old: int
) -> None:
    deployed(cluster, 10, strategy=rolling(surge, unavailable))
    set_image(cluster, BROKEN)
    # Of those that never become available there are as many as surge and unavailability leave room for.
    found = sizes(cluster)
    assert found["one"] == old
    assert found[BROKEN] == min(new + 10 - old, 10)


def test_unhealthy_old_pods_are_scaled_down_first(cluster: Cluster) -> None:
    """Terminated pods would otherwise block the rollout."""
    start(cluster)
    cluster.add(deployment(replicas=3, image=BROKEN))
    settle(cluster)
    set_image(cluster, "two")
    assert sizes(cluster) == {BROKEN: 0, "two": 3}


def test_update_during_an_update_ends_with_the_latest(cluster: Cluster) -> None:
    deployed(cluster, 4)
    set_image(cluster, BROKEN)
    assert sizes(cluster) == {"one": 3, BROKEN: 2}
    set_image(cluster, "three")
    assert sizes(cluster) == {"one": 0, BROKEN: 0, "three": 4}
    assert get(cluster).metadata.annotations[REVISION] == "3"


def test_rollout_waits_until_new_pods_are_available(cluster: Cluster) -> None:
    deployed(cluster, 1, min_ready_seconds=60)
    cluster.advance(60)
    set_image(cluster, "two")
    assert sizes(cluster) == {"one": 1, "two": 1}
    cluster.advance(61)
    assert sizes(cluster) == {"one": 0, "two": 1}


def test_min_ready_seconds_change_needs_no_rollout(cluster: Cluster) -> None:
    deployed(cluster, 1)
    change(cluster, {"spec": {"minReadySeconds": 7}})
    (one,) = sets_of(cluster)
    assert one.spec.min_ready_seconds == 7


def test_manually_scaled_replica_set_is_rescaled(cluster: Cluster) -> None:
    deployed(cluster, 2)
    (one,) = sets_of(cluster)
    cluster.client.patch(ReplicaSet, one.metadata.name, {"spec": {"replicas": 4}}, NS)
    settle(cluster)
    assert sizes(cluster) == {"one": 2}
    assert scalings(cluster)[-1] == f"Scaled down replica set {one.metadata.name} from 4 to 2"


def test_manual_scale_in_a_stale_cache_is_detected(cluster: Cluster) -> None:
    deployed(cluster, 2)
    (one,) = sets_of(cluster)
    cluster.faults.delay(30, "watch", "replicasets")
    cluster.faults.drop_watches("replicasets")
    cluster.client.patch(ReplicaSet, one.metadata.name, {"spec": {"replicas": 5}}, NS)
    change(cluster, {"spec": {"replicas": 3}})
    assert sizes(cluster) == {"one": 5}  # what would be written follows from what no longer is
    cluster.advance(60)
    assert sizes(cluster) == {"one": 3}
    assert scalings(cluster)[-1] == f"Scaled down replica set {one.metadata.name} from 5 to 3"


def test_deleted_replica_set_is_recreated(cluster: Cluster) -> None:
    deployed(cluster, 2)
    (one,) = sets_of(cluster)
    cluster.client.delete(ReplicaSet, one.metadata.name, NS)
    settle(cluster)
    (other,) = sets_of(cluster)
    assert (other.metadata.name, other.spec.replicas) == (one.metadata.name, 2)
    assert other.metadata.uid != one.metadata.uid


def test_failing_pods_do_not_start_a_rollout(cluster: Cluster) -> None:
    deployed(cluster, 2)
    before = summarize_condition(cluster, "Progressing")
    for pod in pods_of(cluster, sets_of(cluster)[0]):
        cluster.client.delete(Pod, pod.metadata.name, NS)
    settle(cluster)
    assert summarize_condition(cluster, "Progressing") == before
    assert get(cluster).status.available_replicas == 2


# Ownership of replica sets


def test_orphan_with_the_same_template_is_adopted_as_the_new_one(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(replica_set("old", replicas=2, image="one", labels={"app": "app"}))
    settle(cluster)
    cluster.add(deployment(replicas=2, image="one"))
    settle(cluster)
    (one,) = sets_of(cluster)
    assert (one.metadata.name, one.metadata.annotations) == ("old", {REVISION: "1"})
    assert get(cluster).metadata.annotations == {REVISION: "1"}
    assert summarize_condition(cluster, "Progressing") == (
        "True", "NewReplicaSetAvailable", 'ReplicaSet "old" has successfully progressed.'
    )  # fmt: skip
    assert scalings(cluster) == []


def test_adopted_replica_set_sets_the_progressing_condition(cluster: Cluster) -> None:
    cluster.start(deployment_loop.wire)
    cluster.add(replica_set("old", replicas=2, image="one", labels={"app": "app"}))
    cluster.add(deployment(replicas=2, image="one"))
    settle(cluster)
    assert summarize_condition(cluster, "Progressing") == ("True", "FoundNewReplicaSet", 'Found new replica set "old"')


def test_orphan_that_comes_later_is_adopted_and_scaled_down(cluster: Cluster) -> None:
    deployed(cluster, 2)
    cluster.add(replica_set("stray", replicas=3, image="other", labels={"app": "app"}))
    settle(cluster)
    assert sizes(cluster) == {"one": 2, "other": 0}


def test_replica_set_that_no_longer_matches_is_released(cluster: Cluster) -> None:
    deployed(cluster, 2)
    (one,) = sets_of(cluster)
    labels = {"app": "else", "pod-template-hash": one.metadata.labels["pod-template-hash"]}
    cluster.client.patch(ReplicaSet, one.metadata.name, {"metadata": {"labels": labels}}, NS)
    settle(cluster)
    released = cluster.client.get(ReplicaSet, one.metadata.name, NS)
    assert released.metadata.owner_references == ()
    # Its name is taken, so the deployment's own has another.
    (own,) = sets_of(cluster)
    assert own.metadata.name != one.metadata.name
    assert get(cluster).status.collision_count == 1


def test_replica_set_of_another_owner_is_ignored(cluster: Cluster) -> None:
    cluster.start(deployment_loop.wire)
    other = cluster.add(deployment("other", replicas=1, labels={"app": "app"}))
    cluster.add(replica_set("theirs", labels={"app": "app"}, owner=other))
    cluster.add(deployment(replicas=2))
    settle(cluster)
    assert "theirs" in {one.metadata.name for one in sets_of(cluster, "other")}
    assert "theirs" not in {one.metadata.name for one in sets_of(cluster)}


def test_deployment_being_deleted_only_updates_status(cluster: Cluster) -> None:
    deployed(cluster, 2)
    cluster.client.patch(Deployment, "app", {"metadata": {"finalizers": ["test/kept"]}}, NS)
    cluster.client.delete(Deployment, "app", NS)
    settle(cluster)
    set_image(cluster, "two")
    assert sizes(cluster) == {"one": 2}
    said = get(cluster)
    assert said.status.observed_generation == said.metadata.generation
    assert (said.status.replicas, said.status.updated_replicas) == (2, 0)


# Failures


def test_templates_with_colliding_hashes_are_distinguished(cluster: Cluster) -> None:
    probe = deployed(cluster, 1)
    name = sets_of(cluster)[0].metadata.name
    cluster.client.delete(Deployment, "app", NS)
    cluster.client.delete(ReplicaSet, name, NS)
    settle(cluster)
    # The same name as the template's hash would give, for another template.
    cluster.add(replica_set(name, replicas=0, image="else", labels={"app": "app"}))
    cluster.add(deployment(replicas=1, image=image_of(probe)))
    settle(cluster)
    assert get(cluster).status.collision_count == 1
    assert sizes(cluster) == {"else": 0, "one": 1}


def test_rejected_replica_set_records_an_event_and_is_retried(cluster: Cluster) -> None:
    cluster.start(deployment_loop.wire)
    refusal = forbidden("apps", "replicasets", "app", "exceeded quota: none")
    fault = cluster.faults.fail("create", "replicasets", refusal, times=None)
    cluster.add(deployment(replicas=2))
    settle(cluster)
    said = summarize_condition(cluster, "Progressing")
    assert said is not None
    assert said[:2] == ("False", "ReplicaSetCreateError")
    assert said.message.startswith('Failed to create new replica set "app-')
    assert said.message.endswith(f": {refusal}")
    (event, *_) = cluster.events(reason="ReplicaSetCreateError")
    assert (event.type, event.message) == ("Warning", said.message)
    fault.times = 0
    cluster.advance(minutes=20)
    assert len(sets_of(cluster)) == 1


def test_terminating_namespace_is_ignored(cluster: Cluster) -> None:
    cluster.add(namespace("leaving"))
    cluster.settle()
    cluster.add(deployment("app", "leaving"))
    cluster.client.delete(Namespace, "leaving")
    loop = cluster.start(deployment_loop.wire)
    cluster.advance(minutes=10)
    assert cluster.client.list(ReplicaSet, "leaving").items == ()
    assert loop.status().errors == 0
    assert cluster.events("leaving") == []


def test_replica_failure_condition_is_propagated(cluster: Cluster) -> None:
    start(cluster)
    fault = cluster.faults.fail("create", "pods", forbidden("", "pods", "", "exceeded quota"), times=None)
    cluster.add(deployment(replicas=1))
    settle(cluster)
    said = summarize_condition(cluster, "ReplicaFailure")
    assert said is not None
    assert (said.status, said.reason) == ("True", "FailedCreate")
    fault.times = 0
    cluster.advance(minutes=20)
    assert summarize_condition(cluster, "ReplicaFailure") is None


@pytest.mark.parametrize("verb", ["create", "patch", "update"])
def test_lost_response_has_no_effect(cluster: Cluster, verb: str) -> None:
    cluster.faults.lose_answers(verb, "replicasets" if verb != "update" else "deployments", times=2)
    deployed(cluster, 2)
    set_image(cluster, "two")
    assert sizes(cluster) == {"one": 0, "two": 2}
    assert get(cluster).status.collision_count is None


def test_controllers_role_is_sufficient(cluster: Cluster) -> None:
    cluster.start(deployment_loop.wire(as_account(cluster, "deployment-controller")))
    cluster.start(replicaset_loop.wire)
    cluster.start(running_pods)
    cluster.add(replica_set("old", replicas=2, image="zero", labels={"app": "app"}))
    cluster.add(deployment(replicas=2, image="one", revision_history_limit=0))
    settle(cluster)
    assert sizes(cluster) == {"one": 2}
    set_image(cluster, "two")
    assert sizes(cluster) == {"two": 2}
