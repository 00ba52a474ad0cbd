# SPDX-License-Identifier: Apache-2.0
"""Tests of queueing hints for volumes and devices."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.scheduler.framework.plugin import Plugin
from kubeloop.scheduler.plugins.dynamic_resources import DynamicResources
from kubeloop.scheduler.plugins.volumes.node_volume_limits import NodeVolumeLimits
from kubeloop.scheduler.plugins.volumes.volume_binding import VolumeBinding
from kubeloop.scheduler.plugins.volumes.volume_restrictions import VolumeRestrictions
from kubeloop.scheduler.plugins.volumes.volume_zone import VolumeZone
from kubeloop.scheduler.queue.cluster_event import NODE, ActionType
from tests.unit.scheduler.queue.hint_cases import (
    NO,
    YES,
    ZONE,
    ObjectChange,
    Row,
    add,
    attachment,
    capacity,
    claim,
    csi_node,
    delete,
    device_class,
    devices,
    driver,
    ended,
    helps,
    itself,
    migrating,
    node,
    node_came,
    pod,
    storage_class,
    update,
    volume,
    with_claim,
    with_devices,
    with_volume,
)

EBS = "ebs.csi.aws.com"
DISK = {"gcePersistentDisk": {"pdName": "disk"}}
INLINE = {"awsElasticBlockStore": {"volumeID": "vol-1"}}

OF_VOLUMES: dict[str, Row] = {
    "the disk is free again": (
        VolumeRestrictions, with_volume(**DISK), ended(pod("o", on="n1", volumes=[{"name": "v", **DISK}])), YES,
    ),
    "another disk is free": (
        VolumeRestrictions, with_volume(**DISK),
        ended(pod("o", on="n1", volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "other"}}])), NO,
    ),
    "somebody else with the same claim ends": (VolumeRestrictions, with_claim("c"), ended(with_claim("c", "n1")), YES),
    "its claim comes": (VolumeRestrictions, with_claim("c"), add(claim("c")), YES),
    "another claim comes": (VolumeRestrictions, with_claim("c"), add(claim("d")), NO),
    "a claim of its name comes elsewhere": (VolumeRestrictions, with_claim("c"), add(claim("c", "else")), NO),
    "a claim changes, which does not change its use": (
        VolumeRestrictions, with_claim("c"), update(claim("c"), claim("c")), NO,
    ),
    "a node comes for the disk": (VolumeRestrictions, with_volume(**DISK), node_came(node()), YES),
    "its claim gets a volume": (VolumeZone, with_claim("c"), update(claim("c"), claim("c")), YES),
    "another's claim gets a volume": (VolumeZone, with_claim("c"), update(claim("d"), claim("d")), NO),
    "a volume comes": (VolumeZone, with_claim("c"), add(volume(zone="east")), YES),
    "a volume's zone changes": (VolumeZone, with_claim("c"), update(volume(zone="east"), volume(zone="west")), YES),
    "a volume's other labels change": (
        VolumeZone, with_claim("c"), update(volume(zone="east"), volume(zone="east", other="x")), NO,
    ),
    "a class comes that waits for pods": (VolumeZone, with_claim("c"), add(storage_class()), YES),
    "a class comes that does not wait": (VolumeZone, with_claim("c"), add(storage_class("Immediate")), NO),
    "a node is labelled": (
        VolumeZone, with_claim("c"), update(node(), node(labels={ZONE: "e"}), ActionType.NODE_LABEL, NODE), YES,
    ),
    "a class comes to make volumes": (VolumeBinding, with_claim("c"), add(storage_class()), YES),
    "a class makes volumes elsewhere": (
        VolumeBinding, with_claim("c"),
        update(storage_class("WaitForFirstConsumer", "east"), storage_class("WaitForFirstConsumer", "west")), YES,
    ),
    "a class makes volumes where it did": (
        VolumeBinding, with_claim("c"), update(storage_class(), storage_class("Immediate")), NO,
    ),
    "its claim changes": (VolumeBinding, with_claim("c"), update(claim("c"), claim("c")), YES),
    "the claim of its own volume comes": (
        VolumeBinding, with_volume(ephemeral={"volumeClaimTemplate": {"spec": {}}}), add(claim("web-v")), YES,
    ),
    "another's claim changes": (VolumeBinding, with_claim("c"), update(claim("d"), claim("d")), NO),
    "any volume may be the one": (VolumeBinding, with_claim("c"), update(volume(), volume()), YES),
    "any node may reach it": (VolumeBinding, with_claim("c"), node_came(node()), YES),
    "a node's drivers come": (VolumeBinding, with_claim("c"), add(csi_node({})), YES),
    "a node's drivers answer for more": (VolumeBinding, with_claim("c"), update(migrating("a"), migrating("a,b")), YES),
    "a node's drivers answer for the same": (
        VolumeBinding, with_claim("c"), update(csi_node({}), csi_node({"d": 3})), NO,
    ),
    "its driver does not mind room any more": (
        VolumeBinding, with_volume(csi={"driver": "d"}), update(driver(YES), driver(NO)), YES,
    ),
    "its driver never minded": (VolumeBinding, with_volume(csi={"driver": "d"}), update(driver(None), driver(NO)), NO),
    "its driver comes to mind": (VolumeBinding, with_volume(csi={"driver": "d"}), update(driver(NO), driver(YES)), NO),
    "another's driver does not mind any more": (
        VolumeBinding, with_volume(csi={"driver": "d"}), update(driver(YES, "e"), driver(NO, "e")), NO,
    ),
    "room for volumes is told of": (VolumeBinding, with_claim("c"), add(capacity(None)), YES),
    "there is more room": (VolumeBinding, with_claim("c"), update(capacity("1Gi"), capacity("2Gi")), YES),
    "there is room where none was told of": (
        VolumeBinding, with_claim("c"), update(capacity(None), capacity("1Gi")), YES,
    ),
    "there is less room": (VolumeBinding, with_claim("c"), update(capacity("2Gi"), capacity("1Gi")), NO),
    "there is more room, but volumes are no larger": (
        VolumeBinding, with_claim("c"), update(capacity("2Gi", "1Gi"), capacity("9Gi", "1Gi")), NO,
    ),
    "volumes may be larger": (
        VolumeBinding, with_claim("c"), update(capacity("9Gi", "1Gi"), capacity("9Gi", "2Gi")), YES,
    ),
    "a pod with volumes ends": (NodeVolumeLimits, with_claim("c"), ended(with_claim("d", "n1")), YES),
    "a pod without volumes ends": (NodeVolumeLimits, with_claim("c"), ended(pod("o", on="n1")), NO),
    "a claim that was missing comes": (NodeVolumeLimits, with_claim("c"), add(claim("c")), YES),
    "some other claim comes": (NodeVolumeLimits, with_claim("c"), add(claim("d")), NO),
    "limits come": (NodeVolumeLimits, with_claim("c"), add(csi_node({"d": 1})), YES),
    "a limit is raised": (NodeVolumeLimits, with_claim("c"), update(csi_node({"d": 1}), csi_node({"d": 2})), YES),
    "a limit is lowered": (NodeVolumeLimits, with_claim("c"), update(csi_node({"d": 2}), csi_node({"d": 1})), NO),
    "a driver comes that was missing": (
        NodeVolumeLimits, with_claim("c"), update(csi_node({}), csi_node({"d": None})), YES,
    ),
    "a claim's volume may be the one that is detached": (
        NodeVolumeLimits, with_claim("c"), delete(attachment("any.example.com")), YES,
    ),
    "a disk of the same driver is detached": (NodeVolumeLimits, with_volume(**INLINE), delete(attachment(EBS)), YES),
    "a disk of another driver is detached": (
        NodeVolumeLimits, with_volume(**INLINE), delete(attachment("other.example.com")), NO,
    ),
    "a disk is detached, and the pod has none": (NodeVolumeLimits, pod(), delete(attachment(EBS)), NO),
}  # fmt: skip


@pytest.mark.parametrize(("plugin", "refused", "change", "does"), OF_VOLUMES.values(), ids=OF_VOLUMES)
def test_queueing_hint_of_volume_events(plugin: type[Plugin], refused: Pod, change: ObjectChange, does: bool) -> None:
    assert helps(plugin, refused, change) is does


@pytest.mark.parametrize(
    ("refused", "change", "does"),
    [
        (with_devices("mine"), delete(devices("other", given=True)), YES),  # they may be had now
        (with_devices("mine"), delete(devices("other")), NO),
        (with_devices("mine"), update(devices("other", given=True), devices("other")), YES),
        (with_devices("missing"), update(devices("other", given=True), devices("other")), NO),  # it has to wait anyway
        (with_devices("mine"), add(devices("mine")), YES),
        (with_devices("mine"), add(devices("other")), NO),
        (with_devices("mine"), update(devices("mine"), devices("mine", users=1)), YES),
        (with_devices("mine"), update(devices("mine"), devices("mine")), NO),
        (with_devices("mine"), update(devices("other"), devices("other", users=1)), NO),
        (with_devices("mine"), add(device_class("gpu")), YES),
        (with_devices("mine"), node_came(node()), YES),
        (
            with_devices(),
            itself(with_devices(), with_devices(), ActionType.POD_GENERATED_RESOURCE_CLAIM),
            NO,
        ),  # not all are made yet
        (with_devices("mine"), itself(pod(), with_devices("mine"), ActionType.POD_GENERATED_RESOURCE_CLAIM), YES),
    ],
)
def test_queueing_hint_of_claims_and_released_devices(refused: Pod, change: ObjectChange, does: bool) -> None:
    assert helps(DynamicResources, refused, change, around=(devices("mine"),)) is does
