# SPDX-License-Identifier: Apache-2.0
"""Tests of the order of errors: generated checks follow handwritten rules, as upstream."""

from __future__ import annotations

import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.validation import ObjectValidator
from tests.unit.api.validation.manifests import Manifest, decoded

VALIDATOR = ObjectValidator(DEFAULT_FEATURES)

AUTOSCALER = {"spec": {"maxReplicas": 0, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment"}}}
BAD_RULE = {"rules": [{}]}


@pytest.mark.parametrize(
    ("qualified", "manifest", "fields"),
    [
        ("storageclasses.storage.k8s.io", {"reclaimPolicy": "x"}, ["reclaimPolicy", "provisioner"]),
        (
            "horizontalpodautoscalers.autoscaling",
            AUTOSCALER,
            ["spec.maxReplicas", "spec.scaleTargetRef.name", "spec.maxReplicas"],
        ),
        (
            "roles.rbac.authorization.k8s.io",
            BAD_RULE,
            ["rules[0].apiGroups", "rules[0].resources", "rules[0].verbs"],
        ),
        (
            "replicationcontrollers",
            {"spec": {"replicas": -1, "minReadySeconds": -1}},
            ["spec.selector", "spec.template", "spec.replicas", "spec.minReadySeconds"],
        ),
    ],
)
def test_generated_checks_come_last(qualified: str, manifest: Manifest, fields: list[str]) -> None:
    assert [error.field for error in VALIDATOR.validate_create(decoded(qualified, manifest))] == fields


def test_generated_checks_follow_the_order_of_fields() -> None:
    stored = {"metadata": {"resourceVersion": "1"}}
    manifests = [{**stored, "provisioner": name, "parameters": {"a": name}} for name in ("p", "q")]
    old, new = (decoded("storageclasses.storage.k8s.io", manifest) for manifest in manifests)
    assert [error.field for error in VALIDATOR.validate_update(new, old)] == ["provisioner", "parameters"]


def test_job_status_checks_are_in_upstreams_order() -> None:
    conditions = [{"type": "Complete", "status": "True"}]
    old = decoded("jobs.batch", {"metadata": {"resourceVersion": "1"}, "status": {"succeeded": 1, "active": 1}})
    status = {"conditions": conditions, "active": 1}
    new = decoded("jobs.batch", {"metadata": {"resourceVersion": "1"}, "status": status})
    assert [error.field for error in VALIDATOR.validate_update(new, old, "status")] == [
        "status.completionTime",
        "status.conditions",
        "status.active",
        "status.startTime",
        "status.succeeded",
    ]


def test_pod_errors_are_in_upstreams_order() -> None:
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "hostname": "H_",
        "nodeSelector": {"x y": "z"},
        "restartPolicy": "X",
        "dnsPolicy": "Y",
        "tolerations": [{"key": "a b"}],
        "priorityClassName": "P_",
        "activeDeadlineSeconds": 0,
        "preemptionPolicy": "Q",
    }
    found = [error.field for error in VALIDATOR.validate_create(decoded("pods", {"spec": spec}))]
    assert [field for field in found if field.startswith("spec.")] == [
        "spec.restartPolicy",
        "spec.dnsPolicy",
        "spec.nodeSelector",
        "spec.activeDeadlineSeconds",
        "spec.hostname",
        "spec.tolerations[0].key",
        "spec.priorityClassName",
        "spec.preemptionPolicy",
    ]
