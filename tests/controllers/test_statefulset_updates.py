# SPDX-License-Identifier: Apache-2.0
"""Tests of StatefulSet updates: order, partition, limits, stuck rollouts, and revision history."""

from __future__ import annotations

import pytest
from msgspec import Raw

from kubeloop.api import codec
from kubeloop.api.generated.apps_v1 import (
    ControllerRevision,
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetUpdateStrategy,
)
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers.shared.ownership.controller_revisions import (
    revision_data,
    revision_hash,
    template_of_revision,
)
from kubeloop.controllers.statefulset import wire
from kubeloop.testing import Cluster, metadata, stateful_set
from tests.controllers.kubelet import Kubelet, image_of
from tests.controllers.stateful_sets import (
    NS,
    change,
    delete,
    event_messages,
    images,
    make_ready,
    make_unready,
    names,
    pods,
    read,
    revisions,
    start,
    template,
)


def rolling(partition: int = 0, max_unavailable: int | str | None = None) -> StatefulSetUpdateStrategy:
    limits = RollingUpdateStatefulSetStrategy(partition=partition, max_unavailable=max_unavailable)
    return StatefulSetUpdateStrategy(type="RollingUpdate", rolling_update=limits)


def going(cluster: Cluster) -> list[str]:
    return [one.metadata.name for one in pods(cluster) if one.metadata.deletion_timestamp is not None]


# Order and limits


def test_update_goes_from_the_highest_ordinal_down(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=3))
    cluster.settle()
    change(cluster, template=template("2"))
    assert images(cluster) == {"app-0": "2", "app-1": "2", "app-2": "2"}
    deleted = [one.split()[2] for one in event_messages(cluster, "SuccessfulDelete")]
    assert deleted == ["app-2", "app-1", "app-0"]
    status = read(cluster).status
    assert status.current_revision == status.update_revision
    assert (status.current_replicas, status.updated_replicas, status.observed_generation) == (3, 3, 2)


def test_status_reports_update_progress(cluster: Cluster) -> None:
    kubelet = start(cluster)
    cluster.add(stateful_set(replicas=3))
    cluster.settle()
    kubelet.runs = lambda one: one.metadata.name != "app-1"
    change(cluster, template=template("2"))
    status = read(cluster).status
    assert images(cluster) == {"app-0": "1", "app-1": "2", "app-2": "2"}
    assert (status.replicas, status.ready_replicas) == (3, 2)
    assert (status.current_replicas, status.updated_replicas) == (1, 2)
    assert status.current_revision != status.update_revision


def test_pods_below_the_partition_keep_their_revision(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=3, update_strategy=rolling(partition=2)))
    cluster.settle()
    change(cluster, template=template("2"))
    assert images(cluster) == {"app-0": "1", "app-1": "1", "app-2": "2"}
    delete(cluster, "app-0")
    assert images(cluster)["app-0"] == "1"
    change(cluster, updateStrategy={"rollingUpdate": {"partition": 1}})
    assert images(cluster) == {"app-0": "1", "app-1": "2", "app-2": "2"}
    status = read(cluster).status
    assert (status.current_replicas, status.updated_replicas) == (1, 2)
    change(cluster, updateStrategy={"rollingUpdate": {"partition": 0}})
    assert set(images(cluster).values()) == {"2"}


def test_partition_beyond_all_ordinals_updates_nothing(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=2, update_strategy=rolling(partition=5)))
    cluster.settle()
    change(cluster, template=template("2"))
    change(cluster, replicas=3)
    assert set(images(cluster).values()) == {"1"}
    assert read(cluster).status.updated_replicas == 0


def test_on_delete_strategy_waits_for_manual_deletion(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=2, update_strategy=StatefulSetUpdateStrategy(type="OnDelete")))
    cluster.settle()
    change(cluster, template=template("2"))
    assert images(cluster) == {"app-0": "1", "app-1": "1"}
    delete(cluster, "app-1")
    assert images(cluster) == {"app-0": "1", "app-1": "2"}
    status = read(cluster).status
    assert (status.current_replicas, status.updated_replicas) == (1, 1)


