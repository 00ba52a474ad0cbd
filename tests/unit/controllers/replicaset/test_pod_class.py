# SPDX-License-Identifier: Apache-2.0
"""Pods that look alike to their set are kept together."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Pod, PodSpec, PodStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.scalars.wire import Time
from kubeloop.api.selectors import selector_from_set
from kubeloop.controllers.replicaset.pod_class import (
    count_pods,
    group_by_class,
    group_key_of,
    pod_class_of,
    pods_in_state,
    select_pods,
)


def pod(name: str = "a", *, phase: str = "Running", owner: str = "ReplicaSet", gone: str = "", **labels: str) -> Pod:
    references = (OwnerReference(kind=owner, uid="u", controller=True),) if owner else ()
    meta = ObjectMeta(name=name, labels=labels, owner_references=references)
    if gone:
        meta = ObjectMeta(name=name, labels=labels, owner_references=references, deletion_timestamp=Time(gone))
    return Pod(metadata=meta, spec=PodSpec(node_name="n"), status=PodStatus(phase=phase))


def test_only_pods_of_replica_sets_and_controllers_are_tracked() -> None:
    found = {kind: group_key_of(pod(owner=kind)) for kind in ("ReplicaSet", "ReplicationController", "Job", "")}
    assert [kind for kind, place in found.items() if place is not None and place.group == "u"] == [
        "ReplicaSet",
        "ReplicationController",
    ]


def test_names_are_ignored_but_labels_and_state_are_not() -> None:
    assert pod_class_of(pod("a", app="x")) == pod_class_of(pod("b", app="x"))
    assert pod_class_of(pod(app="x")) != pod_class_of(pod(app="y"))
    assert pod_class_of(pod(gone="2026-01-01T00:00:00Z")).state == "terminating"
    assert (
        pod_class_of(pod(gone="2026-01-01T00:00:00Z", phase="Failed")).state
        == pod_class_of(pod(phase="Succeeded")).state
    )


def test_nodes_of_inactive_pods_are_ignored() -> None:
    here, there = pod(phase="Failed"), Pod(spec=PodSpec(node_name="m"), status=PodStatus(phase="Failed"))
    assert pod_class_of(here) == pod_class_of(there)


def test_pods_are_selected_by_class() -> None:
    pods = group_by_class(pod("a", app="x"), pod("b", app="x"), pod("c", app="y"), pod("d", app="x", phase="Failed"))
    active = pods_in_state(select_pods(pods, selector_from_set({"app": "x"})), "active")
    assert [[one.metadata.name for one in alike] for alike in active.values()] == [["a", "b"]]
    assert count_pods(active) == 2
