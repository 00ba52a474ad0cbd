# SPDX-License-Identifier: Apache-2.0
"""Deployments are scaled, paused, resumed, recreated and rolled back."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.apps_v1 import Deployment, DeploymentStrategy, ReplicaSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_active
from kubeloop.testing import Cluster, deployment, replica_set
from tests.controllers.deployments import (
    BROKEN,
    NS,
    REVISION,
    change,
    get,
    scalings,
    set_image,
    sets_of,
    settle,
    sizes,
    start,
    summarize_condition,
)
from tests.controllers.replicas import pods_of

DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
HISTORY = "deployment.kubernetes.io/revision-history"
ROLLBACK_TO = "deprecated.deployment.rollback.rollbackTo"


def deployed(cluster: Cluster, replicas: int = 3, **spec: Any) -> Deployment:
    start(cluster)
    cluster.add(deployment(replicas=replicas, image="one", **spec))
    settle(cluster)
    return get(cluster)


def scale(cluster: Cluster, replicas: int) -> None:
    change(cluster, {"spec": {"replicas": replicas}})


# Scaling


def test_scaled_deployment_scales_its_replica_set(cluster: Cluster) -> None:
    deployed(cluster, 3)
    name = sets_of(cluster)[0].metadata.name
    scale(cluster, 5)
    scale(cluster, 2)
    assert sizes(cluster) == {"one": 2}
    assert scalings(cluster)[1:] == [
        f"Scaled up replica set {name} from 3 to 5",
        f"Scaled down replica set {name} from 5 to 2",
    ]
    (one,) = sets_of(cluster)
    assert (one.metadata.annotations[DESIRED], one.metadata.annotations[MOST]) == ("2", "3")
    assert one.metadata.generation == 3
    said = summarize_condition(cluster, "Progressing")
    assert said is not None
    assert said.reason == "NewReplicaSetAvailable"
    assert get(cluster).status.observed_generation == 3


def test_scaling_during_a_rollout_is_proportional(cluster: Cluster) -> None:
    deployed(cluster, 3)
    set_image(cluster, BROKEN)
    assert sizes(cluster) == {"one": 3, BROKEN: 1}
    scale(cluster, 6)
    # Shared out as six and two; then one more of the old may go.
    assert sizes(cluster) == {"one": 5, BROKEN: 3}
    for one in sets_of(cluster):
        assert (one.metadata.annotations[DESIRED], one.metadata.annotations[MOST]) == ("6", "8")
    scale(cluster, 0)
    assert sizes(cluster) == {"one": 0, BROKEN: 0}


def test_ineffective_scaling_does_not_delay_the_rollout(cluster: Cluster) -> None:
    """Upstream would wait forever: the replica set was manually given the new size of the deployment."""
    deployed(cluster, 2)
    (one,) = sets_of(cluster)
    cluster.faults.fail("patch", "replicasets", times=3)
    cluster.client.patch(ReplicaSet, one.metadata.name, {"spec": {"replicas": 4}}, NS)
    cluster.client.patch(Deployment, "app", {"spec": {"replicas": 4}}, NS)
    settle(cluster)
    set_image(cluster, "two")
    assert sizes(cluster) == {"one": 0, "two": 4}
    assert sets_of(cluster)[1].metadata.annotations[DESIRED] == "4"


# Pausing


def test_paused_deployment_does_not_roll_out_but_scales(cluster: Cluster) -> None:
    deployed(cluster, 2)
    change(cluster, {"spec": {"paused": True}})
    assert summarize_condition(cluster, "Progressing") == ("Unknown", "DeploymentPaused", "Deployment is paused")
    set_image(cluster, "two")
    assert sizes(cluster) == {"one": 2}
    said = get(cluster)
    assert (said.status.updated_replicas, said.status.observed_generation) == (0, 3)
    assert said.metadata.annotations[REVISION] == "1"
    scale(cluster, 3)
    assert sizes(cluster) == {"one": 3}
    change(cluster, {"spec": {"paused": None}})
    assert sizes(cluster) == {"one": 0, "two": 3}
    said = get(cluster)
    assert said.metadata.annotations[REVISION] == "2"
    assert (said.status.updated_replicas, said.status.available_replicas) == (3, 3)


def test_resumed_deployment_has_a_condition_until_it_progresses(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(deployment(replicas=1, image=BROKEN))
    settle(cluster)
    change(cluster, {"spec": {"paused": True}})
    change(cluster, {"spec": {"paused": False}})
    assert summarize_condition(cluster, "Progressing") == ("Unknown", "DeploymentResumed", "Deployment is resumed")


def test_paused_time_does_not_count_for_the_deadline(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(deployment(replicas=1, image=BROKEN, progress_deadline_seconds=60))
    settle(cluster)
    change(cluster, {"spec": {"paused": True}})
    cluster.advance(hours=5)
    change(cluster, {"spec": {"paused": False}})
    cluster.advance(50)
    assert summarize_condition(cluster, "Progressing") == ("Unknown", "DeploymentResumed", "Deployment is resumed")
    cluster.advance(20)
    said = summarize_condition(cluster, "Progressing")
    assert said is not None
    assert said.reason == "ProgressDeadlineExceeded"


def test_deployment_created_paused_creates_nothing(cluster: Cluster) -> None:
    deployed(cluster, 2, paused=True)
    assert sets_of(cluster) == []
    assert get(cluster).status.observed_generation == 1
    change(cluster, {"spec": {"paused": False}})
    assert sizes(cluster) == {"one": 2}


# Deadlines


def test_stuck_rollout_sets_the_condition_after_its_deadline(cluster: Cluster) -> None:
    deployed(cluster, 2)
    set_image(cluster, BROKEN)
    name = sets_of(cluster)[1].metadata.name
    cluster.advance(595)
    assert summarize_condition(cluster, "Progressing") == (
        "True",
        "ReplicaSetUpdated",
        f'ReplicaSet "{name}" is progressing.',
    )
    cluster.advance(10)
    late = f'ReplicaSet "{name}" has timed out progressing.'
    assert summarize_condition(cluster, "Progressing") == ("False", "ProgressDeadlineExceeded", late)
    change(cluster, {"spec": {"paused": True}})
    assert summarize_condition(cluster, "Progressing") == ("False", "ProgressDeadlineExceeded", late)
    change(cluster, {"spec": {"paused": False}})
    set_image(cluster, "three")
    said = summarize_condition(cluster, "Progressing")
    assert said is not None
    assert said.reason == "NewReplicaSetAvailable"


def test_deployment_without_deadline_has_no_progressing_timeout(cluster: Cluster) -> None:
    deployed(cluster, 1, progress_deadline_seconds=2**31 - 1)
    assert summarize_condition(cluster, "Progressing") is None
    set_image(cluster, BROKEN)
    cluster.advance(hours=30)
    assert summarize_condition(cluster, "Progressing") is None


def test_complete_rollout_never_times_out(cluster: Cluster) -> None:
    deployed(cluster, 1)
    cluster.advance(hours=1)
    (pod,) = pods_of(cluster, sets_of(cluster)[0])
    unready = {"type": "Ready", "status": "False"}
    cluster.client.patch(Pod, pod.metadata.name, {"status": {"conditions": [unready]}}, NS, subresource="status")
    cluster.advance(hours=1)
    assert summarize_condition(cluster, "Available") == (
        "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    )  # fmt: skip
    said = summarize_condition(cluster, "Progressing")
    assert said is not None
    assert said.reason == "NewReplicaSetAvailable"


# Recreation


def recreating() -> DeploymentStrategy:
    return DeploymentStrategy(type="Recreate")


def test_recreate_waits_for_termination_of_old_pods(cluster: Cluster) -> None:
    deployed(cluster, 2, strategy=recreating())
    old = pods_of(cluster, sets_of(cluster)[0])
    for pod in old:
        cluster.client.patch(Pod, pod.metadata.name, {"metadata": {"finalizers": ["test/kept"]}}, NS)
    set_image(cluster, "two")
    cluster.advance(minutes=5)
    assert sizes(cluster) == {"one": 0}
    said = get(cluster).status
    assert (said.replicas, said.updated_replicas, said.terminating_replicas) == (0, 0, 2)
    for pod in old:
        assert sizes(cluster) == {"one": 0}
        cluster.client.patch(Pod, pod.metadata.name, {"metadata": {"finalizers": None}}, NS)
        settle(cluster)
    assert sizes(cluster) == {"one": 0, "two": 2}
    assert [one.split(" from ")[1] for one in scalings(cluster)] == ["0 to 2", "2 to 0", "0 to 2"]
    assert get(cluster).status.available_replicas == 2


def test_recreate_does_not_wait_for_terminated_pods(cluster: Cluster) -> None:
    deployed(cluster, 1, strategy=recreating())
    (pod,) = pods_of(cluster, sets_of(cluster)[0])
    cluster.client.patch(Pod, pod.metadata.name, {"metadata": {"finalizers": ["test/kept"]}}, NS)
    cluster.client.patch(Pod, pod.metadata.name, {"status": {"phase": "Failed"}}, NS, subresource="status")
    settle(cluster)
    set_image(cluster, "two")
    assert sizes(cluster) == {"one": 0, "two": 1}


def test_recreate_deployment_scales(cluster: Cluster) -> None:
    deployed(cluster, 1, strategy=recreating())
    scale(cluster, 4)
    assert sizes(cluster) == {"one": 4}
    assert sets_of(cluster)[0].metadata.annotations[MOST] == "4"


def test_adopted_pods_terminate_before_recreate_even_when_scaled(cluster: Cluster) -> None:
    deployed(cluster, 1, strategy=recreating())
    cluster.client.patch(Deployment, "app", {"spec": {"replicas": 3}}, NS)
    cluster.add(replica_set("stray", replicas=2, image="zero", labels={"app": "app"}))
    settle(cluster)
    assert sizes(cluster) == {"zero": 0, "one": 3}


def test_frequently_changing_pods_do_not_delay_a_rollout(cluster: Cluster) -> None:
    """Frequent events of replica sets must not delay a step."""
    deployed(cluster, 150)
    loop = cluster.faults.delay(0, "patch", "replicasets", times=None)
    set_image(cluster, "two")
    assert sizes(cluster) == {"one": 0, "two": 150}
    assert loop.hits < 100


# Revisions


def test_rollback_reuses_the_old_replica_set(cluster: Cluster) -> None:
    deployed(cluster, 2)
    set_image(cluster, "two")
    set_image(cluster, "one")
    assert sizes(cluster) == {"one": 2, "two": 0}
    back = sets_of(cluster)[-1]
    assert back.metadata.annotations[REVISION] == "3"
    assert back.metadata.annotations[HISTORY] == "1"
    assert get(cluster).metadata.annotations[REVISION] == "3"
    set_image(cluster, "two")
    set_image(cluster, "one")
    assert sets_of(cluster)[-1].metadata.annotations[HISTORY] == "1,3"


def test_annotations_are_copied_to_the_new_replica_set_with_exceptions(cluster: Cluster) -> None:
    start(cluster)
    made = deployment(replicas=1, image="one")
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    made.metadata.annotations.update({"note": "first", applied: "{}", DESIRED: "99"})  # type: ignore[attr-defined]
    cluster.add(made)
    settle(cluster)
    (one,) = sets_of(cluster)
    assert one.metadata.annotations == {"note": "first", REVISION: "1", DESIRED: "1", MOST: "2"}
    change(cluster, {"metadata": {"annotations": {"note": "second", "more": "x"}}})
    (one,) = sets_of(cluster)
    assert one.metadata.annotations["note"] == "second"
    assert one.metadata.annotations["more"] == "x"
    set_image(cluster, "two")
    change(cluster, {"metadata": {"annotations": {"note": "third"}}})
    assert [one.metadata.annotations["note"] for one in sets_of(cluster)] == ["second", "third"]


def test_revision_history_limit_deletes_the_oldest_replica_sets(cluster: Cluster) -> None:
    deployed(cluster, 1, revision_history_limit=1)
    set_image(cluster, "two")
    assert sizes(cluster) == {"one": 0, "two": 1}
    set_image(cluster, "three")
    assert sizes(cluster) == {"two": 0, "three": 1}
    change(cluster, {"spec": {"revisionHistoryLimit": 0}})
    assert sizes(cluster) == {"three": 1}
    assert sets_of(cluster)[0].metadata.annotations[REVISION] == "3"


def test_history_is_cleaned_up_while_paused(cluster: Cluster) -> None:
    deployed(cluster, 1)
    set_image(cluster, "two")
    change(cluster, {"spec": {"paused": True}})
    change(cluster, {"spec": {"revisionHistoryLimit": 0}})
    assert sizes(cluster) == {"two": 1}


def test_history_is_not_cleaned_up_during_a_rollout(cluster: Cluster) -> None:
    deployed(cluster, 1, revision_history_limit=0)
    set_image(cluster, BROKEN)
    assert sizes(cluster) == {"one": 1, BROKEN: 1}


@pytest.mark.parametrize("asked", ["1", "0"])
def test_rollback_annotation_restores_template_and_annotations(cluster: Cluster, asked: str) -> None:
    deployed(cluster, 1)
    change(cluster, {"metadata": {"annotations": {"note": "first"}}})
    cluster.client.patch(Deployment, "app", {"metadata": {"annotations": {"note": "second"}}}, NS)
    set_image(cluster, "two")
    # The change of the note alone came to the first replica set as well.
    change(cluster, {"metadata": {"annotations": {"note": "third", ROLLBACK_TO: asked}}})
    assert sizes(cluster) == {"one": 1, "two": 0}
    said = get(cluster)
    assert said.metadata.annotations == {"note": "second", REVISION: "3"}
    (event,) = cluster.events(reason="DeploymentRollback")
    assert (event.type, event.message) == ("Normal", 'Rolled back deployment "app" to revision 1')


@pytest.mark.parametrize(
    ("asked", "reason", "message"),
    [
        ("7", "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."),
        ("0", "DeploymentRollbackRevisionNotFound", "Unable to find last revision."),
        (
            "1",
            "DeploymentRollbackTemplateUnchanged",
            'The rollback revision contains the same template as current deployment "app"',
        ),
    ],
)
def test_rollback_to_a_missing_revision_records_an_event(
    cluster: Cluster, asked: str, reason: str, message: str
) -> None:
    deployed(cluster, 1)
    change(cluster, {"metadata": {"annotations": {ROLLBACK_TO: asked}}})
    assert ROLLBACK_TO not in get(cluster).metadata.annotations
    (event,) = cluster.events(reason=reason)
    assert (event.type, event.message) == ("Warning", message)
    assert sizes(cluster) == {"one": 1}


def test_non_numeric_rollback_revision_is_ignored(cluster: Cluster) -> None:
    deployed(cluster, 1)
    change(cluster, {"metadata": {"annotations": {ROLLBACK_TO: "last"}}})
    set_image(cluster, "two")
    assert sizes(cluster) == {"one": 0, "two": 1}


def test_all_pods_of_a_settled_deployment_are_of_one_template(cluster: Cluster) -> None:
    deployed(cluster, 5)
    for image in ("two", "three", "one"):
        set_image(cluster, image)
    pods = [one for one in cluster.client.list(Pod, NS).items if is_active(one)]
    assert {one.spec.containers[0].image for one in pods} == {"one"}
    assert len(pods) == 5
