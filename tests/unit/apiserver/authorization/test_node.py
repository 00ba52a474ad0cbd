# SPDX-License-Identifier: Apache-2.0
"""The node authorizer, rule by rule, without roles: decisions and reasons."""

from __future__ import annotations

import pytest

from kubeloop.api.field_selectors import parse_field_selector
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.authorization.node import NodeAuthorizer
from kubeloop.apiserver.request.context import User
from tests.unit.apiserver.conftest import POD_SPEC
from tests.unit.apiserver.secured_api import secured_api

SHOP = "/api/v1/namespaces/shop"
STORAGE, DEVICES, CERTIFICATES = "storage.k8s.io", "resource.k8s.io", "certificates.k8s.io"
LEASES = "coordination.k8s.io"
NODE = User("system:node:n1", ("system:nodes",))
UNRELATED = "no relationship found between node 'n1' and this object"


@pytest.fixture(scope="module")
def api():
    with secured_api() as made:
        made.namespace("shop")
        for node in ("n1", "n2"):
            made.post("/api/v1/nodes", {"metadata": {"name": node}})
        volumes = [
            {"name": "s", "secret": {"secretName": "own"}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "m", "persistentVolumeClaim": {"claimName": "missing"}},
        ]
        made.post(
            f"{SHOP}/pods", {"metadata": {"name": "p"}, "spec": {**POD_SPEC, "nodeName": "n1", "volumes": volumes}}
        )
        made.post(f"{SHOP}/pods", {"metadata": {"name": "q"}, "spec": {**POD_SPEC, "nodeName": "n2"}})
        _volumes(made)
        devices = {"driver": "d.example.com", "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}}
        for node in ("n1", "n2"):
            body = {"metadata": {"name": f"slice-{node}"}, "spec": {**devices, "nodeName": node}}
            assert made.post(f"/apis/{DEVICES}/v1/resourceslices", body).status == 201
            body = {
                "metadata": {"name": f"va-{node}"},
                "spec": {"attacher": "a", "nodeName": node, "source": {"persistentVolumeName": "pv"}},
            }
            assert made.post(f"/apis/{STORAGE}/v1/volumeattachments", body).status == 201
        yield made


def _volumes(made):
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv"}
    assert made.post(f"{SHOP}/persistentvolumeclaims", {"metadata": {"name": "claim"}, "spec": claim}).status == 201
    secret = {"nodePublishSecretRef": {"name": "by-volume", "namespace": "shop"}}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "h", **secret},
    }
    bound = {**volume, "claimRef": {"namespace": "shop", "name": "claim"}}
    for name, spec in (("pv", bound), ("free", volume)):
        assert made.post("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec}).status == 201


@pytest.fixture
def decide(api):
    authorizer = NodeAuthorizer(api.registry, api.lookup)

    def ask(verb, resource, name="", *, group="", subresource="", namespace="shop", user=NODE, selector=""):
        fields = parse_field_selector(selector) if selector else None
        asked = AuthorizationAttributes(
            user, verb, group, "v1", resource, subresource, namespace, name, field_selector=fields
        )
        decision = authorizer.decide(asked)
        return True if decision.allowed else decision.reason

    return ask


def test_users_that_are_no_nodes_are_left_to_others(decide):
    assert decide("get", "pods", "p", user=User("jane")) == ""
    assert decide("get", "pods", "p", user=User("system:node:n1")) == ""
    assert decide("get", "pods", "p", user=User("system:node:", ("system:nodes",))) == (
        'unknown node for user "system:node:"'
    )


@pytest.mark.parametrize("kind", ["secrets", "configmaps"])
def test_reading_objects_of_pods(decide, kind):
    assert decide("delete", kind, "own") == "can only read resources of this type"
    assert decide("get", kind, "own", subresource="x") == "cannot read subresource"
    assert decide("get", kind, "own", namespace="") == "can only read namespaced object of this type"
    assert decide("list", kind) == "No Object name found"
    assert decide("get", kind, "other") == UNRELATED


def test_secrets_of_pods_and_of_their_volumes_are_readable(decide):
    for verb in ("get", "list", "watch"):
        assert decide(verb, "secrets", "own") is True
    assert decide("get", "secrets", "by-volume") is True


def test_volumes_are_readable_through_claims(decide):
    assert decide("get", "persistentvolumes", "pv", namespace="") is True
    assert decide("get", "persistentvolumes", "free", namespace="") == UNRELATED
    assert decide("get", "persistentvolumes", "none", namespace="") == UNRELATED
    assert decide("list", "persistentvolumes", "pv", namespace="") == "can only get individual resources of this type"
    assert decide("get", "persistentvolumes", "pv", subresource="status") == "cannot get subresource"


def test_the_status_of_claims_may_be_updated(decide):
    assert decide("get", "persistentvolumeclaims", "claim") is True
    assert decide("patch", "persistentvolumeclaims", "claim", subresource="status") is True
    assert decide("update", "persistentvolumeclaims", "other", subresource="status") == UNRELATED
    told = "can only get/update/patch this type"
    assert decide("get", "persistentvolumeclaims", "claim", subresource="status") == told


def test_tokens_of_accounts_of_pods_may_be_created(decide):
    assert decide("create", "serviceaccounts", "default", subresource="token") is True
    assert decide("create", "serviceaccounts", "other", subresource="token") == UNRELATED
    assert decide("get", "serviceaccounts", "default") is True
    individual = "can only create tokens for individual service accounts"
    assert decide("create", "serviceaccounts", subresource="token") == individual
    assert decide("get", "serviceaccounts", "default", subresource="token") == individual
    told = "can only create token subresource of serviceaccount"
    assert decide("create", "serviceaccounts", "default") == told


def test_nodes_write_nodes_and_read_their_own(decide):
    for verb in ("create", "update", "patch"):
        assert decide(verb, "nodes", "n2", namespace="") is True
    for verb in ("get", "list", "watch"):
        assert decide(verb, "nodes", "n1", namespace="") is True
    assert decide("get", "nodes", "n2") == "node 'n1' cannot read 'n2', only its own Node object"
    assert decide("list", "nodes") == "node 'n1' cannot read all nodes, only its own Node object"
    assert decide("update", "nodes", "n2", subresource="status") is True
    assert decide("get", "nodes", "n1", subresource="status") == ""
    assert decide("create", "nodes", "n1", subresource="proxy") == ""
    assert decide("delete", "nodes", "n1") == ""


def test_pods_of_the_node(decide):
    assert decide("get", "pods", "p") is True
    assert decide("get", "pods", "q") == UNRELATED
    assert decide("create", "pods", "x") is True
    assert decide("delete", "pods", "x") is True
    assert decide("update", "pods", "p") == ""
    assert decide("list", "pods", "p") is True
    assert decide("list", "pods", "q") == UNRELATED
    assert decide("list", "pods", selector="spec.nodeName=n1") is True
    refused = "can only list/watch pods with spec.nodeName field selector"
    assert decide("list", "pods", selector="spec.nodeName=n2") == refused
    assert decide("watch", "pods") == refused
    assert decide("deletecollection", "pods", selector="spec.nodeName=n1") == ""
    assert decide("update", "pods", "p", subresource="status") is True
    assert decide("create", "pods", "p", subresource="eviction") is True
    assert decide("create", "pods", "p", subresource="exec") == ""


def test_slices_of_the_node(decide):
    def ask(verb, name="", **more):
        return decide(verb, "resourceslices", name, group=DEVICES, namespace="", **more)

    assert ask("create", "x") is True
    assert ask("get", "slice-n1") is True
    assert ask("delete", "slice-n2") == UNRELATED
    assert ask("get", "none") == UNRELATED
    assert ask("get", "slice-n1", subresource="status") == "cannot authorize ResourceSlice subresources"
    assert ask("list", selector="spec.nodeName=n1") is True
    told = "can only list/watch/deletecollection resourceslices with nodeName field selector"
    assert ask("deletecollection", selector="spec.nodeName=n2") == told
    assert ask("frob", selector="spec.nodeName=n1") == (
        "only the following verbs are allowed for a ResourceSlice: "
        "get, watch, list, create, update, patch, delete, deletecollection"
    )


def test_attachments_of_the_node(decide):
    assert decide("get", "volumeattachments", "va-n1", group=STORAGE, namespace="") is True
    assert decide("get", "volumeattachments", "va-n2", group=STORAGE, namespace="") == UNRELATED
    assert decide("get", "volumeattachments", "none", group=STORAGE, namespace="") == UNRELATED


def test_the_csi_node(decide):
    def ask(verb, name, **more):
        return decide(verb, "csinodes", name, group=STORAGE, namespace="", **more)

    assert ask("get", "n1") is True
    assert ask("create", "") is True
    assert ask("delete", "n2") == "can only access CSINode with the same name as the requesting node"
    assert ask("get", "n1", subresource="x") == "cannot authorize CSINode subresources"
    assert ask("list", "n1") == "can only get, create, update, patch, or delete a CSINode"


def test_the_nodes_lease(decide):
    def ask(verb, name, namespace="kube-node-lease"):
        return decide(verb, "leases", name, group=LEASES, namespace=namespace)

    assert ask("update", "n1") is True
    assert ask("create", "") is True
    assert ask("update", "n2") == "can only access node lease with the same name as the requesting node"
    assert ask("update", "n1", "shop") == 'can only access leases in the "kube-node-lease" system namespace'
    assert ask("list", "n1") == "can only get, create, update, patch, or delete a node lease"


def test_certificates_of_pods(decide):
    def ask(verb, name="", **more):
        return decide(verb, "podcertificaterequests", name, group=CERTIFICATES, **more)

    assert ask("create", "x") is True
    assert ask("get", "none") == UNRELATED
    assert ask("list", selector="spec.nodeName=n1") is True
    told = "can only list/watch podcertificaterequests with nodeName field selector"
    assert ask("watch", selector="spec.nodeName=n2") == told
    assert ask("delete", "x") == "nodes may not delete podcertificaterequests"
    assert ask("delete", "x", selector="spec.nodeName=n1") == "nodes may not delete podcertificaterequests"
    assert ask("get", "x", subresource="status") == (
        "nodes may not access the status subresource of PodCertificateRequests"
    )


def test_other_resources_are_those_of_all_nodes(decide):
    assert decide("get", "services", "x") is True
    assert decide("delete", "services", "x") == ""


def test_pods_are_watched_once(api, monkeypatch):
    subscribed = []
    original = api.registry.store.subscribe
    monkeypatch.setattr(api.registry.store, "subscribe", lambda *args: subscribed.append(args) or original(*args))
    authorizer = NodeAuthorizer(api.registry, api.lookup)
    asked = AuthorizationAttributes(NODE, "get", "", "v1", "pods", "", "shop", "p")
    assert all(authorizer.decide(asked).allowed for _ in range(2))
    assert len(subscribed) == 1


def test_a_pod_that_is_gone_relates_nothing(api, decide):
    spec = {**POD_SPEC, "nodeName": "n1", "volumes": [{"name": "s", "secret": {"secretName": "brief"}}]}
    api.post(f"{SHOP}/pods", {"metadata": {"name": "brief"}, "spec": spec})
    assert decide("get", "secrets", "brief") is True
    api.ask("DELETE", f"{SHOP}/pods/brief?gracePeriodSeconds=0")
    assert decide("get", "secrets", "brief") == UNRELATED