@pytest.mark.parametrize(("limit", "gone"), [(1, 1), (3, 3), ("50%", 2), ("10%", 1)])
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_update_respects_max_unavailable(cluster: Cluster, policy: str, limit: int | str, gone: int) -> None:
    kubelet = start(cluster)
    strategy = rolling(max_unavailable=limit)
    cluster.add(stateful_set(replicas=5, pod_management_policy=policy, update_strategy=strategy))
    cluster.settle()
    kubelet.lets_go = lambda _: False
    change(cluster, template=template("2"))
    cluster.advance(minutes=1)
    assert going(cluster) == [f"app-{number}" for number in range(5 - gone, 5)]
    kubelet.lets_go = lambda _: True
    cluster.advance(5)
    assert set(images(cluster).values()) == {"2"}


def test_unhealthy_pods_are_updated_beyond_the_limit_in_parallel_mode(cluster: Cluster) -> None:
    kubelet = start(cluster)
    cluster.add(stateful_set(replicas=4, pod_management_policy="Parallel"))
    cluster.settle()
    make_unready(cluster, "app-0")
    make_unready(cluster, "app-1")
    kubelet.lets_go = lambda _: False
    change(cluster, template=template("2"))
    assert going(cluster) == ["app-0", "app-1"]


def test_rollout_waits_for_a_pod_that_is_not_ready(cluster: Cluster) -> None:
    kubelet = start(cluster)
    cluster.add(stateful_set(replicas=3))
    cluster.settle()
    kubelet.runs = lambda one: image_of(one) == "1" or "2" in one.metadata.name
    change(cluster, template=template("bad"))
    cluster.advance(minutes=10)
    assert images(cluster) == {"app-0": "1", "app-1": "bad", "app-2": "bad"}
    # Going back helps only those that are not ill: a broken pod has to be deleted by hand.
    change(cluster, template=template("1"))
    cluster.advance(minutes=10)
    assert images(cluster)["app-1"] == "bad"
    delete(cluster, "app-1")
    assert images(cluster) == {"app-0": "1", "app-1": "1", "app-2": "1"}


def test_update_waits_for_available_pods(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=2, min_ready_seconds=60))
    cluster.advance(minutes=3)
    change(cluster, template=template("2"))
    cluster.advance(50)
    assert images(cluster) == {"app-0": "1", "app-1": "2"}
    cluster.advance(15)
    assert images(cluster) == {"app-0": "2", "app-1": "2"}


def test_scaling_takes_precedence_over_updates(cluster: Cluster) -> None:
    kubelet = start(cluster)
    cluster.add(stateful_set(replicas=3))
    cluster.settle()
    kubelet.lets_go = lambda _: False
    change(cluster, replicas=2, template=template("2"))
    assert going(cluster) == ["app-2"]
    kubelet.lets_go = lambda _: True
    cluster.advance(1)
    assert images(cluster) == {"app-0": "2", "app-1": "2"}


def test_missing_pod_is_recreated_with_the_revision_of_its_ordinal(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=3, update_strategy=rolling(partition=1)))
    cluster.settle()
    make_unready(cluster, "app-0")
    change(cluster, template=template("2"))
    delete(cluster, "app-0")
    assert images(cluster) == {"app-0": "1", "app-1": "2", "app-2": "2"}


# History


def test_each_template_is_a_revision_and_rollback_renumbers_it(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=1))
    cluster.settle()
    (first,) = revisions(cluster)
    change(cluster, template=template("2"))
    assert list(revisions(cluster).values()) == [1, 2]
    change(cluster, template=template("1"))
    assert revisions(cluster)[first] == 3
    assert sorted(revisions(cluster).values()) == [2, 3]
    assert read(cluster).status.current_revision == first


def test_revision_is_a_patch_that_restores_its_template(cluster: Cluster) -> None:
    start(cluster)
    owner = cluster.add(stateful_set(replicas=1, labels={"app": "app", "tier": "db"}))
    cluster.settle()
    change(cluster, template=template("2"))
    first = next(one for one in cluster.client.list(ControllerRevision, NS).items if one.revision == 1)
    hash = first.metadata.name.removeprefix("app-")
    assert dict(first.metadata.labels) == {"app": "app", "tier": "db", "controller.kubernetes.io/hash": hash}
    assert first.metadata.owner_references[0].uid == owner.metadata.uid
    patch = codec.to_plain(first.data)
    assert patch["spec"]["template"]["$patch"] == "replace"
    cluster.client.patch(StatefulSet, "app", patch, NS, type="application/strategic-merge-patch+json")
    cluster.settle()
    assert images(cluster) == {"app-0": "1"}


