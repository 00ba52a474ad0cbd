# SPDX-License-Identifier: Apache-2.0
"""Tests of events about conflicting SELinux labels on one volume."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers.selinux_warning import wire
from kubeloop.controllers.selinux_warning.uses import VolumeCache, VolumeUse, labels_conflict
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.testing import Cluster
from tests.controllers.storage import NS, claim, events_about, user_of, volume


def add_volume(cluster: Cluster, takes_label: bool = True) -> None:
    made = cluster.add(claim("c", volumeName="v"))
    reference = {"namespace": NS, "name": "c", "uid": made.metadata.uid}
    cluster.add(volume("v", hostPath=None, csi={"driver": "d", "volumeHandle": "h"}, claimRef=reference))
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"}}
    cluster.add({**driver, "spec": {"seLinuxMount": takes_label}})


def pod(name: str, level: str = "", policy: str = "", **container: Any) -> dict[str, Any]:
    made = user_of(name, "c")
    made["spec"]["containers"][0] |= {"volumeMounts": [{"name": "v0", "mountPath": "/v"}], **container}
    context: dict[str, Any] = {"seLinuxOptions": {"level": level}} if level else {}
    if policy:
        context["seLinuxChangePolicy"] = policy
    made["spec"]["securityContext"] = context
    return made


def test_conflicting_labels_record_events_on_both_pods(cluster: Cluster) -> None:
    add_volume(cluster)
    cluster.start(wire)
    cluster.add(pod("p", "s0:c1"), pod("q", "s0:c2"), pod("r", "s0:c2"))
    cluster.settle()
    what = "that uses the same volume as this pod with SELinuxLabel"
    end = "If both pods land on the same node, only one of them may access the volume."
    first = f'SELinuxLabel ":::s0:c1" conflicts with pod q {what} ":::s0:c2". {end}'
    assert f"Normal SELinuxLabelConflict: {first}" in events_about(cluster, "p")
    assert len(events_about(cluster, "p")) == 2
    assert [one.split(":")[0] for one in events_about(cluster, "q")] == ["Normal SELinuxLabelConflict"]
    lines = cluster.context.telemetry.registry.render().splitlines()
    shown = [line for line in lines if line.startswith("selinux_warning_controller_selinux_volume_conflict")]
    of = f'pod1_name="p",pod1_namespace="{NS}",pod1_value=":::s0:c1",pod2_name="q",pod2_namespace="{NS}"'
    assert any(f'{of},pod2_value=":::s0:c2",property="SELinuxLabel"}} 1' in line for line in shown)
    assert len(shown) == 4  # each as both see it


def test_conflicting_change_policies_record_events(cluster: Cluster) -> None:
    add_volume(cluster)
    cluster.start(wire)
    cluster.add(pod("p", "s0:c1"), pod("q", "s0:c1", policy="Recursive"))
    cluster.settle()
    reasons = {one.split(":")[0] for one in events_about(cluster, "q")}
    assert reasons == {"Normal SELinuxChangePolicyConflict", "Normal SELinuxLabelConflict"}


@pytest.mark.parametrize("how", ["same label", "driver takes none", "first has ended"])
def test_compatible_pods_record_no_events(cluster: Cluster, how: str) -> None:
    add_volume(cluster, takes_label=how != "driver takes none")
    cluster.start(wire)
    cluster.add(pod("p", "s0:c1"))
    cluster.settle()
    if how == "first has ended":
        cluster.client.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, NS, subresource="status")
        cluster.settle()
    cluster.add(pod("q", "s0:c1" if how == "same label" else "s0:c2"))
    cluster.settle()
    assert events_about(cluster, "p") == events_about(cluster, "q") == []


def test_driver_with_selinux_mount_support_makes_pods_conflict(cluster: Cluster) -> None:
    add_volume(cluster, takes_label=False)
    cluster.start(wire)
    cluster.add(pod("p", "s0:c1"), pod("q", "s0:c2"))
    cluster.settle()
    cluster.client.patch("csidrivers", "d", {"spec": {"seLinuxMount": True}})
    cluster.settle()
    assert events_about(cluster, "p") != []


def test_pod_with_two_labels_for_a_volume_records_an_event(cluster: Cluster) -> None:
    add_volume(cluster)
    cluster.start(wire)
    both = pod("p", "s0:c1")
    other = {"name": "d", "image": "x", "volumeMounts": [{"name": "v0", "mountPath": "/v"}]}
    both["spec"]["containers"].append({**other, "securityContext": {"seLinuxOptions": {"level": "s0:c9"}}})
    cluster.add(both)
    cluster.settle()
    message = 'Volume "v0" is mounted twice with different SELinux labels inside this pod'
    assert events_about(cluster, "p") == [f"Warning MultipleSELinuxLabels: {message}"]


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        ("", "", False),
        (":::s0:c1,c2", "u:r:t:s0:c1,c2", False),
        (":::s0:c1,c2", "u:r:t:s0:c8,c9", True),
        (":::s0:c1,c2", "", True),
        ("u:r:t:s0", "u:r:other:s0", True),
        ("u::t:s0", "u:r::s0", False),
    ],
)
def test_empty_label_parts_conflict_with_nothing_but_the_level(one: str, other: str, conflict: bool) -> None:
    assert labels_conflict(one, other) is conflict
    assert labels_conflict(other, one) is conflict


def test_deleted_pods_are_forgotten() -> None:
    uses = VolumeCache()
    uses.add_volume("v", ObjectKey("a", "p"), VolumeUse("l", "MountOption"))
    uses.delete_pod(ObjectKey("a", "p"))
    assert uses.add_volume("v", ObjectKey("a", "q"), VolumeUse("other", "Recursive")) == []
