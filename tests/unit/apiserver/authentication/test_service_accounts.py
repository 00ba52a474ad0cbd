# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts as a way in: which hold, and what is refused."""

from __future__ import annotations

import base64
import json

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from kubeloop.api.signed_tokens import SigningKey
from tests.unit.apiserver.conftest import ISSUER, POD_SPEC

SHOP = "/api/v1/namespaces/shop"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


@pytest.fixture
def shop(secured):
    secured.namespace("shop")
    secured.may("create: selfsubjectreviews @authentication.k8s.io", group="system:serviceaccounts")
    return secured


def token_for(api, **spec):
    return api.made(f"{SHOP}/serviceaccounts/default/token", {"spec": spec})["status"]["token"]


def user_of_token(api, token):
    answer = api.post(WHO, {}, token=token)
    return answer.body["status"]["userInfo"] if answer.status == 201 else answer.status


def parts(token):
    return [base64.urlsafe_b64decode(part + "==") for part in token.split(".")]


def encoded(document):
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_token_authenticates_its_account(shop):
    info = user_of_token(shop, token_for(shop))
    assert info["username"] == "system:serviceaccount:shop:default"
    assert info["groups"] == ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]
    assert info["uid"] == shop.get(f"{SHOP}/serviceaccounts/default").body["metadata"]["uid"]
    (credential,) = info["extra"]["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("JTI=")


def test_pod_token_has_pod_and_node(shop):
    shop.made("/api/v1/nodes", {"metadata": {"name": "n1"}})
    pod = shop.made(f"{SHOP}/pods", {"metadata": {"name": "p"}, "spec": {**POD_SPEC, "nodeName": "n1"}})
    extra = user_of_token(shop, token_for(shop, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"}))[
        "extra"
    ]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    assert extra["authentication.kubernetes.io/node-name"] == ["n1"]


def test_expired_token_is_rejected(shop):
    token = token_for(shop, expirationSeconds=600)
    shop.clock.advance(659)
    assert user_of_token(shop, token) != 401
    shop.clock.advance(2)
    assert user_of_token(shop, token) == 401


def test_server_with_a_late_clock_rejects_a_token_until_corrected(shop):
    token = token_for(shop)
    shop.clock.advance(-59)
    assert user_of_token(shop, token) != 401, "clocks may be apart a little"
    shop.clock.advance(-2)
    assert user_of_token(shop, token) == 401
    shop.clock.advance(-600)
    assert user_of_token(shop, token) == 401
    shop.clock.advance(661)
    assert user_of_token(shop, token) != 401, "nobody has remembered that it was refused"


def test_token_for_another_audience_is_rejected(shop):
    assert user_of_token(shop, token_for(shop, audiences=["vault"])) == 401
    assert user_of_token(shop, token_for(shop, audiences=["vault", ISSUER])) != 401


def test_a_token_is_revoked_with_its_account(shop):
    token = token_for(shop)
    assert user_of_token(shop, token) != 401
    shop.ask("DELETE", f"{SHOP}/serviceaccounts/default")
    assert user_of_token(shop, token) == 401
    shop.made(f"{SHOP}/serviceaccounts", {"metadata": {"name": "default"}})
    assert user_of_token(shop, token) == 401, "another account of the same name is another account"


@pytest.mark.parametrize("kind", ["Pod", "Secret"])
def test_token_is_revoked_with_its_bound_object(shop, kind):
    body = {"metadata": {"name": "x"}} | ({"spec": POD_SPEC} if kind == "Pod" else {})
    where = f"{SHOP}/{kind.lower()}s"
    shop.made(where, body)
    token = token_for(shop, boundObjectRef={"kind": kind, "apiVersion": "v1", "name": "x"})
    assert user_of_token(shop, token) != 401
    shop.ask("DELETE", f"{where}/x?gracePeriodSeconds=0")
    assert user_of_token(shop, token) == 401


def test_forged_tokens_are_rejected(shop):
    head, claims, signature = parts(token_for(shop))
    said = json.loads(claims)
    more = {**said, "sub": "system:serviceaccount:kube-system:default"}
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    none = {"alg": "none", "kid": json.loads(head)["kid"]}
    forged = [
        f"{encoded(none)}.{encoded(claims)}.",
        f"{encoded({'alg': 'none'})}.{encoded(claims)}.{encoded(signature)}",
        f"{encoded({**json.loads(head), 'alg': 'HS256'})}.{encoded(claims)}.{encoded(signature)}",
        f"{encoded(head)}.{encoded(more)}.{encoded(signature)}",
        f"{encoded(head)}.{encoded(claims)}.{encoded(bytes(64))}",
        f"{encoded(head)}.{encoded(claims)}.{encoded(signature[:-1] + bytes([signature[-1] ^ 1]))}",
        SigningKey(pem).sign(said),
        f"{encoded(head)}.{encoded(claims)}",
        "..",
        "a.b.c",
    ]
    for token in forged:
        assert user_of_token(shop, token) == 401, token


def test_token_of_another_issuer_is_rejected(shop):
    claims = json.loads(parts(token_for(shop))[1])
    assert user_of_token(shop, shop.sign({**claims, "iss": "https://example.com"})) == 401


def test_token_of_a_former_issuer_is_accepted(shop):
    claims = json.loads(parts(token_for(shop))[1])
    assert (
        user_of_token(shop, shop.sign({**claims, "iss": "https://before"}))["username"]
        == "system:serviceaccount:shop:default"
    )


def test_token_review_has_the_error(shop):
    token = token_for(shop, audiences=["vault"])
    ours = shop.made(REVIEWS, {"spec": {"token": token}})["status"]
    assert "authenticated" not in ours or not ours["authenticated"]
    theirs = shop.made(REVIEWS, {"spec": {"token": token, "audiences": ["vault", "bank"]}})["status"]
    assert (theirs["authenticated"], theirs["audiences"]) == (True, ["vault"])


# -- tokens in secrets ------------------------------------------------------------------------------------------------


@pytest.fixture
def legacy(shop):
    """A token as the token controller writes it into a secret."""
    account = shop.get(f"{SHOP}/serviceaccounts/default").body["metadata"]
    prefix = "kubernetes.io/serviceaccount/"
    token = shop.sign(
        {
            "iss": "kubernetes/serviceaccount",
            "sub": "system:serviceaccount:shop:default",
            f"{prefix}namespace": "shop",
            f"{prefix}secret.name": "t",
            f"{prefix}service-account.name": "default",
            f"{prefix}service-account.uid": account["uid"],
        }
    )
    meta = {"name": "t", "annotations": {"kubernetes.io/service-account.name": "default"}}
    data = {"token": base64.b64encode(token.encode()).decode()}
    shop.made(f"{SHOP}/secrets", {"metadata": meta, "type": "kubernetes.io/service-account-token", "data": data})
    return token


def test_secret_token_never_expires(shop, legacy):
    shop.clock.advance(10 * 365 * 24 * 3600)
    assert user_of_token(shop, legacy)["username"] == "system:serviceaccount:shop:default"


@pytest.mark.parametrize("gone", ["secrets/t", "serviceaccounts/default"])
def test_secret_token_is_revoked_with_secret_and_account(shop, legacy, gone):
    assert user_of_token(shop, legacy) != 401
    shop.ask("DELETE", f"{SHOP}/{gone}")
    assert user_of_token(shop, legacy) == 401


@pytest.mark.parametrize(
    "patch",
    [
        {"data": {"token": base64.b64encode(b"another").decode()}},
        {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}},
    ],
)
def test_token_that_differs_from_its_secret_is_rejected(shop, legacy, patch):
    assert shop.patch("merge", f"{SHOP}/secrets/t", patch).status == 200
    assert user_of_token(shop, legacy) == 401


# -- for others to check ----------------------------------------------------------------------------------------------


def test_token_verifies_with_the_published_keys(shop):
    found = shop.get("/.well-known/openid-configuration").body
    assert found == {
        "issuer": ISSUER,
        "jwks_uri": "https://127.0.0.1:6443/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }
    (key,) = json.loads(shop.get("/openid/v1/jwks").body)["keys"]
    x, y = (int.from_bytes(base64.urlsafe_b64decode(key[axis] + "=")) for axis in "xy")
    token = token_for(shop)
    head, _, signature = parts(token)
    assert json.loads(head)["kid"] == key["kid"]
    numbers = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1())
    der = encode_dss_signature(int.from_bytes(signature[:32]), int.from_bytes(signature[32:]))
    numbers.public_key().verify(der, token.rpartition(".")[0].encode(), ec.ECDSA(hashes.SHA256()))
