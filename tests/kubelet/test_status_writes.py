# SPDX-License-Identifier: Apache-2.0
"""A status that is written within the process is stored as if its patch had come over the wire."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubeloop.api import codec
from kubeloop.api.errors import Invalid
from kubeloop.api.generated.core_v1 import ContainerStatus, Pod, PodCondition, PodIP, PodStatus
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.wire import Time
from kubeloop.kubelet.status.status_manager import KubeletStatusPatch
from kubeloop.testing import builders
from kubeloop.testing.cluster import Cluster


def _after(before: PodStatus) -> PodStatus:
    return msgspec.structs.replace(
        before,
        phase="Running",
        pod_ip="10.0.0.7",
        pod_ips=(PodIP(ip="10.0.0.7"),),
        container_statuses=(ContainerStatus(name="c", image="i", ready=True),),
        conditions=(
            PodCondition(type="Ready", status="True", last_transition_time=Time("2030-01-01T00:00:00Z")),
            PodCondition(type="PodScheduled", status="True", last_transition_time=Time("2030-01-01T00:00:00Z")),
        ),
    )


def _report(cluster: Cluster, name: str, patch: Any) -> Any:
    client = cluster.async_client
    return cluster.run(client.patch(Pod, name, patch, "default", type=STRATEGIC_PATCH, subresource="status"))


def _stored_form(pod: Pod) -> dict[str, Any]:
    plain: dict[str, Any] = codec.to_plain(pod)
    return {"status": plain["status"], "managedFields": plain["metadata"]["managedFields"], "spec": plain["spec"]}


def test_change_and_its_patch_are_stored_identically(cluster: Cluster) -> None:
    one, other = (cluster.add(builders.pod(name, node="n1")) for name in ("one", "other"))
    changes = [KubeletStatusPatch(pod.metadata.uid, pod.status, _after(pod.status)) for pod in (one, other)]
    assert changes[0].apply_to(one.status) is not None
    assert _stored_form(_report(cluster, "one", changes[0])) == _stored_form(
        _report(cluster, "other", changes[1].document)
    )


def test_concurrent_changes_are_kept(cluster: Cluster) -> None:
    pod = cluster.add(builders.pod("one", node="n1"))
    _report(cluster, "one", {"status": {"nominatedNodeName": "", "message": "mine"}})
    written = _report(cluster, "one", KubeletStatusPatch(pod.metadata.uid, pod.status, _after(pod.status)))
    assert (written.status.phase, written.status.message) == ("Running", "mine")


def test_recreated_pod_is_not_written(cluster: Cluster) -> None:
    pod = cluster.add(builders.pod("one", node="n1"))
    with pytest.raises(Invalid):
        _report(cluster, "one", KubeletStatusPatch("another", pod.status, _after(pod.status)))
