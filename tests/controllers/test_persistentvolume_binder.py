# SPDX-License-Identifier: Apache-2.0
"""Tests of volume binding: matching, existing bindings, and lost claims."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import forbidden
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.pods.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.persistentvolume_binder import wire
from kubeloop.runtime.controller import Controller
from kubeloop.testing import Cluster
from tests.controllers.faults import ControllerProcess
from tests.controllers.storage import (
    CLASS,
    NS,
    claim,
    claim_of,
    delete_claim,
    events_about,
    phase_of_volume,
    storage_class,
    user_of,
    volume,
    volume_of,
)

RWO, ROX, RWX = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"


def taken_by(cluster: Cluster, name: str = "c") -> str:
    """The volume that a claim has, for which both have to say so."""
    found = claim_of(cluster, name)
    if found.status.phase != "Bound":
        assert found.status.phase == "Pending"
        return ""
    has = volume_of(cluster, found.spec.volume_name)
    assert has.status.phase == "Bound"
    assert has.spec.claim_ref is not None
    assert has.spec.claim_ref.uid == found.metadata.uid
    assert BIND_COMPLETED in found.metadata.annotations
    return found.spec.volume_name


def choose(cluster: Cluster, wanted: dict[str, Any], *volumes: dict[str, Any]) -> str:
    """Tests of the choice between several volumes."""
    cluster.start(wire)
    cluster.add(*volumes)
    cluster.settle()
    cluster.add(wanted)
    cluster.settle()
    return taken_by(cluster, wanted["metadata"]["name"])


def test_claim_and_volume_reference_each_other(cluster: Cluster) -> None:
    assert choose(cluster, claim("c"), volume("v", "2Gi", (RWO, ROX))) == "v"
    bound, has = claim_of(cluster, "c"), volume_of(cluster, "v")
    assert dict(bound.metadata.annotations) == {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    assert (bound.status.access_modes, dict(bound.status.capacity)) == ((RWO, ROX), {"storage": "2Gi"})
    assert has.metadata.annotations[BOUND_BY_CONTROLLER] == "yes"
    reference = has.spec.claim_ref
    assert reference is not None
    assert (reference.kind, reference.api_version, reference.name) == ("PersistentVolumeClaim", "v1", "c")
    assert events_about(cluster, "c") == []


@pytest.mark.parametrize(
    ("wanted", "volumes", "taken"),
    [
        pytest.param({"size": "3Gi"}, [("a", "9Gi"), ("b", "5Gi"), ("c", "1Gi")], "b", id="smallest that fits"),
        pytest.param({"size": "3Gi"}, [("a", "2Gi"), ("b", "1Gi")], "", id="all too small"),
        pytest.param({"size": "1Gi"}, [("b", "1Gi"), ("a", "1Gi")], "a", id="first by name among equals"),
    ],
)
def test_smallest_sufficient_volume_is_bound(
    cluster: Cluster, wanted: dict[str, Any], volumes: list[tuple[str, str]], taken: str
) -> None:
    assert choose(cluster, claim("c", **wanted), *(volume(name, size) for name, size in volumes)) == taken


def test_fewest_access_modes_take_precedence_over_size(cluster: Cluster) -> None:
    many, few = volume("many", "1Gi", (RWO, ROX, RWX)), volume("few", "5Gi", (RWO, ROX))
    assert choose(cluster, claim("c", modes=(RWO,)), many, few) == "few"


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        ({"modes": (RWX,)}, {"modes": (RWO, ROX)}),
        ({"storageClassName": ""}, {}),
        ({}, {"storageClassName": ""}),
        ({"volumeMode": "Block"}, {}),
        ({"selector": {"matchLabels": {"a": "b"}}}, {"labels": {"a": "c"}}),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, {}),
        ({"volumeAttributesClassName": "gold"}, {}),
        ({"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}}, {}),
    ],
)
def test_volume_with_one_mismatch_is_not_bound(
    cluster: Cluster, wanted: dict[str, Any], offered: dict[str, Any]
) -> None:
    assert choose(cluster, claim("c", **wanted), volume("v", **offered)) == ""


@pytest.mark.parametrize(
    "both",
    [
        {"storageClassName": ""},
        {"volumeMode": "Block"},
        {"volumeAttributesClassName": "gold", "hostPath": None, "csi": {"driver": "d", "volumeHandle": "h"}},
        {"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}},
    ],
)
def test_volume_with_all_matches_is_bound(cluster: Cluster, both: dict[str, Any]) -> None:
    wanted = {key: value for key, value in both.items() if key not in ("hostPath", "csi")}
    assert choose(cluster, claim("c", **wanted), volume("v", **both)) == "v"


def test_selector_chooses_between_matching_volumes(cluster: Cluster) -> None:
    wanted = claim("c", selector={"matchLabels": {"zone": "b"}})
    assert choose(cluster, wanted, volume("a"), volume("b", "9Gi", labels={"zone": "b"})) == "b"


def test_current_attributes_class_is_set_when_bound(cluster: Cluster) -> None:
    csi = {"driver": "d", "volumeHandle": "h"}
    offered = volume("v", volumeAttributesClassName="gold", hostPath=None, csi=csi)
    choose(cluster, claim("c", volumeAttributesClassName="gold"), offered)
    assert claim_of(cluster, "c").status.current_volume_attributes_class_name == "gold"


def test_volume_being_deleted_is_not_bound(cluster: Cluster) -> None:
    cluster.add(volume("v", finalizers=["test/kept"]))
    cluster.start(wire)
    cluster.client.delete(PersistentVolume, "v")
    cluster.add(claim("c"))
    cluster.settle()
    assert taken_by(cluster) == ""


def test_two_claims_never_bind_one_volume(cluster: Cluster) -> None:
    cluster.add(volume("v"), claim("a"), claim("b"))
    cluster.start(wire)
    cluster.advance(20)
    assert sorted((taken_by(cluster, "a"), taken_by(cluster, "b"))) == ["", "v"]


def test_many_claims_bind_distinct_volumes(cluster: Cluster) -> None:
    cluster.start(wire)
    for number in range(20):
        cluster.add(volume(f"v{number}"), claim(f"c{number}"))
    cluster.advance(30)
    assert len({taken_by(cluster, f"c{number}") for number in range(20)} - {""}) == 20


def test_pending_claim_binds_a_volume_created_later(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(claim("c", storageClassName=""))
    cluster.settle()
    assert claim_of(cluster, "c").status.phase == "Pending"
    cluster.add(volume("v", storageClassName=""))
    cluster.advance(1)
    assert taken_by(cluster) == "v"


# A volume that waits for a claim


def test_pre_bound_volume_only_binds_its_claim(cluster: Cluster) -> None:
    reserved = volume("v", claimRef={"namespace": NS, "name": "b"})
    cluster.start(wire)
    cluster.add(reserved, claim("a"))
    cluster.settle()
    assert (taken_by(cluster, "a"), phase_of_volume(cluster, "v")) == ("", "Available")
    cluster.add(claim("b"))
    cluster.settle()
    assert taken_by(cluster, "b") == "v"
    assert BOUND_BY_CONTROLLER not in volume_of(cluster, "v").metadata.annotations
    assert claim_of(cluster, "b").metadata.annotations[BOUND_BY_CONTROLLER] == "yes"


def test_pre_bound_volume_takes_precedence_over_a_smaller_one(cluster: Cluster) -> None:
    reserved = volume("big", "9Gi", claimRef={"namespace": NS, "name": "c"})
    assert choose(cluster, claim("c"), volume("small"), reserved) == "big"


def test_pre_bound_volume_can_be_of_another_class(cluster: Cluster) -> None:
    reserved = volume("v", storageClassName="other", claimRef={"namespace": NS, "name": "c"})
    assert choose(cluster, claim("c"), reserved) == "v"


def test_pre_bound_volume_that_is_too_small_is_skipped(cluster: Cluster) -> None:
    reserved = volume("small", "1Gi", claimRef={"namespace": NS, "name": "c"})
    assert choose(cluster, claim("c", "2Gi"), reserved, volume("big", "3Gi")) == "big"


def test_volume_pre_bound_to_a_former_claim_is_released(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(claim("c"), volume("v", claimRef={"namespace": NS, "name": "c", "uid": "of-another"}))
    cluster.advance(1)
    assert (taken_by(cluster), phase_of_volume(cluster, "v")) == ("", "Released")


def test_incompatible_modes_record_events_on_both(cluster: Cluster) -> None:
    cluster.start(wire)
    made = cluster.add(claim("c"))
    reference = {"namespace": NS, "name": "c", "uid": made.metadata.uid}
    cluster.add(volume("v", volumeMode="Block", claimRef=reference))
    cluster.advance(1)
    why = "due to incompatible volumeMode."
    to_claim = f'Warning VolumeMismatch: Cannot bind PersistentVolume to requested PersistentVolumeClaim "c" {why}'
    to_volume = f'Warning VolumeMismatch: Cannot bind PersistentVolume "v" to requested PersistentVolumeClaim {why}'
    assert events_about(cluster, "v") == [to_claim]
    assert to_volume in events_about(cluster, "c")
    assert taken_by(cluster) == ""


# Claims that request a volume


def test_volume_requested_by_name_is_bound_without_controller_annotation(cluster: Cluster) -> None:
    wanted = claim("c", volumeName="b")
    assert choose(cluster, wanted, volume("a"), volume("b", "5Gi")) == "b"
    assert dict(claim_of(cluster, "c").metadata.annotations) == {BIND_COMPLETED: "yes"}
    assert BOUND_BY_CONTROLLER in volume_of(cluster, "b").metadata.annotations


def test_claim_and_volume_can_be_pre_bound_to_each_other(cluster: Cluster) -> None:
    both = volume("v", claimRef={"namespace": NS, "name": "c"})
    assert choose(cluster, claim("c", volumeName="v"), both) == "v"
    assert BOUND_BY_CONTROLLER not in claim_of(cluster, "c").metadata.annotations
    assert BOUND_BY_CONTROLLER not in volume_of(cluster, "v").metadata.annotations


@pytest.mark.parametrize("offered", [("1Gi", (RWO,)), ("2Gi", (ROX,))])
def test_mutually_pre_bound_claim_and_volume_ignore_size_and_modes(
    cluster: Cluster, offered: tuple[str, tuple[str, ...]]
) -> None:
    both = volume("v", *offered, claimRef={"namespace": NS, "name": "c"})
    assert choose(cluster, claim("c", "2Gi", (RWO,), volumeName="v"), both) == "v"


def test_claim_waits_for_its_requested_volume(cluster: Cluster) -> None:
    assert choose(cluster, claim("c", volumeName="v"), volume("a")) == ""
    cluster.add(volume("v"))
    cluster.advance(1)
    assert taken_by(cluster) == "v"


def test_bound_volume_cannot_be_requested(cluster: Cluster) -> None:
    other = volume("v", claimRef={"namespace": NS, "name": "other"})
    assert choose(cluster, claim("c", volumeName="v"), other) == ""
    assert events_about(cluster, "c") == ['Warning FailedBinding: volume "v" already bound to a different claim.']


@pytest.mark.parametrize(
    ("wanted", "offered", "why"),
    [
        ({"size": "2Gi"}, {}, "requested PV is too small"),
        ({}, {"storageClassName": "other"}, "storageClassName does not match"),
        ({"volumeAttributesClassName": "gold"}, {}, "volumeAttributesClassName does not match"),
        ({"volumeMode": "Block"}, {}, "incompatible volumeMode"),
        ({"modes": (RWX,)}, {}, "incompatible accessMode"),
    ],
)
def test_unsuitable_requested_volume_records_an_event(
    cluster: Cluster, wanted: dict[str, Any], offered: dict[str, Any], why: str
) -> None:
    assert choose(cluster, claim("c", volumeName="v", **wanted), volume("v", **offered)) == ""
    assert events_about(cluster, "c") == [f'Warning VolumeMismatch: Cannot bind to requested volume "v": {why}']


# Existing bindings


def bound(cluster: Cluster) -> None:
    assert choose(cluster, claim("c"), volume("v")) == "v"


def test_claim_with_a_missing_volume_is_lost(cluster: Cluster) -> None:
    bound(cluster)
    cluster.client.patch(PersistentVolume, "v", {"metadata": {"finalizers": None}})
    cluster.client.delete(PersistentVolume, "v")
    cluster.settle()
    lost = claim_of(cluster, "c")
    assert (lost.status.phase, lost.status.access_modes, dict(lost.status.capacity)) == ("Lost", (), {})
    message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    assert events_about(cluster, "c") == [f"Warning ClaimLost: {message}"]


def test_lost_claim_rebinds_when_its_volume_returns(cluster: Cluster) -> None:
    bound(cluster)
    cluster.client.patch(PersistentVolume, "v", {"metadata": {"finalizers": None}})
    cluster.client.delete(PersistentVolume, "v")
    cluster.advance(20)
    cluster.add(volume("v"))
    cluster.advance(1)
    assert taken_by(cluster) == "v"


def test_claim_whose_volume_is_bound_to_another_is_lost(cluster: Cluster) -> None:
    bound(cluster)
    other = {"spec": {"claimRef": {"name": "other", "uid": "of-another"}}}
    cluster.client.patch(PersistentVolume, "v", other)
    cluster.settle()
    assert claim_of(cluster, "c").status.phase == "Lost"
    message = "Two claims are bound to the same volume, this one is bound incorrectly"
    assert events_about(cluster, "c") == [f"Warning ClaimMisbound: {message}"]


def test_unbound_volume_of_a_bound_claim_is_rebound(cluster: Cluster) -> None:
    bound(cluster)
    cluster.client.patch(PersistentVolume, "v", {"spec": {"claimRef": None}})
    cluster.advance(1)
    assert taken_by(cluster) == "v"


def test_capacity_of_a_bound_claim_is_not_rewritten(cluster: Cluster) -> None:
    bound(cluster)
    cluster.client.patch(PersistentVolume, "v", {"spec": {"capacity": {"storage": "8Gi"}}})
    cluster.settle()
    assert dict(claim_of(cluster, "c").status.capacity) == {"storage": "1Gi"}


def test_pre_resize_capacity_is_used_during_expansion(cluster: Cluster) -> None:
    annotations = {"volume.alpha.kubernetes.io/pre-resize-capacity": "2Gi"}
    choose(cluster, claim("c"), volume("v", "5Gi", annotations=annotations))
    assert dict(claim_of(cluster, "c").status.capacity) == {"storage": "2Gi"}


def test_volume_whose_claim_bound_another_is_released(cluster: Cluster) -> None:
    bound(cluster)
    uid = claim_of(cluster, "c").metadata.uid
    mark = {BOUND_BY_CONTROLLER: "yes"}
    cluster.add(volume("extra", annotations=mark, claimRef={"namespace": NS, "name": "c", "uid": uid}))
    cluster.settle()
    extra = volume_of(cluster, "extra")
    assert (extra.status.phase, extra.spec.claim_ref) == ("Available", None)
    assert BOUND_BY_CONTROLLER not in extra.metadata.annotations


def test_manually_reserved_volume_stays_reserved(cluster: Cluster) -> None:
    bound(cluster)
    uid = claim_of(cluster, "c").metadata.uid
    cluster.add(volume("extra", claimRef={"namespace": NS, "name": "c", "uid": uid}))
    cluster.settle()
    extra = volume_of(cluster, "extra")
    assert extra.spec.claim_ref is not None
    assert (extra.status.phase, extra.spec.claim_ref.name, extra.spec.claim_ref.uid) == ("Available", "c", "")


def test_recreated_claim_does_not_inherit_the_volume(cluster: Cluster) -> None:
    bound(cluster)
    delete_claim(cluster, "c")
    cluster.add(claim("c"))
    cluster.advance(20)
    assert (taken_by(cluster), phase_of_volume(cluster, "v")) == ("", "Released")


# Classes


def test_claim_without_class_gets_a_later_default_class(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(claim("c", storageClassName=None), claim("none", storageClassName=""))
    cluster.settle()
    why = "no persistent volumes available for this claim and no storage class is set"
    assert events_about(cluster, "c") == [f"Normal FailedBinding: {why}"]
    cluster.add(storage_class("std", default=True))
    cluster.advance(1)
    assert claim_of(cluster, "c").spec.storage_class_name == "std"
    assert claim_of(cluster, "none").spec.storage_class_name == ""


def test_newest_default_class_is_used(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(claim("c", storageClassName=None))
    cluster.add(storage_class("old", default=True))
    cluster.advance(1)
    cluster.add(storage_class("new", default=True), storage_class("plain"))
    cluster.advance(1)
    cluster.add(claim("later", storageClassName=None))
    cluster.settle()
    assert [claim_of(cluster, one).spec.storage_class_name for one in ("c", "later")] == ["old", "new"]


def test_claim_that_waits_for_first_consumer_records_an_event(cluster: Cluster) -> None:
    cluster.add(storage_class(CLASS, volumeBindingMode="WaitForFirstConsumer"), volume("v"))
    cluster.start(wire)
    cluster.add(claim("c"))
    cluster.settle()
    first = "Normal WaitForFirstConsumer: waiting for first consumer to be created before binding"
    assert (taken_by(cluster), events_about(cluster, "c")) == ("", [first])
    cluster.add(user_of("p", "c"))
    cluster.advance(20)
    assert events_about(cluster, "c")[-1] == "Normal WaitForPodScheduled: waiting for pod p to be scheduled"
    cluster.add(user_of("q", "c"))
    cluster.advance(20)
    assert events_about(cluster, "c")[-1] == "Normal WaitForPodScheduled: waiting for pods p,q to be scheduled"


def test_volume_reserved_by_the_scheduler_is_bound(cluster: Cluster) -> None:
    cluster.add(storage_class(CLASS, volumeBindingMode="WaitForFirstConsumer"), volume("v"))
    cluster.start(wire)
    made = cluster.add(claim("c"))
    cluster.settle()
    reference = {"namespace": NS, "name": "c", "uid": made.metadata.uid, "kind": "PersistentVolumeClaim"}
    patch = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}, "spec": {"claimRef": reference}}
    cluster.client.patch(PersistentVolume, "v", patch)
    cluster.settle()
    assert taken_by(cluster) == "v"


# Trouble


def test_binding_survives_conflicts_and_lost_responses(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(volume("v"))
    cluster.settle()
    cluster.faults.conflict("patch", "persistentvolumes", times=2)
    cluster.faults.lose_answers("patch", "persistentvolumeclaims", times=2)
    cluster.add(claim("c"))
    cluster.advance(60)
    assert taken_by(cluster) == "v"


def test_update_permission_is_sufficient_to_bind(cluster: Cluster) -> None:
    cluster.faults.fail("patch", "", forbidden("", "persistentvolumes", "", "patches are not allowed"), times=None)
    assert choose(cluster, claim("c"), volume("v")) == "v"


def test_unchanged_objects_are_not_written(cluster: Cluster) -> None:
    bound(cluster)
    before = (claim_of(cluster, "c").metadata.resource_version, volume_of(cluster, "v").metadata.resource_version)
    cluster.advance(hours=30)
    found = cluster.client.get(PersistentVolumeClaim, "c", NS)
    assert (found.metadata.resource_version, volume_of(cluster, "v").metadata.resource_version) == before


def test_late_binding_does_not_take_a_volume_from_another_claim(cluster: Cluster) -> None:
    """A delayed process assumes that the volume is still available."""
    cluster.start(wire)
    cluster.add(volume("v"))
    cluster.settle()
    cluster.faults.delay(10, "patch", "persistentvolumes")
    cluster.add(claim("a"))
    cluster.settle()
    made = cluster.add(claim("b"))
    reference = {"namespace": NS, "name": "b", "uid": made.metadata.uid}
    cluster.client.patch(PersistentVolume, "v", {"spec": {"claimRef": reference}})
    cluster.advance(60)
    assert (taken_by(cluster, "a"), taken_by(cluster, "b")) == ("", "v")


def wire_other(context: ControllerContext) -> Controller[Any]:
    """Second binder; controllers of one name cannot run twice."""
    loop = wire(context)
    loop.name = "another binder"
    return loop


def test_stale_claim_cache_does_not_undo_a_release(cluster: Cluster) -> None:
    """Two binders are leading, as may happen when the leader changes."""
    cluster.add(volume("v", persistentVolumeReclaimPolicy="Retain"), claim("c"))
    ControllerProcess(cluster, wire)
    cluster.advance(1)
    assert taken_by(cluster) == "v"
    cluster.faults.delay(60, "watch", "persistentvolumeclaims")
    cluster.faults.drop_watches("persistentvolumeclaims")
    cluster.advance(5)
    delete_claim(cluster, "c")
    ControllerProcess(cluster, wire_other)
    cluster.advance(5)
    assert phase_of_volume(cluster, "v") == "Released"
