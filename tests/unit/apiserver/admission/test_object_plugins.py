# SPDX-License-Identifier: Apache-2.0
"""Admission tests of nodes, volumes, claims, ingresses and signing requests."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeloop.api import errors

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
DEFAULT_STORAGE = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
DEFAULT_INGRESS = {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}


def test_new_node_is_tainted_not_ready(writes):
    assert writes.create("nodes")["spec"]["taints"] == [NOT_READY]
    assert writes.create("nodes", spec={"taints": [NOT_READY]})["spec"]["taints"] == [NOT_READY]


def test_updated_node_gets_no_taint(writes):
    assert "taints" not in writes.update("nodes", "", {}, {}).get("spec", {})


@pytest.mark.parametrize(
    ("plural", "namespace", "finalizer"),
    [
        ("persistentvolumes", "", "kubernetes.io/pv-protection"),
        ("persistentvolumeclaims", "shop", "kubernetes.io/pvc-protection"),
        ("volumeattributesclasses", "", "kubernetes.io/vac-protection"),
    ],
)
def test_storage_is_protected_while_in_use(writes, plural, namespace, finalizer):
    assert writes.create(plural, namespace)["metadata"]["finalizers"] == [finalizer]
    given = {"finalizers": [finalizer, "example.com/mine"]}
    assert writes.create(plural, namespace, metadata=given)["metadata"]["finalizers"] == given["finalizers"]


def test_a_claim_gets_the_newest_default_storage_class(cluster, writes):
    assert "storageClassName" not in writes.create("persistentvolumeclaims", "shop")["spec"]
    for name, time in (("old", "2026-01-01T00:00:00Z"), ("b", "2026-02-01T00:00:00Z"), ("a", "2026-02-01T00:00:00Z")):
        cluster.add("storageclasses", name, metadata={**DEFAULT_STORAGE, "creationTimestamp": time}, provisioner="p")
    assert writes.create("persistentvolumeclaims", "shop")["spec"]["storageClassName"] == "a"


@pytest.mark.parametrize(
    "claim",
    [
        {"spec": {"storageClassName": ""}},
        {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}},
    ],
)
def test_claim_with_an_explicit_class_is_unchanged(cluster, writes, claim):
    cluster.add("storageclasses", "a", metadata=DEFAULT_STORAGE, provisioner="p")
    assert writes.create("persistentvolumeclaims", "shop", **claim)["spec"].get("storageClassName", "") == ""


def test_ingress_gets_the_default_class_unless_set(cluster, writes):
    cluster.add("ingressclasses", "edge", metadata=DEFAULT_INGRESS)
    assert writes.create("ingresses", "shop")["spec"]["ingressClassName"] == "edge"
    own = writes.create("ingresses", "shop", spec={"ingressClassName": "own"})
    assert own["spec"]["ingressClassName"] == "own"
    annotated = writes.create("ingresses", "shop", metadata={"annotations": {"kubernetes.io/ingress.class": "old"}})
    assert "ingressClassName" not in annotated["spec"]


def _claim(size, phase="Bound", class_name="fast"):
    spec = {"resources": {"requests": {"storage": size}}, "storageClassName": class_name}
    return {"spec": spec, "status": {"phase": phase}}


def test_bound_claim_can_be_expanded_if_its_class_allows(cluster, writes):
    cluster.add("storageclasses", "fast", provisioner="p", allowVolumeExpansion=True)
    writes.update("persistentvolumeclaims", "shop", _claim("1Gi"), _claim("2Gi"))


@pytest.mark.parametrize("class_name", ["fixed", "ghost", ""])
def test_claim_cannot_be_expanded_if_its_class_disallows(cluster, writes, class_name):
    cluster.add("storageclasses", "fixed", provisioner="p")
    with pytest.raises(errors.Forbidden) as caught:
        writes.update(
            "persistentvolumeclaims",
            "shop",
            _claim("1Gi", class_name=class_name),
            _claim("1025Mi", class_name=class_name),
        )
    assert caught.value.message == (
        'persistentvolumeclaims "x" is forbidden: only dynamically provisioned pvc can be resized and '
        "the storageclass that provisions the pvc must support resize"
    )


def test_unbound_claim_cannot_be_expanded(writes):
    with pytest.raises(errors.Forbidden, match="Only bound persistent volume claims can be expanded"):
        writes.update("persistentvolumeclaims", "shop", _claim("1Gi", "Pending"), _claim("2Gi", "Pending"))
    writes.update("persistentvolumeclaims", "shop", _claim("1Gi", "Pending"), _claim("1024Mi", "Pending"))


def _signing_request(organization):
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "jane"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
        ]
    )
    built = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = built.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


def test_certificate_for_system_masters_is_rejected(writes):
    spec = {"signerName": CLIENT_SIGNER, "request": _signing_request("system:masters"), "usages": ["client auth"]}
    with pytest.raises(errors.Forbidden) as caught:
        writes.create("certificatesigningrequests", spec=spec)
    assert caught.value.message == (
        'certificatesigningrequests.certificates.k8s.io "x" is forbidden: '
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    )


def test_other_groups_and_signers_are_accepted(writes):
    writes.create(
        "certificatesigningrequests", spec={"signerName": CLIENT_SIGNER, "request": _signing_request("developers")}
    )
    writes.create(
        "certificatesigningrequests",
        spec={"signerName": "example.com/s", "request": _signing_request("system:masters")},
    )
