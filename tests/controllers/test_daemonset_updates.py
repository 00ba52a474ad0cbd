# SPDX-License-Identifier: Apache-2.0
"""Tests of DaemonSet updates: limits, surge, OnDelete, and revision history."""

from __future__ import annotations

import pytest
from msgspec import Raw

from kubeloop.api import codec
from kubeloop.api.generated.apps_v1 import ControllerRevision, DaemonSet, DaemonSetUpdateStrategy
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers.daemonset import wire
from kubeloop.controllers.daemonset.nodes import target_node_of
from kubeloop.controllers.shared.ownership.controller_revisions import revision_data
from kubeloop.controllers.shared.ownership.template_hash import template_hash
from kubeloop.testing import Cluster, daemon_set, metadata
from tests.controllers.daemon_sets import (
    NS,
    add_node,
    by_node,
    change,
    change_node,
    counts,
    event_messages,
    pods,
    read,
    revisions,
    rolling,
    start,
    taint,
    template,
)
from tests.controllers.kubelet import Kubelet, image_of
from tests.controllers.replicas import as_account

FOUR = ("a", "b", "c", "d")


def going(cluster: Cluster) -> int:
    return sum(one.metadata.deletion_timestamp is not None for one in pods(cluster))


# Replacing


def test_update_replaces_all_pods(cluster: Cluster) -> None:
    start(cluster, *FOUR)
    cluster.add(daemon_set())
    cluster.settle()
    change(cluster, template=template("2"))
    assert by_node(cluster) == {key: ["2"] for key in FOUR}
    assert counts(read(cluster)) == (4, 4, 0, 4, 4, 4, 0)
    assert read(cluster).status.observed_generation == 2
    assert len(event_messages(cluster, "SuccessfulDelete")) == 4


@pytest.mark.parametrize(("limit", "gone"), [(1, 1), (2, 2), ("30%", 2), ("100%", 4)])
def test_update_respects_max_unavailable(cluster: Cluster, limit: int | str, gone: int) -> None:
    kubelet = start(cluster, *FOUR)
    cluster.add(daemon_set(update_strategy=rolling(limit)))
    cluster.settle()
    kubelet.lets_go = lambda _: False
    change(cluster, template=template("2"))
    cluster.advance(minutes=1)
    assert going(cluster) == gone
    kubelet.lets_go = lambda _: True
    cluster.advance(5)
    assert by_node(cluster) == {key: ["2"] for key in FOUR}


def test_update_stops_if_new_pods_are_not_ready(cluster: Cluster) -> None:
    kubelet = start(cluster, *FOUR)
    cluster.add(daemon_set())
    cluster.settle()
    kubelet.runs = lambda one: image_of(one) != "bad"
    change(cluster, template=template("bad"))
    cluster.advance(minutes=10)
    assert sorted(map(tuple, by_node(cluster).values())) == [("1",), ("1",), ("1",), ("bad",)]
    assert counts(read(cluster)) == (4, 4, 0, 3, 1, 3, 1)
    change(cluster, template=template("1"))
    assert by_node(cluster) == {key: ["1"] for key in FOUR}


def test_unavailable_old_pods_are_replaced_beyond_the_limit(cluster: Cluster) -> None:
    kubelet = start(cluster, *FOUR)
    kubelet.runs = lambda one: target_node_of(one) == "a"
    cluster.add(daemon_set())
    cluster.settle()
    kubelet.lets_go = lambda _: False
    change(cluster, template=template("2"))
    assert by_node(cluster) == {"a": ["1"]}
    assert going(cluster) == 3


def test_update_waits_for_available_pods(cluster: Cluster) -> None:
    start(cluster, "a", "b")
    cluster.add(daemon_set(min_ready_seconds=60))
    cluster.advance(minutes=2)
    change(cluster, template=template("2"))
    cluster.advance(50)
    assert sorted(map(tuple, by_node(cluster).values())) == [("1",), ("2",)]
    cluster.advance(15)
    assert by_node(cluster) == {"a": ["2"], "b": ["2"]}


