"""Errors of generated checks follow those of handwritten rules, as upstream tells them."""

from __future__ import annotations

import pytest

from kubeloop.api.validation import validate_create, validate_update
from tests.unit.api.validation.manifests import Manifest, decoded

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
    assert [error.field for error in validate_create(decoded(qualified, manifest))] == fields


def test_generated_checks_follow_the_order_of_fields() -> None:
    stored = {"metadata": {"resourceVersion": "1"}}
    manifests = [{**stored, "provisioner": name, "parameters": {"a": name}} for name in ("p", "q")]
    old, new = (decoded("storageclasses.storage.k8s.io", manifest) for manifest in manifests)
    assert [error.field for error in validate_update(new, old)] == ["provisioner", "parameters"]


def test_reports_of_a_job_are_checked_from_its_end_to_what_lasts() -> None:
    conditions = [{"type": "Complete", "status": "True"}]
    old = decoded("jobs.batch", {"metadata": {"resourceVersion": "1"}, "status": {"succeeded": 1, "active": 1}})
    status = {"conditions": conditions, "active": 1}
    new = decoded("jobs.batch", {"metadata": {"resourceVersion": "1"}, "status": status})
    assert [error.field for error in validate_update(new, old, "status")] == [
        "status.completionTime",
        "status.conditions",
        "status.active",
        "status.startTime",
        "status.succeeded",
    ]


def test_what_is_wrong_with_a_pod_is_told_in_the_order_in_which_upstream_looks() -> None:
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
    found = [error.field for error in validate_create(decoded("pods", {"spec": spec}))]
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
