# SPDX-License-Identifier: Apache-2.0
"""Aggregated roles have the rules of those that they select."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.rbac_v1 import ClusterRole
from kubeloop.controllers.clusterrole_aggregation import wire
from kubeloop.testing import Cluster
from tests.controllers.permissions import start_as

LABEL = "example.com/aggregate"


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    start_as(cluster, "clusterrole-aggregation-controller", wire)
    return cluster


def role(name: str, *resources: str, to: str = "") -> dict[str, Any]:
    rules = [{"apiGroups": [""], "resources": [one], "verbs": ["get"]} for one in resources]
    meta = {"name": name, "labels": {LABEL: to} if to else {}}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": meta,
        "rules": rules,
    }


def aggregate(name: str, *values: str, to: str = "") -> dict[str, Any]:
    selectors = [{"matchLabels": {LABEL: one}} for one in values]
    return {**role(name, to=to), "aggregationRule": {"clusterRoleSelectors": selectors}}


def resources_of(cluster: Cluster, name: str) -> list[str]:
    found = cluster.client.get(ClusterRole, name)
    return [resource for rule in found.rules or () for resource in rule.resources]


def test_role_has_the_rules_of_all_selected_roles_without_duplicates(plane: Cluster) -> None:
    plane.client.create(role("b", "pods", "secrets", to="x"))
    plane.client.create(role("a", "services", "pods", to="x"))
    plane.client.create(role("c", "nodes", to="y"))
    plane.client.create(role("d", "events"))
    plane.client.create(aggregate("all", "y", "x"))
    plane.settle()
    assert resources_of(plane, "all") == ["nodes", "services", "pods", "secrets"]


def test_role_follows_selected_roles(plane: Cluster) -> None:
    plane.client.create(aggregate("all", "x"))
    plane.client.create(role("a", "pods", to="x"))
    plane.settle()
    assert resources_of(plane, "all") == ["pods"]
    plane.client.patch(ClusterRole, "a", {"rules": role("a", "nodes")["rules"]})
    plane.settle()
    assert resources_of(plane, "all") == ["nodes"]
    plane.client.patch(ClusterRole, "a", {"metadata": {"labels": {LABEL: "y"}}})
    plane.settle()
    assert resources_of(plane, "all") == []
    plane.client.patch(ClusterRole, "a", {"metadata": {"labels": {LABEL: "x"}}})
    plane.settle()
    plane.client.delete(ClusterRole, "a")
    plane.settle()
    assert resources_of(plane, "all") == []


def test_manual_rules_in_an_aggregated_role_are_replaced(plane: Cluster) -> None:
    plane.client.create(role("a", "pods", to="x"))
    plane.client.create(aggregate("all", "x"))
    plane.settle()
    plane.client.patch(ClusterRole, "all", {"rules": role("", "secrets")["rules"]})
    plane.settle()
    assert resources_of(plane, "all") == ["pods"]


def test_aggregated_roles_can_be_nested_but_not_self_referential(plane: Cluster) -> None:
    plane.client.create(role("a", "pods", to="x"))
    plane.client.create(aggregate("inner", "x", to="y"))
    plane.client.create(aggregate("outer", "y", to="y"))
    plane.settle()
    assert resources_of(plane, "inner") == resources_of(plane, "outer") == ["pods"]


def test_bootstrap_roles_are_aggregated(plane: Cluster) -> None:
    view, edit, admin = (set(resources_of(plane, name)) for name in ("view", "edit", "admin"))
    assert "pods" in view
    assert view < edit < admin


def test_unchanged_roles_are_not_written(plane: Cluster) -> None:
    plane.client.create(role("a", "pods", to="x"))
    plane.client.create(aggregate("all", "x"))
    plane.settle()
    before = plane.client.get(ClusterRole, "all").metadata.resource_version
    plane.client.create(role("b", to="x"))
    plane.advance(3600)
    assert plane.client.get(ClusterRole, "all").metadata.resource_version == before
