# SPDX-License-Identifier: Apache-2.0
"""Rules of the resize subresource: only cpu and memory may change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, updates

POD = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1"}}}]}}
C = "spec.containers.0."
SIZE = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
RESTART = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
RUNNING = {"name": "c", "ready": True, "restartCount": 0, "image": "i", "imageID": "i", "state": {
    "running": {"startedAt": "2026-01-01T00:00:00Z"}}}  # fmt: skip


def sized(requests: dict[str, str], limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": "i", "image": "i", "resources": {"requests": requests, "limits": limits or {}}}


CASES = [
    *updates("pods", POD, [
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "m"}}, "spec.nodeName": "n"},
         {"metadata": {"annotations": {"kubernetes.io/config.mirror": "m"}}, "spec.nodeName": "n"},
         ["[]: Forbidden: static pods cannot be resized"]),
        ({"spec.os": {"name": "windows"}}, {"spec.os": {"name": "windows"}},
            ["[]: Forbidden: windows pods cannot be resized"]),
        ({"status.qosClass": "Burstable"}, {C + "resources": {}},
            ['spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
             "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]),
        ({"status.qosClass": "Burstable"}, {C + "resources": {
            "requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}},
            ['spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing']),
        ({"status.containerStatuses": [RUNNING]}, {C + "resources.requests.cpu": "2"},
            ["spec: Forbidden: Pod running on node without support for resize"]),
        ({"spec.resources": SIZE}, {"spec.resources": {"requests": {"cpu": "1"}}},
            ["spec.resources.limits: Forbidden: pod-level resource limits cannot be removed"]),
        ({C + "resources": {}, "spec.resources": {"requests": {"cpu": "1", "memory": "1"}}},
         {C + "resources": {}, "spec.resources": {"requests": {"cpu": "1"}}},
         ["spec.resources.requests: Forbidden: pod-level resource requests cannot be removed"]),
        ({"spec.resources": SIZE}, {"spec.resources": {
            "requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}, "limits": {"cpu": "2", "hugepages-2Mi": "2Mi"}}},
            ["spec: Forbidden: only cpu and memory resources are mutable at pod-level"]),
        ({}, {"spec.containers": [POD["spec"]["containers"][0], {"name": "d", "image": "i"}]},
            ["spec.containers: Forbidden: containers may not be added or removed on resize"]),
        ({}, {"spec.initContainers": [{"name": "i", "image": "i"}]},
            ["spec.initContainers: Forbidden: initContainers may not be added or removed on resize"]),
        ({}, {C + "name": "d"},
            ["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"]),
        ({}, {C + "resources.requests.ephemeral-storage": "1"},
            ["spec: Forbidden: only cpu and memory resources are mutable"]),
        ({C + "resources.limits": {"cpu": "2"}}, {},
            ["spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"]),
        ({"spec.initContainers": [sized({"cpu": "1", "memory": "1"})]},
         {"spec.initContainers": [sized({"cpu": "1"})]},
         ["spec.initContainers[0].resources.requests: Forbidden: resource requests cannot be removed"]),
        ({"spec.initContainers": [sized({"cpu": "1"}, {"cpu": "1"})]},
         {"spec.initContainers": [sized({"cpu": "1"})]},
         ["spec.initContainers[0].resources.limits: Forbidden: resource limits cannot be removed"]),
        ({"spec.initContainers": [sized({"cpu": "1"})]},
         {"spec.initContainers": [sized({"cpu": "1", "ephemeral-storage": "1"})]},
         ["spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are "
          "mutable"]),
        ({"spec.initContainers": [sized({"cpu": "1"})]},
         {"spec.initContainers": [{**sized({"cpu": "2"}), "resizePolicy": RESTART}]},
         [('spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": must not be '
          "set to 'RestartContainer' for non-sidecar initContainers"),
          ("spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are "
          "mutable"),
          ("spec.initContainers[0]: Forbidden: non-sidecar init containers with a resize policy of "
          "RestartContainer cannot be resized")]),
    ], "resize"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_resizes_are_reported(case: Case) -> None:
    assert case.found() == case.errors