def test_on_delete_strategy_waits_for_manual_deletion(cluster: Cluster) -> None:
    start(cluster, "a", "b")
    cluster.add(daemon_set(update_strategy=DaemonSetUpdateStrategy(type="OnDelete")))
    cluster.settle()
    change(cluster, template=template("2"))
    assert by_node(cluster) == {"a": ["1"], "b": ["1"]}
    assert counts(read(cluster)) == (2, 2, 0, 2, 0, 2, 0)
    on_a = next(one for one in pods(cluster) if one.spec.node_name == "a")
    cluster.client.delete(Pod, on_a.metadata.name, NS)
    cluster.settle()
    assert by_node(cluster) == {"a": ["2"], "b": ["1"]}


# Surging


def test_surge_creates_the_new_pod_before_deleting_the_old_one(cluster: Cluster) -> None:
    kubelet = start(cluster, *FOUR)
    cluster.add(daemon_set(update_strategy=rolling(0, 2)))
    cluster.advance(10)  # so that the old ones are older
    kubelet.runs = lambda one: image_of(one) == "1"
    change(cluster, template=template("2"))
    cluster.advance(minutes=1)
    assert sorted(map(tuple, by_node(cluster).values())) == [("1",), ("1",), ("1", "2"), ("1", "2")]
    assert counts(read(cluster))[:6] == (4, 4, 0, 4, 0, 4)
    kubelet.runs = lambda _: True
    cluster.advance(5)
    assert by_node(cluster) == {key: ["2"] for key in FOUR}


def test_surge_counts_unavailable_old_pods(cluster: Cluster) -> None:
    kubelet = start(cluster, *FOUR)
    kubelet.runs = lambda one: target_node_of(one) == "a"
    cluster.add(daemon_set(update_strategy=rolling(0, 1)))
    cluster.settle()
    change(cluster, template=template("2"))
    cluster.advance(1)
    assert by_node(cluster) == {"a": ["2"], "b": ["2"], "c": ["2"], "d": ["2"]}


def test_surge_deletes_an_old_pod_only_if_another_is_available(cluster: Cluster) -> None:
    kubelet = start(cluster, "a", "b")
    change_node(cluster, "a", metadata={"labels": {"zone": "x"}})
    change_node(cluster, "b", metadata={"labels": {"zone": "y"}})
    cluster.add(daemon_set(update_strategy=rolling(0, 1)))
    cluster.settle()
    change(cluster, template=template("1", nodeSelector={"zone": "x"}))
    assert by_node(cluster) == {"a": ["1"]}
    kubelet.runs = lambda _: False
    change(cluster, template=template("1", nodeSelector={"zone": "y"}))
    assert "b" in by_node(cluster)


def test_surge_replaces_a_terminating_pod_immediately(cluster: Cluster) -> None:
    kubelet = start(cluster, "a")
    cluster.add(daemon_set(update_strategy=rolling(0, 1)))
    cluster.settle()
    kubelet.lets_go = lambda _: False
    cluster.client.delete(Pod, pods(cluster)[0].metadata.name, NS)
    cluster.settle()
    assert by_node(cluster) == {"a": ["1"]}
    assert len(pods(cluster)) == 2


# History


def test_each_template_is_a_revision_and_rollback_renumbers_it(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set())
    cluster.settle()
    (first,) = revisions(cluster)
    change(cluster, template=template("2"))
    assert list(revisions(cluster).values()) == [1, 2]
    undo = codec.to_plain(cluster.client.get(ControllerRevision, first, NS).data)
    cluster.client.patch(DaemonSet, "app", undo, NS, type="application/strategic-merge-patch+json")
    cluster.settle()
    assert revisions(cluster)[first] == 3
    assert by_node(cluster) == {"a": ["1"]}


def test_revision_has_owner_and_pod_labels(cluster: Cluster) -> None:
    start(cluster, "a")
    owner = cluster.add(daemon_set())
    cluster.settle()
    (found,) = cluster.client.list(ControllerRevision, NS).items
    hash = found.metadata.name.removeprefix("app-")
    assert dict(found.metadata.labels) == {"app": "app", "controller-revision-hash": hash}
    assert dict(found.metadata.annotations) == {"deprecated.daemonset.template.generation": "1"}
    assert found.metadata.owner_references[0].uid == owner.metadata.uid


def test_revision_history_limit_is_enforced(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set(revision_history_limit=1))
    cluster.settle()
    for number in range(2, 6):
        change(cluster, template=template(str(number)))
    assert list(revisions(cluster).values()) == [4, 5]


