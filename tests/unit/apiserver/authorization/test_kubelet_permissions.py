# SPDX-License-Identifier: Apache-2.0
"""Tests of the permissions of kubelets: their own node and its pods' objects."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.conftest import POD_SPEC
from tests.unit.apiserver.secured_api import refused

SHOP = "/api/v1/namespaces/shop"
UNRELATED = "no relationship found between node 'n1' and this object"
SECRET_VOLUMES = [
    {"name": "v", "secret": {"secretName": "s"}},
    {"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}},
    {"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}},
    {"name": "v", "azureFile": {"secretName": "s", "shareName": "x"}},
    {
        "name": "v",
        "iscsi": {"targetPortal": "p", "iqn": "iqn.2026-01.com.example:disk", "lun": 0, "secretRef": {"name": "s"}},
    },
]


@pytest.fixture
def node(secured):
    """The node n1, with its own name and group."""
    secured.namespace("shop")
    secured.made("/api/v1/nodes", {"metadata": {"name": "n1"}})
    secured.made(f"{SHOP}/secrets", {"metadata": {"name": "s"}, "data": {"k": "dg=="}})
    secured.made(f"{SHOP}/configmaps", {"metadata": {"name": "s"}})
    return secured.knows("system:node:n1", "system:nodes")


@pytest.fixture
def run(secured):
    """Makes a pod on a node."""

    def make(name, on, **spec):
        return secured.made(f"{SHOP}/pods", {"metadata": {"name": name}, "spec": {**POD_SPEC, "nodeName": on, **spec}})

    return make


@pytest.mark.parametrize("volume", SECRET_VOLUMES, ids=lambda one: next(key for key in one if key != "name"))
def test_node_reads_secrets_mounted_by_its_pods(secured, node, run, volume):
    assert refused(secured.get(f"{SHOP}/secrets/s", token=node)).endswith(UNRELATED)
    run("p", "n1", volumes=[volume])
    assert secured.get(f"{SHOP}/secrets/s", token=node).status == 200


@pytest.mark.parametrize(
    "container",
    [
        {"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        {"envFrom": [{"secretRef": {"name": "s"}}]},
    ],
)
def test_node_reads_secrets_in_its_pods_environments(secured, node, run, container):
    run("p", "n1", initContainers=[{"name": "i", "image": "i", **container}])
    assert secured.get(f"{SHOP}/secrets/s", token=node).status == 200


def test_node_cannot_read_secrets_of_other_nodes(secured, node, run):
    run("p", "n2", volumes=[SECRET_VOLUMES[0]], imagePullSecrets=[{"name": "s"}])
    refused(secured.get(f"{SHOP}/secrets/s", token=node))
    refused(secured.get(f"{SHOP}/configmaps/s", token=node))
    refused(secured.get(f"{SHOP}/pods/p", token=node))
    refused(secured.get(f"{SHOP}/serviceaccounts/default", token=node))
    refused(secured.post(f"{SHOP}/serviceaccounts/default/token", {"spec": {}}, token=node))


def test_permission_ends_with_the_pod(secured, node, run):
    run("p", "n1", imagePullSecrets=[{"name": "s"}])
    assert secured.get(f"{SHOP}/secrets/s", token=node).status == 200
    secured.ask("DELETE", f"{SHOP}/pods/p?gracePeriodSeconds=0")
    refused(secured.get(f"{SHOP}/secrets/s", token=node))


def test_node_follows_a_claim_to_its_volume_and_secret(secured, node, run):
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv"}
    secured.made(f"{SHOP}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": claim})
    csi = {"driver": "d", "volumeHandle": "h", "nodeStageSecretRef": {"name": "s", "namespace": "shop"}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": csi}
    spec["claimRef"] = {"namespace": "shop", "name": "c"}
    secured.made("/api/v1/persistentvolumes", {"metadata": {"name": "pv"}, "spec": spec})
    paths = (f"{SHOP}/persistentvolumeclaims/c", "/api/v1/persistentvolumes/pv", f"{SHOP}/secrets/s")
    for path in paths:
        refused(secured.get(path, token=node))
    run("p", "n1", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    for path in paths:
        assert secured.get(path, token=node).status == 200, path


@pytest.mark.parametrize(
    ("method", "path", "why"),
    [
        ("GET", f"{SHOP}/secrets", "No Object name found"),
        ("GET", "/api/v1/secrets", "can only read namespaced object of this type"),
        ("DELETE", f"{SHOP}/secrets/s", "can only read resources of this type"),
        ("GET", "/api/v1/pods", "can only list/watch pods with spec.nodeName field selector"),
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2", "spec.nodeName field selector"),
        ("GET", "/api/v1/nodes", "node 'n1' cannot read all nodes, only its own Node object"),
        ("GET", "/api/v1/nodes/n2", "node 'n1' cannot read 'n2', only its own Node object"),
        ("DELETE", "/api/v1/nodes/n1", "at the cluster scope"),
        ("GET", f"{SHOP}/persistentvolumeclaims", "can only get individual resources of this type"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/shop/leases/n1", '"kube-node-lease" system namespace'),
        (
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2",
            "can only access node lease with the same name as the requesting node",
        ),
        ("GET", "/apis/storage.k8s.io/v1/csinodes/n2", "can only access CSINode with the same name"),
        ("GET", "/apis/resource.k8s.io/v1/resourceslices", "nodeName field selector"),
        ("GET", "/apis/apps/v1/deployments", "at the cluster scope"),
    ],
)
def test_node_is_forbidden(secured, node, method, path, why):
    assert why in refused(secured.ask(method, path, token=node))


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nodes/n1",
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1",
        "/api/v1/services",
        "/apis/node.k8s.io/v1/runtimeclasses",
        "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dn1",
    ],
)
def test_node_is_allowed(secured, node, path):
    assert secured.get(path, token=node).status == 200


def test_user_without_the_nodes_group_is_not_a_node(secured, node):
    impostor = secured.knows("system:node:n1")
    refused(secured.get("/api/v1/nodes/n1", token=impostor))


# -- NodeRestriction --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("kubernetes.io/hostname", True),
        ("node.kubernetes.io/anything", True),
        ("example.com/own", True),
        ("plain", True),
        ("node-restriction.kubernetes.io/x", False),
        ("team.node-restriction.kubernetes.io/x", False),
        ("node-role.kubernetes.io/master", False),
        ("foo.k8s.io/x", False),
    ],
)
def test_node_cannot_set_restricted_labels(secured, node, label, allowed):
    patch = {"metadata": {"labels": {label: "v"}}}
    answer = secured.ask("PATCH", "/api/v1/nodes/n1", patch, token=node, content_type="application/merge-patch+json")
    assert (answer.status == 200) is allowed
    if not allowed:
        assert refused(answer).endswith(f"is not allowed to modify labels: {label}")


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, 'node "n1" is not allowed to modify taints'),
        (
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
            "is not allowed to modify ownerReferences",
        ),
    ],
)
def test_node_cannot_change_its_taints(secured, node, patch, why):
    answer = secured.ask("PATCH", "/api/v1/nodes/n1", patch, token=node, content_type="application/merge-patch+json")
    assert why in refused(answer)


def test_node_cannot_write_other_nodes(secured, node):
    secured.made("/api/v1/nodes", {"metadata": {"name": "n2"}})
    answer = secured.ask(
        "PATCH", "/api/v1/nodes/n2/status", {}, token=node, content_type="application/merge-patch+json"
    )
    assert refused(answer).endswith('node "n1" is not allowed to modify node "n2"')
    assert refused(secured.post("/api/v1/nodes", {"metadata": {"name": "n3"}}, token=node)).endswith('modify node "n3"')


def test_node_updates_status_of_its_own_pods_only(secured, node, run):
    run("mine", "n1")
    run("other", "n2")
    patch = {"status": {"phase": "Running"}}
    media = "application/merge-patch+json"
    assert secured.ask("PATCH", f"{SHOP}/pods/mine/status", patch, token=node, content_type=media).status == 200
    told = refused(secured.ask("PATCH", f"{SHOP}/pods/other/status", patch, token=node, content_type=media))
    assert "can only update pod status for pods with spec.nodeName set to itself" in told
    assert "can only delete pods" in refused(secured.ask("DELETE", f"{SHOP}/pods/other", token=node))
    eviction = {"metadata": {"name": "other"}}
    assert "can only evict pods" in refused(secured.post(f"{SHOP}/pods/other/eviction", eviction, token=node))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, 'annotation, node "n1" can only create mirror pods'),
        ({"nodeName": "n2", "mirror": True}, "can only create pods with spec.nodeName set to itself"),
        ({"mirror": True}, "can only create pods with an owner reference set to itself"),
    ],
)
def test_node_creates_mirror_pods_only(secured, node, change, why):
    annotations = {"kubernetes.io/config.mirror": "x"} if change.pop("mirror", False) else {}
    spec = {**POD_SPEC, "nodeName": "n1", **change}
    pod = {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}
    assert why in refused(secured.post(f"{SHOP}/pods", pod, token=node))


def test_mirror_pod_grants_no_secrets(secured, node):
    uid = secured.get("/api/v1/nodes/n1").body["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}
    meta = {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    spec = {**POD_SPEC, "nodeName": "n1", "volumes": [SECRET_VOLUMES[0]]}
    told = refused(secured.post(f"{SHOP}/pods", {"metadata": meta, "spec": spec}, token=node))
    assert told.endswith("a mirror pod may not reference secrets")
    assert secured.post(f"{SHOP}/pods", {"metadata": meta, "spec": {**spec, "volumes": []}}, token=node).status == 201


@pytest.mark.parametrize(
    ("bound", "why"),
    [
        (None, "node requested token not bound to a pod"),
        ({"kind": "Secret", "name": "s"}, "node requested token not bound to a pod"),
        ({"kind": "Pod", "name": "mine"}, "a pod binding without a uid"),
        ({"kind": "Pod", "name": "mine", "uid": "wrong"}, "does not match the UID in record"),
        ({"kind": "Pod", "name": "other", "uid": ""}, "scheduled on a different node"),
    ],
)
def test_node_gets_tokens_for_its_own_pods_only(secured, node, run, bound, why):
    run("mine", "n1")
    other = run("other", "n2")
    if bound is not None:
        bound = {"apiVersion": "v1", **bound}
        if bound["name"] == "other":
            bound["uid"] = other["metadata"]["uid"]
    answer = secured.post(f"{SHOP}/serviceaccounts/default/token", {"spec": {"boundObjectRef": bound}}, token=node)
    assert why in refused(answer)


def test_node_gets_tokens_for_mounted_audiences_only(secured, node, run):
    source = {"serviceAccountToken": {"path": "t", "audience": "vault"}}
    pod = run("mine", "n1", volumes=[{"name": "v", "projected": {"sources": [source]}}])
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "mine", "uid": pod["metadata"]["uid"]}

    def ask(*audiences):
        spec = {"boundObjectRef": bound, "audiences": list(audiences)}
        return secured.post(f"{SHOP}/serviceaccounts/default/token", {"spec": spec}, token=node)

    assert ask("vault").status == 201
    assert ask().status == 201
    told = refused(ask("bank"))
    assert told.endswith('system:node:n1 is not authorized to request tokens for audience "bank"')
    assert refused(ask("vault", "bank")).endswith("node may only request 0 or 1 audiences")
    secured.may("request-serviceaccounts-token-audience: bank", user=node, namespace="shop")
    assert ask("bank").status == 201


def test_node_requests_certificates_for_itself_only(secured, node):
    from tests.unit.apiserver.authorization.test_escalation import signing_request

    spec = signing_request("kubernetes.io/kube-apiserver-client-kubelet")
    body = {"metadata": {"name": "c"}, "spec": spec}
    told = refused(secured.post("/apis/certificates.k8s.io/v1/certificatesigningrequests", body, token=node))
    assert told.endswith("can only create a node CSR with CN=system:node:n1")


def test_node_lease_is_exclusive(secured, node):
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    secured.made("/api/v1/namespaces", {"metadata": {"name": "kube-node-lease"}})
    assert secured.post(leases, {"metadata": {"name": "n1"}}, token=node).status == 201
    told = refused(secured.post(leases, {"metadata": {"name": "n2"}}, token=node))
    assert told.endswith("can only access node lease with the same name as the requesting node")
