"""Policies tell which of their generations was looked at."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.admissionregistration_v1 import ValidatingAdmissionPolicy
from kubeloop.controllers.validatingadmissionpolicy_status import wire
from kubeloop.testing import Cluster
from tests.controllers.rights import start_as


def policy(expression: str = "true") -> dict[str, Any]:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]},
    }


def find(cluster: Cluster) -> ValidatingAdmissionPolicy:
    found: ValidatingAdmissionPolicy = cluster.client.get(ValidatingAdmissionPolicy, "p")
    return found


def test_each_generation_is_seen_and_nothing_else_is_written(cluster: Cluster) -> None:
    start_as(cluster, "validatingadmissionpolicy-status-controller", wire)
    cluster.client.create(policy())
    cluster.settle()
    first = find(cluster)
    assert (first.metadata.generation, first.status.observed_generation) == (1, 1)
    assert first.status.type_checking is not None
    cluster.client.patch(ValidatingAdmissionPolicy, "p", {"metadata": {"labels": {"a": "b"}}})
    labelled = find(cluster).metadata.resource_version
    cluster.settle()
    assert find(cluster).metadata.resource_version == labelled
    cluster.client.patch(ValidatingAdmissionPolicy, "p", {"spec": {"validations": [{"expression": "1 == 1"}]}})
    cluster.settle()
    assert find(cluster).status.observed_generation == 2


def test_policy_that_was_there_before_is_seen(cluster: Cluster) -> None:
    cluster.client.create(policy())
    start_as(cluster, "validatingadmissionpolicy-status-controller", wire)
    assert find(cluster).status.observed_generation == 1
