# SPDX-License-Identifier: Apache-2.0
"""Pods that are made after one before them are what they would be without it."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.errors import Forbidden
from kubeloop.api.generated.admissionregistration_v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from kubeloop.api.generated.core_v1 import LimitRange, Namespace, Pod, ResourceQuota, ServiceAccount
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.scheduling_v1 import PriorityClass
from kubeloop.testing import builders
from kubeloop.testing.cluster import Cluster


def _template() -> Pod:
    made = builders.pod("x", labels={"app": "shop"})
    meta = ObjectMeta(generate_name="shop-", namespace="default", labels={"app": "shop"})
    return Pod(metadata=meta, spec=made.spec)


def _create(cluster: Cluster, count: int = 1) -> list[Pod]:
    async def create() -> list[Pod]:
        template = _template()
        return [await cluster.async_client.create(template) for _ in range(count)]

    found: list[Pod] = cluster.run(create())
    return found


def _add(cluster: Cluster, kind: Any, document: dict[str, Any]) -> None:
    cluster.run(cluster.async_client.create(codec.from_plain(document, kind)))


def test_pods_of_one_template_differ_in_name_and_identity_only(cluster: Cluster) -> None:
    first, second, third = _create(cluster, 3)
    assert len({pod.metadata.name for pod in (first, second, third)}) == 3
    assert len({pod.metadata.uid for pod in (first, second, third)}) == 3
    assert first.spec == second.spec == third.spec
    assert first.status == second.status
    assert first.metadata.managed_fields == second.metadata.managed_fields
    assert (first.metadata.labels, first.metadata.generation) == (third.metadata.labels, third.metadata.generation)
    assert cluster.client.get(Pod, third.metadata.name, "default") == third


def test_later_pod_has_a_later_creation_time(cluster: Cluster) -> None:
    [first] = _create(cluster)
    cluster.advance(seconds=10)
    [second] = _create(cluster)
    times = [(pod.metadata.creation_timestamp, pod.metadata.managed_fields[0].time) for pod in (first, second)]
    assert times[0][0] == times[0][1] != times[1][0] == times[1][1]


def test_new_limit_range_applies_to_cached_pods(cluster: Cluster) -> None:
    _create(cluster, 2)
    limit = {"type": "Container", "default": {"memory": "64Mi"}, "defaultRequest": {"memory": "32Mi"}}
    _add(cluster, LimitRange, {"metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": [limit]}})
    for pod in _create(cluster, 2):
        assert (pod.spec.containers or ())[0].resources.limits == {"memory": "64Mi"}


def test_new_default_priority_class_applies_to_cached_pods(cluster: Cluster) -> None:
    _create(cluster, 2)
    _add(cluster, PriorityClass, {"metadata": {"name": "gold"}, "value": 7, "globalDefault": True})
    assert [pod.spec.priority for pod in _create(cluster, 2)] == [7, 7]


def test_changed_account_applies_to_cached_pods(cluster: Cluster) -> None:
    _create(cluster, 2)
    secrets = {"imagePullSecrets": [{"name": "registry"}]}
    cluster.run(cluster.async_client.patch(ServiceAccount, "default", secrets, "default"))
    assert [pod.spec.image_pull_secrets[0].name for pod in _create(cluster, 2)] == ["registry", "registry"]


def test_new_pod_security_level_applies_to_cached_pods(cluster: Cluster) -> None:
    _create(cluster, 2)
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.run(cluster.async_client.patch(Namespace, "default", labels))
    with pytest.raises(Forbidden, match="violates PodSecurity"):
        _create(cluster)


def test_quota_counts_every_cached_pod(cluster: Cluster) -> None:
    _add(cluster, ResourceQuota, {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "2"}}})
    counted = {"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}}
    cluster.run(cluster.async_client.patch(ResourceQuota, "q", counted, "default", subresource="status"))
    _create(cluster, 2)
    with pytest.raises(Forbidden, match="exceeded quota"):
        _create(cluster)


def test_new_policy_applies_to_cached_pods(cluster: Cluster) -> None:
    _create(cluster, 2)
    expression = 'Object{metadata: Object.metadata{labels: {"tier": "front"}}}'
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
    }
    _add(cluster, MutatingAdmissionPolicy, {"metadata": {"name": "tiers"}, "spec": spec})
    _add(cluster, MutatingAdmissionPolicyBinding, {"metadata": {"name": "tiers"}, "spec": {"policyName": "tiers"}})
    assert [pod.metadata.labels.get("tier") for pod in _create(cluster, 2)] == ["front", "front"]


def test_cache_distinguishes_users(cluster: Cluster) -> None:
    async def create() -> list[Pod]:
        loop = cluster.async_client.with_user_agent("painter")
        return [await client.create(_template()) for client in (cluster.async_client, loop)]

    managers = [pod.metadata.managed_fields[0].manager for pod in cluster.run(create())]
    assert managers[1] == "painter" != managers[0]
