# SPDX-License-Identifier: Apache-2.0
"""Tests of permissions for devices: admin access, allocation, and device status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kubeloop.api.errors import Invalid
from kubeloop.api.requests import MERGE_PATCH
from kubeloop.apiserver.admission.plugins.authorization import resource_claim_authorization
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.client import Client
from kubeloop.controllers import resourceclaim
from kubeloop.scheduler.scheduler import wire
from kubeloop.testing import Cluster, node, pod
from tests.controllers.permissions import start_as
from tests.scheduler.cluster_objects import join, node_of
from tests.scheduler.device_claims import DRIVER, claim, claim_named, devices_of, make_class, offer, using

NODE_NAME = "authentication.kubernetes.io/node-name"
RESULT = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "a"}
ALLOCATION: dict[str, Any] = {
    "devices": {"results": [RESULT]},
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    },
}


def give(cluster: Cluster, name: str, allocation: dict[str, Any]) -> None:
    body = {"status": {"allocation": allocation}}
    cluster.client.patch("resourceclaims", name, body, "default", subresource="status")


@contextmanager
def refused() -> Iterator[list[str]]:
    told: list[str] = []
    with pytest.raises(Invalid) as found:
        yield told
    told += [str(found.value), *(one.field for one in found.value.details.causes)]  # type: ignore[union-attr]


# Admin access.


def test_admin_access_requires_a_labelled_namespace(cluster: Cluster) -> None:
    with refused() as told:
        claim(cluster, "look", adminAccess=True)
    why = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing"
    where = "spec.devices.requests[0].adminAccess"
    assert told == [f'ResourceClaim.resource.k8s.io "look" is invalid: {where}: Forbidden: {why} namespace', where]
    claim(cluster, "plain")
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    cluster.client.patch("namespaces", "default", label)
    claim(cluster, "look", adminAccess=True)
    cluster.client.patch(
        "namespaces", "default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": None}}}
    )
    given = {"devices": {"results": [{**ALLOCATION["devices"]["results"][0], "adminAccess": True}]}}  # type: ignore[index]
    with refused() as told:
        cluster.client.patch(
            "resourceclaims", "look", {"status": {"allocation": given}}, "default", subresource="status"
        )
    assert told[1] == "status.allocation.devices.results[0].adminAccess"


# Rights to the status.


def as_user(cluster: Cluster, name: str, **extra: tuple[str, ...]) -> Any:
    """Return a function that patches the status of the claim `one` as a user."""
    user = User(name, (AUTHENTICATED,), extra=tuple((key.replace("__", "/"), each) for key, each in extra.items()))
    client = Client(InProcessTransport(cluster.server, user))

    def write(**status: Any) -> Any:
        body = {"status": status}
        work = client.patch("resourceclaims", "one", body, "default", type=MERGE_PATCH, subresource="status")
        return cluster.run(work)

    return write


def allow(cluster: Cluster, user: str, *rules: dict[str, Any]) -> None:
    name = user.rpartition(":")[2]
    basic = {"verbs": ["patch"], "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    cluster.client.create({**role, "rules": [basic, *({"apiGroups": ["resource.k8s.io"], **one} for one in rules)]})
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    ref = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}}
    cluster.client.create({**binding, "subjects": [subject], "roleRef": ref})


def device(state: str = "True") -> dict[str, Any]:
    said = {
        "type": "ready",
        "status": state,
        "reason": "X",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "message": "",
    }
    return {"driver": DRIVER, "pool": "n1", "device": "a", "conditions": [said]}


@pytest.fixture
def claimed(cluster: Cluster) -> Cluster:
    make_class(cluster)
    claim(cluster, "one")
    return cluster


def test_allocation_requires_the_binding_permission(claimed: Cluster) -> None:
    allow(claimed, "bob")
    with refused() as told:
        as_user(claimed, "bob")(allocation=ALLOCATION)
    why = (
        'User "bob" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )
    assert told == [
        'ResourceClaim.resource.k8s.io "one" is invalid: status.allocation: Forbidden: changing status.allocation or '
        'status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: '
        f"resourceclaims.resource.k8s.io is forbidden: {why}",
        "status.allocation",
    ]
    allow(claimed, "eve", {"verbs": ["patch"], "resources": ["resourceclaims/binding"]})
    as_user(claimed, "eve")(allocation=ALLOCATION)
    assert devices_of(claimed, "one") == ["a"]


def test_driver_updates_its_own_device_status(claimed: Cluster) -> None:
    claimed.client.patch(
        "resourceclaims", "one", {"status": {"allocation": ALLOCATION}}, "default", subresource="status"
    )
    anywhere = {"verbs": ["arbitrary-node:patch"], "resources": ["resourceclaims/driver"]}
    allow(claimed, "other", {**anywhere, "resourceNames": ["other.example.com"]})
    with refused() as told:
        as_user(claimed, "other")(devices=[device()])
    assert told[1] == "status.devices"
    assert 'requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission: ' in told[0]
    allow(claimed, "driver", {**anywhere, "resourceNames": [DRIVER]})
    as_user(claimed, "driver")(devices=[device()])
    assert len(claim_named(claimed, "one").status.devices) == 1
    with refused():
        as_user(claimed, "other")(devices=None)


def test_node_driver_can_be_limited_to_its_node(claimed: Cluster) -> None:
    claimed.client.patch(
        "resourceclaims", "one", {"status": {"allocation": ALLOCATION}}, "default", subresource="status"
    )
    account = "system:serviceaccount:default:plugin"
    allow(claimed, account, {"verbs": ["associated-node:patch"], "resources": ["resourceclaims/driver"]})
    with refused() as told:
        as_user(claimed, account, **{NODE_NAME.replace("/", "__"): ("n2",)})(devices=[device()])
    assert 'verb="[arbitrary-node:patch]"' in told[0]
    as_user(claimed, account, **{NODE_NAME.replace("/", "__"): ("n1",)})(devices=[device()])
    assert len(claim_named(claimed, "one").status.devices) == 1


def selecting(*terms: dict[str, Any]) -> dict[str, Any]:
    return {**ALLOCATION, "nodeSelector": {"nodeSelectorTerms": list(terms)}}


def named(operator: str = "In", key: str = "metadata.name", values: tuple[str, ...] = ("n1",)) -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    "allocation",
    [
        {"devices": ALLOCATION["devices"]},
        selecting(named(), named()),
        selecting({**named(), "matchExpressions": [{"key": "a", "operator": "Exists"}]}),
        selecting({"matchFields": named()["matchFields"] * 2}),
        selecting(named("NotIn")),
    ],
)
def test_devices_that_may_be_on_several_nodes_are_not_those_of_one(
    claimed: Cluster, allocation: dict[str, Any]
) -> None:
    give(claimed, "one", allocation)
    account = "system:serviceaccount:default:plugin"
    allow(claimed, account, {"verbs": ["associated-node:patch"], "resources": ["resourceclaims/driver"]})
    with refused() as told:
        as_user(claimed, account, **{NODE_NAME.replace("/", "__"): ("n1",)})(devices=[device()])
    assert 'verb="[arbitrary-node:patch]"' in told[0]


@pytest.mark.parametrize(
    ("user", "nodes"),
    [
        ("plugin", ("n1",)),  # no service account
        ("system:serviceaccount:default:plugin", ("n1", "n2")),
        ("system:serviceaccount:default:plugin", ()),
    ],
)
def test_only_an_account_with_one_node_is_on_it(claimed: Cluster, user: str, nodes: tuple[str, ...]) -> None:
    give(claimed, "one", ALLOCATION)
    allow(claimed, user, {"verbs": ["associated-node:patch"], "resources": ["resourceclaims/driver"]})
    with refused():
        as_user(claimed, user, **{NODE_NAME.replace("/", "__"): nodes})(devices=[device()])


@pytest.mark.parametrize(("node", "is_on_it"), [("n1", True), ("", False), ("N_1", False)])
def test_only_a_valid_name_is_that_of_a_node(node: str, is_on_it: bool) -> None:
    user = User("system:serviceaccount:default:plugin", extra=((NODE_NAME, (node,)),))
    attempt: Any = SimpleNamespace(user=user)
    assert resource_claim_authorization._is_on_node(attempt, node) is is_on_it


def test_a_reservation_requires_the_binding_permission(claimed: Cluster) -> None:
    give(claimed, "one", ALLOCATION)
    allow(claimed, "bob")
    reserved = {"resource": "pods", "name": "web", "uid": "1"}
    with refused() as told:
        as_user(claimed, "bob")(reservedFor=[reserved])
    assert told[1] == "status.allocation"


def test_admin_access_that_was_granted_before_may_stay(claimed: Cluster) -> None:
    label = "resource.kubernetes.io/admin-access"
    claimed.client.patch("namespaces", "default", {"metadata": {"labels": {label: "true"}}})
    give(claimed, "one", {**ALLOCATION, "devices": {"results": [{**RESULT, "adminAccess": True}]}})
    claimed.client.patch("namespaces", "default", {"metadata": {"labels": {label: None}}})
    claimed.client.patch("resourceclaims", "one", {"status": {"devices": [device()]}}, "default", subresource="status")
    assert len(claim_named(claimed, "one").status.devices) == 1


def test_removed_allocation_needs_no_permission_on_drivers(claimed: Cluster) -> None:
    give(claimed, "one", ALLOCATION)
    claimed.client.patch("resourceclaims", "one", {"status": {"devices": [device()]}}, "default", subresource="status")
    allow(claimed, "eve", {"verbs": ["patch"], "resources": ["resourceclaims/binding"]})
    as_user(claimed, "eve")(allocation=None, devices=None)
    assert claim_named(claimed, "one").status.allocation is None


def test_scheduler_and_resourceclaim_roles_are_sufficient(cluster: Cluster) -> None:
    client = Client(InProcessTransport(cluster.server, User("system:kube-scheduler", (AUTHENTICATED,))))
    start_as(cluster, "resource-claim-controller", resourceclaim.wire)
    cluster.start(lambda context: wire(replace(context, client=client)))
    join(cluster, node("n1"))
    make_class(cluster)
    slow = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    offer(cluster, "n1", {"name": "a", **slow}, {"name": "b"})
    claim(cluster, "one")
    cluster.add(pod("web", **using("one")))
    cluster.settle()
    assert devices_of(cluster, "one") == ["a"]
    said = {**device(), "conditions": [{**device()["conditions"][0], "type": "broken"}]}
    cluster.client.patch("resourceclaims", "one", {"status": {"devices": [said]}}, "default", subresource="status")
    cluster.client.patch("resourceslices", "n1", {"spec": {"devices": [{"name": "b"}]}})
    cluster.advance(seconds=10)
    assert (node_of(cluster, "web"), devices_of(cluster, "one")) == ("n1", ["b"])
    cluster.client.delete("pods", "web", "default", grace_seconds=0)
    cluster.advance(seconds=2)
    assert claim_named(cluster, "one").status.allocation is None
