# SPDX-License-Identifier: Apache-2.0
"""Tests of privilege escalation checks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubeloop.cli.pki.files import ensure_pki
from tests.unit.apiserver.secured_api import GROUP, RBAC, refused

ROLES = f"{RBAC}/namespaces/shop/roles"
BINDINGS = f"{RBAC}/namespaces/shop/rolebindings"
X = [{"kind": "User", "apiGroup": GROUP, "name": "x"}]


@pytest.fixture
def bob(secured):
    """May write roles and bindings in `shop`, and has `get pods` there."""
    secured.namespace("shop")
    secured.may(f"*: roles rolebindings @{GROUP}", user="bob", namespace="shop")
    secured.may("get: pods", user="bob", namespace="shop")
    return secured.knows("bob")


def role(*rules, name="new"):
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name, kind="Role"):
    return {"metadata": {"name": "new"}, "subjects": X, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name}}


GET_PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
DELETE_PODS = {"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"]}


@pytest.fixture
def no_star(secured):
    """Act as bob without the verb `*`, which includes `escalate` and `bind`."""
    secured.namespace("shop")
    secured.may(f"create update patch get: roles rolebindings @{GROUP}", user="eve", namespace="shop")
    secured.may("get: pods", user="eve", namespace="shop")
    return secured.knows("eve")


def test_own_permissions_can_be_granted(secured, no_star):
    assert secured.post(ROLES, role(GET_PODS), token=no_star).status == 201
    assert secured.post(BINDINGS, binding("new"), token=no_star).status == 201


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        (DELETE_PODS, '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'),
        ({**GET_PODS, "verbs": ["*"]}, '{APIGroups:[""], Resources:["pods"], Verbs:["*"]}'),
        (
            {**GET_PODS, "verbs": ["get", "list", "watch"]},
            '{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}',
        ),
        ({**GET_PODS, "apiGroups": ["*"]}, '{APIGroups:["*"], Resources:["pods"], Verbs:["get"]}'),
        (
            {**DELETE_PODS, "resourceNames": ["a"]},
            '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["delete"]}',
        ),
    ],
)
def test_role_escalation_is_rejected_with_missing_rules(secured, no_star, rule, shown):
    told = refused(secured.post(ROLES, role(rule), token=no_star))
    assert told == (
        f'roles.{GROUP} "new" is forbidden: user "eve" (groups=["system:authenticated"]) is attempting to grant '
        f"RBAC permissions not currently held:\n{shown}"
    )


def test_role_escalation_by_update_is_rejected(secured, no_star):
    secured.post(ROLES, role(GET_PODS), token=no_star)
    refused(secured.put(f"{ROLES}/new", role(GET_PODS, DELETE_PODS), token=no_star))
    kept = secured.get(f"{ROLES}/new").body["rules"]
    assert kept == [GET_PODS]


def test_binding_a_stronger_role_is_rejected(secured, no_star):
    secured.made(ROLES, role(DELETE_PODS, name="strong"))
    refused(secured.post(BINDINGS, binding("strong"), token=no_star))
    refused(secured.post(f"{RBAC}/clusterrolebindings", binding("cluster-admin", "ClusterRole"), token=no_star))


def test_binding_a_missing_role_is_rejected(secured, no_star):
    answer = secured.post(BINDINGS, binding("missing"), token=no_star)
    assert (answer.status, answer.body["message"]) == (404, f'rolebindings.{GROUP} "missing" not found')


def test_administrator_may_bind_a_missing_role(secured, no_star):
    assert secured.post(BINDINGS, binding("missing")).status == 201


def test_escalate_verb_allows_escalation(secured, bob):
    assert secured.post(ROLES, role(DELETE_PODS), token=bob).status == 201


def test_bind_verb_can_be_granted_for_single_roles(secured, no_star):
    secured.made(ROLES, role(DELETE_PODS, name="strong"))
    secured.made(ROLES, role(DELETE_PODS, name="other"))
    secured.may(f"bind: roles @{GROUP} =strong", user=no_star, namespace="shop")
    assert secured.post(BINDINGS, binding("strong"), token=no_star).status == 201
    refused(secured.post(BINDINGS, {**binding("other"), "metadata": {"name": "second"}}, token=no_star))


def test_subjects_cannot_be_added_to_a_stronger_binding(secured, no_star):
    secured.made(ROLES, role(DELETE_PODS, name="strong"))
    secured.made(BINDINGS, binding("strong"))
    bigger = {**binding("strong"), "subjects": [{"kind": "User", "apiGroup": GROUP, "name": no_star}]}
    refused(secured.put(f"{BINDINGS}/new", bigger, token=no_star))


def test_removing_a_stronger_role_needs_no_permission(secured, no_star):
    strong = role(DELETE_PODS, name="strong")
    strong["metadata"]["finalizers"] = ["example.com/held"]
    made = secured.made(ROLES, strong)
    del made["metadata"]["finalizers"]
    assert secured.put(f"{ROLES}/strong", made, token=no_star).status == 200


def test_aggregation_rules_require_full_permissions(secured):
    secured.may(f"create update: clusterroles @{GROUP}", user="eve")
    eve = secured.knows("eve")
    rule = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    told = refused(
        secured.post(f"{RBAC}/clusterroles", {"metadata": {"name": "n"}, "aggregationRule": rule}, token=eve)
    )
    assert told.endswith("must have cluster-admin privileges to use the aggregationRule")


def test_token_for_another_account_requires_permission(secured, no_star):
    path = "/api/v1/namespaces/shop/serviceaccounts/default/token"
    told = refused(secured.post(path, {"spec": {}}, token=no_star))
    assert 'cannot create resource "serviceaccounts/token"' in told


@pytest.mark.parametrize(("subresource", "verb"), [("approval", "approve"), ("status", "sign")])
def test_approving_and_signing_require_permission_for_the_signer(secured, subresource, verb):
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    secured.may(
        "patch: certificatesigningrequests/approval certificatesigningrequests/status @certificates.k8s.io", user="eve"
    )
    eve = secured.knows("eve")
    made = secured.made(requests, {"metadata": {"name": "c"}, "spec": signing_request("example.com/one")})
    assert (made["spec"]["username"], made["spec"]["groups"]) == ("admin", ["system:masters", "system:authenticated"])
    approved = {"type": "Approved" if subresource == "approval" else "Failed", "status": "True", "reason": "R"}
    patch = {"status": {"conditions": [approved]}}

    def attempt():
        return secured.ask(
            "PATCH", f"{requests}/c/{subresource}", patch, token=eve, content_type="application/merge-patch+json"
        )

    assert refused(attempt()).endswith(f'user not permitted to {verb} requests with signerName "example.com/one"')
    secured.may(f"{verb}: signers @certificates.k8s.io =example.com/*", user=eve)
    assert attempt().status == 200


def signing_request(signer):
    import base64

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bob")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = request.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    pem = signed.public_bytes(serialization.Encoding.PEM)
    return {
        "request": base64.b64encode(pem).decode(),
        "signerName": signer,
        "usages": ["client auth"],
        "username": "liar",
    }


# -- ClusterTrustBundles ----------------------------------------------------------------------------------------------

BUNDLES = "/apis/certificates.k8s.io/v1/clustertrustbundles"


@pytest.fixture(scope="module")
def anchor(tmp_path_factory):
    """A trust anchor in PEM."""
    folder = tmp_path_factory.mktemp("pki")
    return ensure_pki(folder, ["localhost"], datetime(2026, 5, 10, tzinfo=UTC)).ca.read_text()


def test_publishing_a_signers_anchors_needs_the_permission_to_attest(secured, anchor):
    def _bundle(name="example.com:sign:b", signer="example.com/sign"):
        return {"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": anchor}}

    secured.knows("jane")
    secured.may("create update: clustertrustbundles @certificates.k8s.io", user="jane")
    told = refused(secured.post(BUNDLES, _bundle(), token="jane"))
    assert told == (
        'clustertrustbundles.certificates.k8s.io "example.com:sign:b" is forbidden: '
        'user not permitted to attest for signerName "example.com/sign"'
    )
    assert secured.post(BUNDLES, _bundle("b", ""), token="jane").status == 201
    made = secured.post(BUNDLES, _bundle()).body
    made["metadata"]["finalizers"] = ["example.com/f"]
    kept = secured.put(f"{BUNDLES}/example.com:sign:b", made, token="jane")
    assert kept.status == 200
    kept.body["metadata"]["labels"] = {"a": "b"}
    assert refused(secured.put(f"{BUNDLES}/example.com:sign:b", kept.body, token="jane"))
    secured.may("attest: signers @certificates.k8s.io =example.com/*", user="jane")
    assert secured.put(f"{BUNDLES}/example.com:sign:b", kept.body, token="jane").status == 200


def test_an_aggregation_that_selects_nothing_needs_no_administrator(secured):
    secured.knows("eve")
    secured.may(f"create get: clusterroles @{GROUP}", user="eve")
    body = {"metadata": {"name": "empty"}, "rules": [], "aggregationRule": {"clusterRoleSelectors": []}}
    answer = secured.post(f"{RBAC}/clusterroles", body, token="eve")
    assert "cluster-admin" not in str(answer.body.get("message"))
    body["aggregationRule"]["clusterRoleSelectors"] = [{"matchLabels": {"a": "b"}}]
    assert "must have cluster-admin privileges" in refused(secured.post(f"{RBAC}/clusterroles", body, token="eve"))
