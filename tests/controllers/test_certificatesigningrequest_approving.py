# SPDX-License-Identifier: Apache-2.0
"""Tests of approval of nodes' certificate requests by permission."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.controllers.certificatesigningrequest_approving import wire
from kubeloop.testing import Cluster
from tests.controllers.certificate_requests import (
    API_CLIENT,
    CLIENT,
    KUBELET_CLIENT,
    NODE,
    SERVER,
    approve,
    find,
    pem_request,
    signing_request,
)
from tests.controllers.permissions import start_as

BOOTSTRAPPERS = "system:bootstrappers"
SELF = "Auto approving self kubelet client certificate after SubjectAccessReview."
ANY = "Auto approving kubelet client certificate after SubjectAccessReview."


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    start_as(cluster, "certificate-controller", wire)
    return cluster


def allow(cluster: Cluster, subresource: str, group: str) -> None:
    role = f"system:certificates.k8s.io:certificatesigningrequests:{subresource}"
    cluster.client.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"test:{subresource}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group}],
        }
    )


def ask(cluster: Cluster, user: str, *groups: str, **request: Any) -> None:
    """Create a request in the name of a user; all users here may create requests."""
    allow_asking = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "test:asking"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    }
    cluster.client.create(allow_asking)
    wanted = {"request": pem_request(**NODE), "signer": KUBELET_CLIENT, "usages": CLIENT, **request}
    cluster.as_user(user, *groups).create(signing_request(**wanted))
    cluster.settle()


def condition_tuples(cluster: Cluster) -> list[tuple[str, str, str]]:
    return [(one.type, one.reason, one.message) for one in find(cluster).status.conditions]


def test_bootstrapping_node_gets_its_first_certificate(plane: Cluster) -> None:
    allow(plane, "nodeclient", BOOTSTRAPPERS)
    ask(plane, "system:bootstrap:abcdef", BOOTSTRAPPERS)
    assert condition_tuples(plane) == [("Approved", "AutoApproved", ANY)]
    assert find(plane).status.conditions[0].last_update_time


def test_node_renews_its_own_certificate(plane: Cluster) -> None:
    allow(plane, "selfnodeclient", "system:nodes")
    ask(plane, "system:node:n1", "system:nodes")
    assert condition_tuples(plane) == [("Approved", "AutoApproved", SELF)]


def test_permission_for_own_certificate_does_not_approve_anothers(plane: Cluster) -> None:
    allow(plane, "selfnodeclient", "others")
    ask(plane, "somebody", "others")
    plane.advance(60)
    assert condition_tuples(plane) == []


def test_permission_granted_later_is_honored(plane: Cluster) -> None:
    ask(plane, "system:bootstrap:abcdef", BOOTSTRAPPERS)
    plane.advance(10)
    assert condition_tuples(plane) == []
    allow(plane, "nodeclient", BOOTSTRAPPERS)
    plane.advance(30)
    assert condition_tuples(plane) == [("Approved", "AutoApproved", ANY)]


@pytest.mark.parametrize(
    "request_",
    [
        {"signer": API_CLIENT},
        {"usages": SERVER},
        {"usages": (*CLIENT, "server auth")},
        {"request": pem_request("system:node:n1", ("devs",))},
        {"request": pem_request("admin", ("system:nodes",))},
    ],
    ids=["for people", "serving", "more usages", "another group", "no node"],
)
def test_other_certificates_are_not_decided(plane: Cluster, request_: dict[str, Any]) -> None:
    allow(plane, "nodeclient", BOOTSTRAPPERS)
    allow(plane, "selfnodeclient", BOOTSTRAPPERS)
    ask(plane, "system:bootstrap:abcdef", BOOTSTRAPPERS, **request_)
    plane.advance(60)
    assert condition_tuples(plane) == []


def test_existing_decision_is_kept(cluster: Cluster) -> None:
    allow(cluster, "nodeclient", BOOTSTRAPPERS)
    ask(cluster, "system:bootstrap:abcdef", BOOTSTRAPPERS)
    approve(cluster, decision="Denied")
    start_as(cluster, "certificate-controller", wire)
    cluster.advance(60)
    assert [kind for kind, _, _ in condition_tuples(cluster)] == ["Denied"]