def test_revisions_in_use_are_kept_beyond_the_limit(cluster: Cluster) -> None:
    start(cluster, "a")
    on_delete = DaemonSetUpdateStrategy(type="OnDelete")
    cluster.add(daemon_set(revision_history_limit=0, update_strategy=on_delete))
    cluster.settle()
    for number in range(2, 5):
        change(cluster, template=template(str(number)))
    assert list(revisions(cluster).values()) == [1, 4]


def test_hash_collision_changes_the_name(cluster: Cluster) -> None:
    start(cluster, "a")
    wanted = daemon_set()
    made = cluster.client.create(wanted, dry_run=True)
    name = f"app-{template_hash(made.spec.template)}"
    other = revision_data(daemon_set(image="other").spec.template)
    cluster.add(ControllerRevision(metadata=metadata(name, NS), data=Raw(other), revision=7))
    cluster.add(wanted)
    cluster.settle()
    assert read(cluster).status.collision_count == 1
    assert by_node(cluster) == {"a": ["1"]}
    assert f"app-{template_hash(made.spec.template, 1)}" in revisions(cluster)


def test_duplicate_revisions_are_merged_and_keep_their_pods(cluster: Cluster) -> None:
    start(cluster, "a")
    cluster.add(daemon_set())
    cluster.settle()
    (first,) = cluster.client.list(ControllerRevision, NS).items
    (old,) = pods(cluster)
    double = ControllerRevision(metadata=metadata("app-double", NS, labels={"app": "app"}), data=first.data, revision=9)
    cluster.add(double)
    cluster.settle()
    assert revisions(cluster) == {"app-double": 9}
    (found,) = pods(cluster)
    assert found.metadata.uid == old.metadata.uid
    assert found.metadata.labels["controller-revision-hash"] == "app-double"


def test_upstreams_role_is_sufficient(cluster: Cluster) -> None:
    add_node(cluster, "a")
    cluster.start(Kubelet(cluster).wire)
    context = as_account(cluster, "daemon-set-controller")
    cluster.start(lambda _: wire(context))
    cluster.add(daemon_set(revision_history_limit=0))
    cluster.settle()
    change(cluster, template=template("2"))
    taint(cluster, "a", "NoSchedule")
    assert by_node(cluster) == {"a": ["2"]}
    assert counts(read(cluster))[2] == 1
    assert list(revisions(cluster).values()) == [2]


def test_changed_tolerations_change_nodes_during_surge(cluster: Cluster) -> None:
    """Upstream: TestDaemonSetRollingUpdateWithTolerations.

    A pod that no longer fits its node stays until pods elsewhere serve; then as many run as there are nodes that fit.
    """
    kubelet = start(cluster, *(f"{zone}{number}" for zone in "yzc" for number in range(2)))
    for zone, number in ((zone, number) for zone in "yzc" for number in range(2)):
        taint(cluster, f"{zone}{number}", "NoSchedule", key=f"zone-{zone}")

    def tolerating(zones: str) -> list[dict[str, str]]:
        return [{"key": f"zone-{zone}", "operator": "Exists"} for zone in zones]

    made = daemon_set(update_strategy=rolling(max_surge=1, max_unavailable=0))
    plain = codec.to_plain(made)
    plain["spec"]["template"]["spec"]["tolerations"] = tolerating("yc")
    cluster.client.create(plain)
    cluster.settle()
    assert list(by_node(cluster)) == ["c0", "c1", "y0", "y1"]
    kubelet.runs = lambda _: False
    change(cluster, template=template("2", tolerations=tolerating("zc")))
    new = {name: images.count("2") for name, images in by_node(cluster).items()}
    assert (sum(map(len, by_node(cluster).values())), sum(new.values())) == (7, 3)
    assert (new["z0"], new["z1"], new["y0"], new["y1"]) == (1, 1, 0, 0)
    kubelet.runs = lambda _: True
    for one in pods(cluster):
        cluster.client.patch(Pod, one.metadata.name, {"metadata": {"annotations": {"look": "again"}}}, NS)
    cluster.advance(minutes=2)
    assert by_node(cluster) == {"c0": ["2"], "c1": ["2"], "z0": ["2"], "z1": ["2"]}
    change(cluster, template=template("3", tolerations=None))
    cluster.advance(minutes=2)
    assert (by_node(cluster), counts(read(cluster))) == ({}, (0, 0, 0, 0, 0, 0, 0))