def test_scaling_and_other_changes_create_no_revision(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=1))
    cluster.settle()
    change(cluster, replicas=2, minReadySeconds=1, updateStrategy={"rollingUpdate": {"partition": 1}})
    assert len(revisions(cluster)) == 1


def test_revision_history_limit_is_enforced(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=1, revision_history_limit=2))
    for number in range(2, 7):
        cluster.settle()
        change(cluster, template=template(str(number)))
    assert list(revisions(cluster).values()) == [4, 5, 6]


def test_revisions_in_use_are_kept_beyond_the_limit(cluster: Cluster) -> None:
    start(cluster)
    on_delete = StatefulSetUpdateStrategy(type="OnDelete")
    cluster.add(stateful_set(replicas=2, revision_history_limit=0, update_strategy=on_delete))
    cluster.settle()
    for number in range(2, 5):
        change(cluster, template=template(str(number)))
    assert list(revisions(cluster).values()) == [1, 4]
    delete(cluster, "app-0")
    delete(cluster, "app-1")
    assert list(revisions(cluster).values()) == [4]


def test_hash_collision_changes_the_name(cluster: Cluster) -> None:
    start(cluster)
    wanted = stateful_set(replicas=1)
    made = cluster.client.create(wanted, dry_run=True)
    name = f"app-{revision_hash(revision_data(made.spec.template), 0)}"
    other = revision_data(stateful_set(image="other").spec.template)
    cluster.add(ControllerRevision(metadata=metadata(name, NS), data=Raw(other), revision=7))
    cluster.add(wanted)
    cluster.settle()
    status = read(cluster).status
    assert status.collision_count == 1
    assert status.update_revision == f"app-{revision_hash(revision_data(made.spec.template), 1)}"
    assert names(cluster) == ["app-0"]


def test_orphaned_revision_is_adopted_and_used(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=1))
    cluster.settle()
    (name,) = revisions(cluster)
    old = pods(cluster)[0].metadata.uid
    cluster.client.patch(ControllerRevision, name, {"metadata": {"ownerReferences": None}}, NS)
    cluster.settle()
    found = cluster.client.get(ControllerRevision, name, NS)
    assert found.metadata.owner_references[0].uid == read(cluster).metadata.uid
    assert pods(cluster)[0].metadata.uid == old


def test_revision_of_kube_controller_manager_is_recognized(cluster: Cluster) -> None:
    cluster.start(Kubelet(cluster).wire)
    loop = cluster.start(wire)
    cluster.add(stateful_set(replicas=1))
    cluster.settle()
    cluster.stop(loop)  # it would replace the revision
    (name,) = revisions(cluster)
    found = cluster.client.get(ControllerRevision, name, NS)
    # As older managers do: a null timestamp, and no defaults that came later.
    said = codec.to_plain(found.data)
    said["spec"]["template"]["metadata"]["creationTimestamp"] = None
    del said["spec"]["template"]["spec"]["schedulerName"]
    cluster.client.delete(ControllerRevision, name, NS)
    rewritten = ControllerRevision(
        metadata=metadata(name, NS, labels=dict(found.metadata.labels)), data=Raw(codec.encode(said)), revision=5
    )
    cluster.add(rewritten)
    cluster.start(wire)
    change(cluster, replicas=2)
    assert revisions(cluster) == {name: 5}
    assert template_of_revision(rewritten) == template_of_revision(found)
    assert {one.metadata.labels["controller-revision-hash"] for one in cluster.client.list(Pod, NS).items} == {name}


def test_recovered_pods_unblock_the_update(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(stateful_set(replicas=2))
    cluster.settle()
    make_unready(cluster, "app-0")
    change(cluster, template=template("2"))
    assert images(cluster) == {"app-0": "1", "app-1": "1"}
    make_ready(cluster, "app-0")
    assert images(cluster) == {"app-0": "2", "app-1": "2"}
