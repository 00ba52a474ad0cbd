# SPDX-License-Identifier: Apache-2.0
"""Tests of partial patches: equal to patches of the whole object."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.apiserver.handlers import partial_patch as parts
from kubeloop.apiserver.handlers import write

POD, POD_STATUS = "/api/v1/namespaces/shop/pods/p", "/api/v1/namespaces/shop/pods/p/status"
NODE, NODE_STATUS = "/api/v1/nodes/n", "/api/v1/nodes/n/status"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/l"
DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/d"
SCALER_STATUS = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/h/status"
READY = {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-05-10T12:00:00Z"}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
RUNNING = {
    "phase": "Running",
    "podIP": "10.0.0.1",
    "podIPs": [{"ip": "10.0.0.1"}],
    "conditions": [READY],
    "containerStatuses": [{"name": "c", "image": "i", "imageID": "x", "ready": True, "restartCount": 0}],
}

ORDINARY = [
    ("strategic", POD_STATUS, {"status": RUNNING}),
    ("merge", POD_STATUS, {"status": RUNNING}),
    ("strategic", POD_STATUS, {"status": {"conditions": [{"type": "Asked", "$patch": "delete"}, READY]}}),
    ("strategic", POD_STATUS, {"metadata": {"labels": {"l": "2"}}, "status": {"reason": "Because"}}),
    ("strategic", POD, {"metadata": {"annotations": {"x": "y"}, "labels": {"l": None}}}),
    ("merge", POD, {"spec": {"activeDeadlineSeconds": 7}}),
    ("merge", POD, {"metadata": {"finalizers": ["example.org/wait"]}, "spec": {"tolerations": [{"key": "k"}]}}),
    ("strategic", NODE, {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    ("merge", NODE, {"metadata": {"annotations": {"x": "y"}}}),
    ("strategic", NODE_STATUS, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    ("merge", LEASE, {"spec": {"renewTime": "2026-05-10T12:00:00.000000Z"}}),
    ("merge", LEASE, {"spec": {"renewTime": None}}),
    ("strategic", DEPLOYMENT, {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}}),
    ("merge", DEPLOYMENT, {"spec": {"strategy": None}}),
    ("merge", f"{DEPLOYMENT}/status", {"status": {"replicas": 1, "observedGeneration": 1}}),
]
SPECIAL = [
    ("strategic", POD_STATUS, {"spec": {"activeDeadlineSeconds": 9}, "status": RUNNING}),
    ("strategic", POD_STATUS, {"status": None}),
    ("strategic", POD_STATUS, {}),
    ("strategic", POD_STATUS, {"status": {"conditions": [{"status": "True"}]}}),
    ("strategic", POD_STATUS, {"status": {"podIPs": [{"ip": "10.0.0.300"}], "podIP": "10.0.0.300"}}),
    ("strategic", POD_STATUS, {"status": {"phase": 5}}),
    ("strategic", POD_STATUS, {"status": {"unknown": "field"}}),
    ("merge", POD_STATUS, {"status": {"startTime": "yesterday"}}),
    ("merge", POD_STATUS, {"metadata": {"uid": "another"}, "status": {"phase": "Running"}}),
    ("merge", POD_STATUS, {"metadata": {"name": "q"}, "status": {"phase": "Running"}}),
    ("merge", POD_STATUS, {"metadata": {"resourceVersion": "1"}, "status": {"phase": "Running"}}),
    ("merge", POD, {"metadata": {"managedFields": []}}),
    ("merge", POD, {"status": {"phase": "Running"}}),
    ("merge", POD, {"kind": "Node", "spec": {}}),
    ("merge", POD, {"spec": {"containers": None}}),
    ("json", POD, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]),
    ("merge", DEPLOYMENT, {"spec": {"replicas": -1}}),
    ("merge", f"{DEPLOYMENT}/scale", {"spec": {"replicas": 4}}),
    ("merge", SCALER_STATUS, {"status": {"currentReplicas": 1, "desiredReplicas": 1}}),
]


def _fill(api: Any) -> None:
    meta = {"labels": {"l": "1"}, "annotations": {"a": "1"}}
    api.made(POD[:-2], {"metadata": {"name": "p", **meta}, "spec": TEMPLATE["spec"]})
    asked = {"type": "Asked", "status": "False", "reason": "R"}
    assert api.patch("strategic", POD_STATUS, {"status": {"conditions": [asked]}}).status == 200
    api.made(NODE[:-2], {"metadata": {"name": "n", **meta}, "spec": {"podCIDR": "10.1.0.0/24"}})
    api.made(LEASE[:-2], {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    api.made(DEPLOYMENT[:-2], {"metadata": {"name": "d", **meta}, "spec": spec})
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    scaler = {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}
    api.made(SCALER_STATUS.removesuffix("/h/status"), scaler)


def _seen_both_ways(
    api: Any, monkeypatch: pytest.MonkeyPatch, kind: str, path: str, patch: Any
) -> tuple[Any, Any, bool]:
    """Return the results of a partial and a full patch, and True if the partial path was used."""
    made: list[Any] = []

    def counted(*args: Any) -> Any:
        made.append(parts.patch_parts(*args))
        return made[-1]

    seen = []
    for way in (counted, lambda *_: None):
        monkeypatch.setattr(write, "patch_parts", way)
        answer = api.patch(kind, f"{path}?dryRun=All", patch)
        seen.append((answer.status, answer.body, answer.headers.get("Warning")))
    return seen[0], seen[1], any(one is not None for one in made)


def test_partial_patch_equals_full_patch(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(api)
    api.clock.advance(60)
    for kind, path, patch in ORDINARY:
        by_parts, whole, was_by_parts = _seen_both_ways(api, monkeypatch, kind, path, patch)
        assert by_parts == whole
        assert was_by_parts, (path, patch)
        assert whole[0] == 200, whole


def test_other_patches_use_the_full_path(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(api)
    api.clock.advance(60)
    for kind, path, patch in SPECIAL:
        by_parts, whole, _ = _seen_both_ways(api, monkeypatch, kind, path, patch)
        assert by_parts == whole


def test_no_op_patch_writes_nothing(api: Any) -> None:
    _fill(api)
    before = api.get(POD).body
    api.clock.advance(60)
    answer = api.patch("strategic", POD_STATUS, {"metadata": {"uid": before["metadata"]["uid"]}, "status": {}})
    assert (answer.status, answer.body) == (200, before)
