"""Nodes' requests for their own certificates are approved for whoever has the right."""

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
from tests.controllers.rights import start_as

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
    """Make a request in somebody's name; anybody here may make them."""
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


def told(cluster: Cluster) -> list[tuple[str, str, str]]:
    return [(one.type, one.reason, one.message) for one in find(cluster).status.conditions]


def test_bootstrapping_node_gets_its_first_certificate(plane: Cluster) -> None:
    allow(plane, "nodeclient", BOOTSTRAPPERS)
    ask(plane, "system:bootstrap:abcdef", BOOTSTRAPPERS)
    assert told(plane) == [("Approved", "AutoApproved", ANY)]
    assert find(plane).status.conditions[0].last_update_time


def test_node_renews_its_own_certificate(plane: Cluster) -> None:
    allow(plane, "selfnodeclient", "system:nodes")
    ask(plane, "system:node:n1", "system:nodes")
    assert told(plane) == [("Approved", "AutoApproved", SELF)]


def test_who_may_have_their_own_certificate_does_not_get_that_of_another(plane: Cluster) -> None:
    allow(plane, "selfnodeclient", "others")
    ask(plane, "somebody", "others")
    plane.advance(60)
    assert told(plane) == []


def test_right_that_comes_later_is_found(plane: Cluster) -> None:
    ask(plane, "system:bootstrap:abcdef", BOOTSTRAPPERS)
    plane.advance(10)
    assert told(plane) == []
    allow(plane, "nodeclient", BOOTSTRAPPERS)
    plane.advance(30)
    assert told(plane) == [("Approved", "AutoApproved", ANY)]


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
def test_what_is_no_certificate_of_a_node_is_for_people_to_decide(plane: Cluster, request_: dict[str, Any]) -> None:
    allow(plane, "nodeclient", BOOTSTRAPPERS)
    allow(plane, "selfnodeclient", BOOTSTRAPPERS)
    ask(plane, "system:bootstrap:abcdef", BOOTSTRAPPERS, **request_)
    plane.advance(60)
    assert told(plane) == []


def test_decision_of_somebody_else_stands(cluster: Cluster) -> None:
    allow(cluster, "nodeclient", BOOTSTRAPPERS)
    ask(cluster, "system:bootstrap:abcdef", BOOTSTRAPPERS)
    approve(cluster, decision="Denied")
    start_as(cluster, "certificate-controller", wire)
    cluster.advance(60)
    assert [kind for kind, _, _ in told(cluster)] == ["Denied"]
