"""What the scheduler writes within the process is stored as if its patch had come over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod, PodStatus
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.scheduler.status.reporter import status_patch_fields
from kubeloop.scheduler.status.status_patch import PodStatusPatch
from kubeloop.testing import builders
from kubeloop.testing.cluster import Cluster

_NOW = "2030-01-01T00:00:00Z"


def _write(cluster: Cluster, name: str, patch: Any) -> dict[str, Any]:
    client = cluster.async_client
    pod = cluster.run(client.patch(Pod, name, patch, "default", type=STRATEGIC_PATCH, subresource="status"))
    plain = codec.to_plain(pod)
    return {"status": plain["status"], "managedFields": plain["metadata"]["managedFields"]}


@pytest.mark.parametrize("nominated", [None, "n7"])
def test_what_is_told_and_its_patch_are_stored_alike(cluster: Cluster, nominated: str | None) -> None:
    for message in ("0/3 nodes are available.", "0/4 nodes are available."):  # at first, and over what was told then
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


def test_a_first_word_needs_no_merging() -> None:
    change = status_patch_fields(builders.pod("one"), "Unschedulable", "no", "n7", _NOW)
    laid = PodStatusPatch("uid", change).laid_over(PodStatus(phase="Pending"))
    assert laid is not None
    assert (laid.phase, laid.nominated_node_name, laid.conditions[0].reason) == ("Pending", "n7", "Unschedulable")
