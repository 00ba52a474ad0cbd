# SPDX-License-Identifier: Apache-2.0
"""NodeRestriction, rule by rule: what a node may not write even if it is authorized."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from kubeloop.api import errors
from kubeloop.api.codec import from_plain
from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES
from kubeloop.api.generated.authentication_v1 import TokenRequest
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.admission import Attributes
from kubeloop.apiserver.admission.plugins.node.restriction import NodeRestriction
from kubeloop.apiserver.authorization.attributes import AuthorizationDecision
from kubeloop.apiserver.request.context import User

NODES = "system:nodes"
NODE = User("system:node:n1", (NODES, "system:authenticated"))
MIRROR = {"kubernetes.io/config.mirror": "x"}
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": True}


class FixedAuthorizer:
    """Answers every question alike."""

    def __init__(self, allowed=False):
        self._decision = AuthorizationDecision(allowed)
        self.asked = []

    def decide(self, asked):
        self.asked.append(asked)
        return self._decision

    async def wait_decision(self, asked):
        return self.decide(asked)


@pytest.fixture
def restriction(cluster):
    cluster.add("nodes", "n1", metadata={"uid": "node-uid"})
    cluster.add("pods", "here", "shop", {"uid": "pod-uid"}, spec={"nodeName": "n1", "serviceAccountName": "sa"})
    cluster.add("pods", "there", "shop", {"uid": "pod-uid"}, spec={"nodeName": "n2", "serviceAccountName": "sa"})
    mirror = {"uid": "pod-uid", "annotations": MIRROR}
    cluster.add("pods", "mirror", "shop", mirror, spec={"nodeName": "n1", "serviceAccountName": "sa"})
    return NodeRestriction(cluster, FixedAuthorizer())


def _resource(plural):
    return next(one for one in (*RESOURCES, *OPTIONAL_RESOURCES) if one.plural == plural)


def _refusal(plugin, operation, plural, new=None, old=None, *, subresource="", namespace="shop", name="x", user=NODE):
    """The refusal of a write, without what it begins with; empty if it is admitted."""
    resource = _resource(plural)
    if not plugin.handles(operation, resource, subresource):
        return ""

    def built(plain):
        if plain is None:
            return None
        if subresource == "token":
            return from_plain(plain, TokenRequest)
        return from_plain({**plain, "metadata": {"name": name, **plain.get("metadata", {})}}, resource.type)

    noon = datetime(2026, 5, 10, 12, tzinfo=UTC)
    attempt = Attributes(
        operation, resource, subresource, namespace, name, built(new), built(old), user, False, noon, []
    )
    try:
        waiting = plugin.admit(attempt)
        if waiting is not None:
            asyncio.run(waiting)
    except errors.ApiError as error:
        return error.message.partition(" is forbidden: ")[2] or error.message
    return ""


def test_other_users_are_not_restricted(restriction):
    assert _refusal(restriction, "DELETE", "nodes", user=User("jane"), name="n2") == ""


def test_a_node_without_a_name_may_do_nothing(restriction):
    nameless = User("kubelet", (NODES,))
    told = _refusal(restriction, "CREATE", "nodes", {}, name="n1", user=nameless)
    assert told in ("", 'could not determine node from user "kubelet"')
    nameless = User("system:node:", (NODES,))
    assert _refusal(restriction, "CREATE", "nodes", {}, user=nameless) == (
        'could not determine node from user "system:node:"'
    )


def test_connections_and_other_resources_are_not_restricted(restriction):
    assert not restriction.handles("CONNECT", _resource("pods"), "exec")
    assert not restriction.handles("CREATE", _resource("configmaps"), "")


# -- pods -------------------------------------------------------------------------------------------------------------


def _mirror(spec=None, owners=(OWNER,), annotations=None, node="n1"):
    metadata = {"annotations": MIRROR if annotations is None else annotations, "ownerReferences": list(owners)}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "c"}], **(spec or {})}}


def _volume(**source):
    return {"volumes": [{"name": "v", **source}]}


def _projected(**source):
    return _volume(projected={"sources": [source]})


def _env(**container):
    return {"containers": [{"name": "c", **container}]}


CREATE = 'node "n1" can only create pods with '
REFERENCE = 'node "n1" can not create pods that reference '


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (_mirror(), ""),
        (
            _mirror(annotations={}),
            'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods',
        ),
        (_mirror(node="n2"), CREATE + "spec.nodeName set to itself"),
        (_mirror(owners=(OWNER, {**OWNER, "name": "o"})), CREATE + "a single owner reference set to itself"),
        (_mirror(owners=()), CREATE + "an owner reference set to itself"),
        (_mirror(owners=({**OWNER, "name": "n2"},)), CREATE + "an owner reference set to itself"),
        (_mirror(owners=({**OWNER, "controller": False},)), CREATE + "a controller owner reference set to itself"),
        (
            _mirror(owners=({**OWNER, "blockOwnerDeletion": True},)),
            'node "n1" must not set blockOwnerDeletion on an owner reference',
        ),
        (_mirror(owners=({**OWNER, "uid": "u"},)), "node n1 UID mismatch: expected u got node-uid"),
        (_mirror({"serviceAccountName": "sa"}), REFERENCE + "serviceaccounts"),
        (_mirror(_volume(secret={"secretName": "s"})), REFERENCE + "secrets"),
        (_mirror({"imagePullSecrets": [{"name": "s"}]}), REFERENCE + "secrets"),
        (_mirror(_volume(configMap={"name": "m"})), REFERENCE + "configmaps"),
        (_mirror(_env(envFrom=[{"configMapRef": {"name": "m"}}])), REFERENCE + "configmaps"),
        (
            _mirror(_env(env=[{"name": "e", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}])),
            REFERENCE + "configmaps",
        ),
        (_mirror(_projected(configMap={"name": "m"})), REFERENCE + "configmaps"),
        (
            _mirror({"resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}),
            REFERENCE + "resourceclaims",
        ),
        (_mirror(_volume(persistentVolumeClaim={"claimName": "c"})), REFERENCE + "persistentvolumeclaims"),
        (_mirror(_volume(ephemeral={})), REFERENCE + "persistentvolumeclaims (via ephemeral volumes)"),
        (
            _mirror(_projected(serviceAccountToken={"path": "t"})),
            REFERENCE + "serviceaccounts (via projected volumes)",
        ),
        (_mirror(_projected(clusterTrustBundle={"path": "t"})), REFERENCE + "clustertrustbundles"),
        (
            _mirror(_projected(podCertificate={"signerName": "a/b", "keyType": "ED25519"})),
            REFERENCE + "podcertificates",
        ),
    ],
)
def test_a_node_creates_only_its_own_mirror_pods(restriction, pod, message):
    assert _refusal(restriction, "CREATE", "pods", pod) == message


def test_a_mirror_pod_needs_its_node(cluster):
    plugin = NodeRestriction(cluster, FixedAuthorizer())
    assert _refusal(plugin, "CREATE", "pods", _mirror()) == 'nodes "n1" not found'


@pytest.mark.parametrize(
    ("node", "message"),
    [("n1", ""), ("n2", 'node "n1" can only delete pods with spec.nodeName set to itself')],
)
def test_a_node_deletes_only_its_own_pods(restriction, node, message):
    assert _refusal(restriction, "DELETE", "pods", old={"spec": {"nodeName": node}}) == message


def test_a_node_updates_no_pods(restriction):
    told = 'unexpected operation "UPDATE", node "n1" can only create and delete mirror pods'
    assert _refusal(restriction, "UPDATE", "pods", {}, {}) == told


def test_other_subresources_of_pods_are_refused(restriction):
    told = "unexpected pod subresource \"resize\", only 'status' and 'eviction' are allowed"
    assert _refusal(restriction, "UPDATE", "pods", {}, {}, subresource="resize") == told


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("here", ""),
        ("there", "node n1 can only evict pods with spec.nodeName set to itself"),
        ("none", 'pods "none" not found'),
    ],
)
def test_a_node_evicts_only_its_own_pods(restriction, name, message):
    assert _refusal(restriction, "CREATE", "pods", subresource="eviction", name=name) == message


OWN_POD = {"spec": {"nodeName": "n1"}}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (OWN_POD, {**OWN_POD, "status": {"phase": "Running"}}, ""),
        (
            {"spec": {"nodeName": "n2"}},
            OWN_POD,
            'node "n1" can only update pod status for pods with spec.nodeName set to itself',
        ),
        (
            OWN_POD,
            {**OWN_POD, "metadata": {"labels": {"a": "b"}}},
            'node "n1" cannot update labels through pod status',
        ),
        (
            OWN_POD,
            {**OWN_POD, "status": {"resourceClaimStatuses": [{"name": "c"}]}},
            'node "n1" cannot update resource claim statues',
        ),
        (
            OWN_POD,
            {**OWN_POD, "status": {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []}}},
            'node "n1" cannot update extended resource claim status',
        ),
    ],
)
def test_a_node_updates_only_the_status_of_its_own_pods(restriction, old, new, message):
    assert _refusal(restriction, "UPDATE", "pods", new, old, subresource="status") == message


def test_the_status_of_pods_is_only_updated(restriction):
    told = _refusal(restriction, "CREATE", "pods", OWN_POD, subresource="status")
    assert told == 'unexpected operation "CREATE"'


# -- nodes ------------------------------------------------------------------------------------------------------------


def _labelled(*labels):
    return {"metadata": {"labels": dict.fromkeys(labels, "x")}}


SOURCE = {"spec": {"configSource": {"configMap": {"name": "m", "namespace": "n", "kubeletConfigKey": "k"}}}}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (None, {}, ""),
        (None, SOURCE, 'node "n1" is not allowed to create pods with a non-nil configSource'),
        (
            None,
            _labelled("node-restriction.kubernetes.io/b", "kubernetes.io/role", "kubernetes.io/os", "own"),
            'node "n1" is not allowed to set the following labels: kubernetes.io/role, '
            "node-restriction.kubernetes.io/b",
        ),
        (None, _labelled("kubelet.kubernetes.io/a", "x.node.kubernetes.io/a", "example.com/a"), ""),
        (_labelled("sub.k8s.io/a"), {}, "is not allowed to modify labels: sub.k8s.io/a"),
        (_labelled("sub.k8s.io/a"), _labelled("sub.k8s.io/a"), ""),
        ({}, SOURCE, 'node "n1" is not allowed to update configSource to a new non-nil configSource'),
        (SOURCE, SOURCE, ""),
        (SOURCE, {}, ""),
        (
            {},
            {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
            'node "n1" is not allowed to modify taints',
        ),
        ({}, {"metadata": {"ownerReferences": [OWNER]}}, 'node "n1" is not allowed to modify ownerReferences'),
    ],
)
def test_a_node_may_not_change_what_keeps_workloads_away(restriction, old, new, message):
    operation = "CREATE" if old is None else "UPDATE"
    assert _refusal(restriction, operation, "nodes", new, old, name="n1", namespace="") == message


def test_a_node_writes_only_its_own_node(restriction):
    told = 'node "n1" is not allowed to modify node "n2"'
    assert _refusal(restriction, "UPDATE", "nodes", {}, {}, name="n2") == told
    assert _refusal(restriction, "DELETE", "nodes", None, {}, name="n1") == ""


# -- leases, CSINodes, ResourceSlices ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("namespace", "name", "message"),
    [
        ("kube-node-lease", "n1", ""),
        ("shop", "n1", 'can only access leases in the "kube-node-lease" system namespace'),
        ("kube-node-lease", "n2", "can only access node lease with the same name as the requesting node"),
    ],
)
def test_a_node_writes_only_its_own_lease(restriction, namespace, name, message):
    assert _refusal(restriction, "UPDATE", "leases", {}, {}, namespace=namespace, name=name) == message


@pytest.mark.parametrize(
    ("name", "message"), [("n1", ""), ("n2", "can only access CSINode with the same name as the requesting node")]
)
def test_a_node_writes_only_its_own_csi_node(restriction, name, message):
    assert _refusal(restriction, "CREATE", "csinodes", {}, name=name) == message


OF_N2 = {"spec": {"nodeName": "n2"}}


@pytest.mark.parametrize(
    ("operation", "new", "old", "message"),
    [
        ("CREATE", OWN_POD, None, ""),
        ("CREATE", OF_N2, None, "can only create ResourceSlice with the same NodeName as the requesting node"),
        ("DELETE", None, OWN_POD, ""),
        ("DELETE", None, OF_N2, "can only delete ResourceSlice with the same NodeName as the requesting node"),
        ("DELETE", None, None, "can only delete ResourceSlice with the same NodeName as the requesting node"),
        ("UPDATE", OF_N2, OF_N2, ""),
    ],
)
def test_a_node_creates_and_deletes_only_its_own_slices(restriction, operation, new, old, message):
    assert _refusal(restriction, operation, "resourceslices", new, old) == message


# -- claims, tokens, certificates -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "subresource", "new", "message"),
    [
        ("UPDATE", "status", {"status": {"capacity": {"storage": "1Gi"}}}, ""),
        ("UPDATE", "status", {"metadata": {"resourceVersion": "8"}}, ""),
        ("UPDATE", "", {}, "may only update PVC status"),
        ("CREATE", "status", {}, 'unexpected operation "CREATE"'),
        (
            "UPDATE",
            "status",
            {"status": {"phase": "Bound"}},
            'node "n1" is not allowed to update fields other than status.quantity and status.conditions',
        ),
    ],
)
def test_a_node_updates_only_capacity_and_conditions_of_claims(restriction, operation, subresource, new, message):
    told = _refusal(restriction, operation, "persistentvolumeclaims", new, {}, subresource=subresource)
    assert told == message


def _token(audiences=("a",), **bound):
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "here", "uid": "pod-uid", **bound}
    return {"spec": {"audiences": list(audiences), "boundObjectRef": reference}}


NO_AUDIENCE = 'system:node:n1 is not authorized to request tokens for audience "a"'


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"spec": {"audiences": ["a"]}}, "node requested token not bound to a pod"),
        (_token(kind="Secret"), "node requested token not bound to a pod"),
        (_token(apiVersion="v2"), "node requested token not bound to a pod"),
        (_token(name=""), "node requested token not bound to a pod"),
        (_token(uid=""), "node requested token with a pod binding without a uid"),
        (_token(name="none"), 'pods "none" not found'),
        (
            _token(uid="other"),
            "the UID in the bound object reference (other) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        ),
        (_token(name="there"), "node requested token bound to a pod scheduled on a different node"),
        (_token(("a", "b")), "node may only request 0 or 1 audiences"),
        (_token(), NO_AUDIENCE),
    ],
)
def test_a_node_requests_only_tokens_of_its_own_pods(restriction, request_, message):
    told = _refusal(restriction, "CREATE", "serviceaccounts", request_, subresource="token", name="sa")
    assert told == message


def test_other_writes_of_accounts_are_not_restricted(restriction):
    assert _refusal(restriction, "UPDATE", "serviceaccounts", {}, {}) == ""
    assert _refusal(restriction, "CREATE", "serviceaccounts", {}) == ""


def test_a_permission_allows_any_audience(cluster, restriction):
    authorizer = FixedAuthorizer(True)
    allowed = NodeRestriction(cluster, authorizer)
    assert _refusal(allowed, "CREATE", "serviceaccounts", _token(), subresource="token", name="sa") == ""
    (asked,) = authorizer.asked
    assert (asked.verb, asked.resource, asked.name) == ("request-serviceaccounts-token-audience", "a", "sa")


def _with_driver(cluster, volume, name="here2"):
    spec = {"nodeName": "n1", "volumes": [{"name": "v", **volume}]}
    cluster.add("pods", name, "shop", {"uid": "pod-uid"}, spec=spec)
    cluster.add("csidrivers", "driver", spec={"tokenRequests": [{"audience": "a"}]})
    cluster.add("persistentvolumeclaims", "claim", "shop", spec={"volumeName": "pv"})
    cluster.add("persistentvolumeclaims", "here2-v", "shop", spec={"volumeName": "pv"})
    cluster.add("persistentvolumes", "pv", spec={"csi": {"driver": "driver", "volumeHandle": "h"}})


@pytest.mark.parametrize(
    "volume",
    [
        {"csi": {"driver": "driver"}},
        {"persistentVolumeClaim": {"claimName": "claim"}},
        {"ephemeral": {}},
        {"projected": {"sources": [{"serviceAccountToken": {"audience": "a", "path": "t"}}]}},
    ],
)
def test_an_audience_that_the_pod_mounts_needs_no_permission(cluster, restriction, volume):
    _with_driver(cluster, volume)
    asked = _token(name="here2")
    assert _refusal(restriction, "CREATE", "serviceaccounts", asked, subresource="token", name="sa") == ""
    other = _token(("b",), name="here2")
    assert _refusal(restriction, "CREATE", "serviceaccounts", other, subresource="token", name="sa")


def _certificate(**spec):
    return {
        "spec": {
            "nodeName": "n1",
            "podName": "here",
            "podUID": "pod-uid",
            "serviceAccountName": "sa",
            "signerName": "example.com/sign",
            **spec,
        }
    }


UNMOUNTED = 'pod "shop/here" does not mount a podCertificate projected volume for signer "example.com/sign"'


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nodeName": "n2"}, 'PodCertificateRequest.Spec.NodeName="n2", which is not the requesting node "n1"'),
        ({"podName": "none"}, 'pods "none" not found'),
        (
            {"podUID": "other"},
            'Internal error occurred: PodCertificateRequest for pod "shop/here" contains pod UID ("other") '
            'which differs from running pod "pod-uid"',
        ),
        ({"podName": "there"}, 'pod "shop/there" is not running on node "n1" named in the PodCertificateRequest'),
        ({"podName": "mirror"}, 'pod "shop/mirror" is a mirror pod'),
        (
            {"serviceAccountName": "other"},
            'PodCertificateRequest for pod "shop/here" contains serviceAccountName ("other") that differs from '
            'running pod ("sa")',
        ),
        ({}, UNMOUNTED),
    ],
)
def test_a_node_requests_only_certificates_that_its_pods_mount(restriction, spec, message):
    assert _refusal(restriction, "CREATE", "podcertificaterequests", _certificate(**spec)) == message


def test_a_mounted_or_permitted_signer_is_allowed(cluster, restriction):
    source = {"podCertificate": {"signerName": "example.com/sign", "keyType": "ED25519"}}
    spec = {"nodeName": "n1", "serviceAccountName": "sa", **_projected(**source)}
    cluster.add("pods", "mounting", "shop", {"uid": "pod-uid"}, spec=spec)
    asked = _certificate(podName="mounting")
    assert _refusal(restriction, "CREATE", "podcertificaterequests", asked) == ""
    allowed = NodeRestriction(cluster, FixedAuthorizer(True))
    assert _refusal(allowed, "CREATE", "podcertificaterequests", _certificate()) == ""


@pytest.mark.parametrize(
    ("operation", "subresource", "message"),
    [("UPDATE", "", "unexpected operation UPDATE"), ("CREATE", "status", "unexpected subresource status")],
)
def test_certificates_of_pods_are_only_requested(restriction, operation, subresource, message):
    told = _refusal(restriction, operation, "podcertificaterequests", _certificate(), {}, subresource=subresource)
    assert told == message


def _signing_request(name="system:node:n1", signer="kubernetes.io/kubelet-serving"):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return {"spec": {"signerName": signer, "request": _base64(signed.public_bytes(serialization.Encoding.PEM))}}


def _base64(data):
    import base64

    return base64.b64encode(data).decode()


OTHER = "can only create a node CSR with CN=system:node:n1"


@pytest.mark.parametrize(
    ("operation", "name", "signer", "message"),
    [
        ("CREATE", "system:node:n1", "kubernetes.io/kubelet-serving", ""),
        ("CREATE", "system:node:n2", "kubernetes.io/kubelet-serving", OTHER),
        ("CREATE", "system:node:n2", "kubernetes.io/kube-apiserver-client-kubelet", OTHER),
        ("CREATE", "system:node:n2", "example.com/other", ""),
        ("UPDATE", "system:node:n2", "kubernetes.io/kubelet-serving", ""),
    ],
)
def test_a_node_requests_certificates_for_itself(restriction, operation, name, signer, message):
    told = _refusal(restriction, operation, "certificatesigningrequests", _signing_request(name, signer))
    assert told == message


def test_a_request_that_cannot_be_parsed_is_refused(restriction):
    body = {"spec": {"signerName": "kubernetes.io/kubelet-serving", "request": _base64(b"x")}}
    assert _refusal(restriction, "CREATE", "certificatesigningrequests", body).startswith("unable to parse csr: ")
