# SPDX-License-Identifier: Apache-2.0
"""Checks that in-process status writes are stored like patches over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod, PodStatus
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.scheduler.status.reporter import PodStatusPatch, status_patch_fields
from kubeloop.testing import builders
from kubeloop.testing.cluster import Cluster

_NOW = "2030-01-01T00:00:00Z"


def _write(cluster: Cluster, name: str, patch: Any) -> dict[str, Any]:
    client = cluster.async_client
    pod = cluster.run(client.patch(Pod, name, patch, "default", type=STRATEGIC_PATCH, subresource="status"))
    plain = codec.to_plain(pod)
    return {"status": plain["status"], "managedFields": plain["metadata"]["managedFields"]}


@pytest.mark.parametrize("nominated", [None, "n7"])
def test_status_and_its_patch_are_stored_identically(cluster: Cluster, nominated: str | None) -> None:
    # first without, then over an earlier status
    for message in ("0/3 nodes are available.", "0/4 nodes are available."):
        written = []
        for name in ("one", "other"):
            if message.startswith("0/3"):
                cluster.add(builders.pod(name))
            pod = cluster.client.get(Pod, name, "default")
            change = status_patch_fields(pod, "Unschedulable", message, nominated, _NOW)
            told = PodStatusPatch(pod.metadata.uid, change)
            written.append(_write(cluster, name, told if name == "one" else told.document))
        assert written[0] == written[1]
        assert written[0]["status"]["conditions"][0]["message"] == message


def test_first_status_needs_no_merge() -> None:
    change = status_patch_fields(builders.pod("one"), "Unschedulable", "no", "n7", _NOW)
    laid = PodStatusPatch("uid", change).apply_to(PodStatus(phase="Pending"))
    assert laid is not None
    assert (laid.phase, laid.nominated_node_name, laid.conditions[0].reason) == ("Pending", "n7", "Unschedulable")
