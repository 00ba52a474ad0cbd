"""Nobody gives themselves, or anybody else, rights that they don't have."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.secured import GROUP, RBAC, refused

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
    """As bob, without the verb `*`, which would contain `escalate` and `bind`."""
    secured.namespace("shop")
    secured.may(f"create update patch get: roles rolebindings @{GROUP}", user="eve", namespace="shop")
    secured.may("get: pods", user="eve", namespace="shop")
    return secured.knows("eve")


def test_what_one_has_one_may_pass_on(secured, no_star):
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
def test_a_role_with_more_is_refused_and_what_is_missing_is_told(secured, no_star, rule, shown):
    told = refused(secured.post(ROLES, role(rule), token=no_star))
    assert told == (
        f'roles.{GROUP} "new" is forbidden: user "eve" (groups=["system:authenticated"]) is attempting to grant '
        f"RBAC permissions not currently held:\n{shown}"
    )


def test_a_role_cannot_grow_by_an_update_either(secured, no_star):
    secured.post(ROLES, role(GET_PODS), token=no_star)
    refused(secured.put(f"{ROLES}/new", role(GET_PODS, DELETE_PODS), token=no_star))
    kept = secured.get(f"{ROLES}/new").body["rules"]
    assert kept == [GET_PODS]


def test_binding_a_stronger_role_is_refused(secured, no_star):
    secured.made(ROLES, role(DELETE_PODS, name="strong"))
    refused(secured.post(BINDINGS, binding("strong"), token=no_star))
    refused(secured.post(f"{RBAC}/clusterrolebindings", binding("cluster-admin", "ClusterRole"), token=no_star))


def test_binding_a_role_that_is_not_there_is_refused(secured, no_star):
    answer = secured.post(BINDINGS, binding("missing"), token=no_star)
    assert (answer.status, answer.body["message"]) == (404, f'rolebindings.{GROUP} "missing" not found')


def test_an_administrator_may_bind_what_is_yet_to_come(secured, no_star):
    assert secured.post(BINDINGS, binding("missing")).status == 201


def test_the_verb_escalate_lets_roles_grow(secured, bob):
    assert secured.post(ROLES, role(DELETE_PODS), token=bob).status == 201


def test_the_verb_bind_can_be_given_for_single_roles(secured, no_star):
    secured.made(ROLES, role(DELETE_PODS, name="strong"))
    secured.made(ROLES, role(DELETE_PODS, name="other"))
    secured.may(f"bind: roles @{GROUP} =strong", user=no_star, namespace="shop")
    assert secured.post(BINDINGS, binding("strong"), token=no_star).status == 201
    refused(secured.post(BINDINGS, {**binding("other"), "metadata": {"name": "second"}}, token=no_star))


def test_subjects_are_not_added_to_a_stronger_binding(secured, no_star):
    secured.made(ROLES, role(DELETE_PODS, name="strong"))
    secured.made(BINDINGS, binding("strong"))
    bigger = {**binding("strong"), "subjects": [{"kind": "User", "apiGroup": GROUP, "name": no_star}]}
    refused(secured.put(f"{BINDINGS}/new", bigger, token=no_star))


def test_letting_go_of_a_stronger_role_needs_no_right_to_it(secured, no_star):
    strong = role(DELETE_PODS, name="strong")
    strong["metadata"]["finalizers"] = ["example.com/held"]
    made = secured.made(ROLES, strong)
    del made["metadata"]["finalizers"]
    assert secured.put(f"{ROLES}/strong", made, token=no_star).status == 200


def test_only_who_may_do_everything_gathers_roles(secured):
    secured.may(f"create update: clusterroles @{GROUP}", user="eve")
    eve = secured.knows("eve")
    rule = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    told = refused(
        secured.post(f"{RBAC}/clusterroles", {"metadata": {"name": "n"}, "aggregationRule": rule}, token=eve)
    )
    assert told.endswith("must have cluster-admin privileges to use the aggregationRule")


def test_a_token_for_another_account_needs_its_own_right(secured, no_star):
    path = "/api/v1/namespaces/shop/serviceaccounts/default/token"
    told = refused(secured.post(path, {"spec": {}}, token=no_star))
    assert 'cannot create resource "serviceaccounts/token"' in told


@pytest.mark.parametrize(("subresource", "verb"), [("approval", "approve"), ("status", "sign")])
def test_approving_and_signing_need_a_right_to_the_signer(secured, subresource, verb):
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
