# SPDX-License-Identifier: Apache-2.0
"""Checks of service account tokens, rule by rule: claims, times, and the objects that a token is bound to."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubeloop.api import errors
from kubeloop.api.signed_tokens import InvalidToken
from kubeloop.apiserver.authentication import Authenticator, read_token_file
from kubeloop.apiserver.authentication.legacy_service_account_tokens import (
    INVALIDATED_SECRET,
    LegacyClaims,
    invalid_reason,
    is_auto_generated,
)
from kubeloop.apiserver.authentication.service_account_tokens import (
    ClaimReference,
    InvalidTokenError,
    KubernetesClaim,
    ServiceAccountTokens,
    token_keys,
)
from kubeloop.apiserver.request.context import ANONYMOUS, User
from kubeloop.http import Request
from tests.unit.apiserver.conftest import ManualClock

PEM = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
KEYS = token_keys(PEM)
PAST, FUTURE = "2026-05-10T11:00:00Z", "2026-05-10T12:30:00Z"
ACCOUNT = ("serviceaccounts", "shop", "sa")


class Objects:
    """Stored objects: metadata, labels and data by plural, namespace and name."""

    records = None

    def __init__(self, **more):
        self.found = {ACCOUNT: _stored("u")}
        self.found |= more

    def get_object(self, plural, namespace, name, group="", version="v1"):
        return self.found.get((plural, namespace, name))


def _stored(uid, deleted=None, labels=None, data=None):
    metadata = SimpleNamespace(uid=uid, deletion_timestamp=deleted, labels=labels or {})
    return SimpleNamespace(metadata=metadata, data=data or {})


def _validate(objects, binding=None, clock=None, **claims):
    clock = clock or ManualClock()
    tokens = ServiceAccountTokens(KEYS, ["issuer"], ["aud"], objects, clock)
    now = int(clock.now().timestamp())
    said = {
        "iss": "issuer",
        "sub": "system:serviceaccount:shop:sa",
        "aud": ["aud"],
        "exp": now + 600,
        "nbf": now,
        "iat": now,
        "kubernetes.io": msgspec.to_builtins(binding or KubernetesClaim("shop", ClaimReference("sa", "u"))),
        **claims,
    }
    said["kubernetes.io"] = {key: value for key, value in said["kubernetes.io"].items() if value is not None}
    try:
        return tokens.validate(KEYS.signing.sign(said), ["aud"]).user.name
    except InvalidTokenError as error:
        return str(error)


def _now(seconds):
    return int(ManualClock().now().timestamp()) + seconds


VALID = "system:serviceaccount:shop:sa"


@pytest.mark.parametrize(
    ("claims", "result"),
    [
        ({}, VALID),
        ({"exp": _now(-59)}, VALID),
        ({"exp": _now(-61)}, "service account token has expired"),
        ({"nbf": _now(59)}, VALID),
        ({"nbf": _now(61)}, "service account token is not valid yet"),
        ({"iat": _now(61)}, "service account token is issued in the future"),
        ({"aud": ["other"]}, 'token audiences ["other"] is invalid for the target audiences ["aud"]'),
    ],
)
def test_times_and_audiences(claims, result):
    assert _validate(Objects(), **claims) == result


def test_claims_that_are_incomplete_or_of_another_issuer_are_not_ours():
    for claims in ({"iss": "other"}, {"sub": None}):
        with pytest.raises(InvalidToken):
            _validate(Objects(), **claims)


@pytest.mark.parametrize(
    ("account", "result"),
    [
        (_stored("u", FUTURE), VALID),
        (_stored("u", "2026-05-10T11:59:30Z"), VALID),
        (_stored("u", PAST), "service account shop/sa has been deleted"),
        (_stored("v"), "service account UID (v) does not match claim (u)"),
        (None, 'serviceaccounts "sa" not found'),
    ],
)
def test_the_account_must_exist(account, result):
    objects = Objects()
    objects.found[ACCOUNT] = account
    assert _validate(objects) == result


INVALIDATED = "service account token has been invalidated"


@pytest.mark.parametrize(
    ("found", "result"),
    [
        (_stored("b"), VALID),
        (_stored("b", FUTURE), VALID),
        (_stored("b", PAST), INVALIDATED),
        (None, INVALIDATED),
        (_stored("c"), "{kind} UID (c) does not match service account {kind} ref claim (b)"),
    ],
)
@pytest.mark.parametrize("kind", ["secret", "pod", "node"])
def test_what_a_token_is_bound_to_must_exist(kind, found, result):
    binding = KubernetesClaim("shop", ClaimReference("sa", "u"), **{kind: ClaimReference("x", "b")})
    objects = Objects()
    objects.found[f"{kind}s", "" if kind == "node" else "shop", "x"] = found
    assert _validate(objects, binding) == result.format(kind=kind)


def test_the_node_of_a_pods_token_is_not_checked():
    binding = KubernetesClaim(
        "shop", ClaimReference("sa", "u"), pod=ClaimReference("x", "b"), node=ClaimReference("n", "gone")
    )
    objects = Objects()
    objects.found["pods", "shop", "x"] = _stored("b")
    assert _validate(objects, binding) == VALID


# -- tokens in secrets ------------------------------------------------------------------------------------------------

SECRET = ("secrets", "shop", "s")
SINCE = {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}


def _legacy(account=None, secret=None, sub=VALID):
    objects = Objects()
    objects.found[ACCOUNT] = account
    objects.found[SECRET] = secret
    return invalid_reason(LegacyClaims(sub, "shop", "sa", "u", "s"), "token", objects)


GOOD = _stored("x", data={"token": b"token"})


@pytest.mark.parametrize(
    ("account", "secret", "sub", "reason"),
    [
        (_stored("u"), GOOD, VALID, ""),
        (_stored("u"), GOOD, "system:serviceaccount:shop:other", "sub claim is invalid"),
        (_stored("u"), None, VALID, "Token has been invalidated"),
        (_stored("u"), _stored("x", FUTURE, data={"token": b"token"}), VALID, "Token has been invalidated"),
        (_stored("u"), _stored("x", data={"token": b"other"}), VALID, "Token does not match server's copy"),
        (_stored("u"), _stored("x"), VALID, "Token does not match server's copy"),
        (None, GOOD, VALID, 'serviceaccounts "sa" not found'),
        (_stored("u", FUTURE), GOOD, VALID, "ServiceAccount shop/sa has been deleted"),
        (_stored("v"), GOOD, VALID, "ServiceAccount UID (v) does not match claim (u)"),
    ],
)
def test_a_token_in_a_secret(account, secret, sub, reason):
    assert _legacy(account, secret, sub) == reason


def test_a_token_that_was_marked_invalid_is_refused():
    marked = _stored("x", labels=SINCE, data={"token": b"token"})
    reason = _legacy(_stored("u"), marked)
    assert reason.startswith("the token in secret shop/s for service account shop/sa has been marked invalid.")
    assert reason.endswith(INVALIDATED_SECRET)


@pytest.mark.parametrize(("named", "is_auto"), [((), False), (("other",), False), (("other", "s"), True)])
def test_a_token_that_was_created_with_its_account_is_told_apart(named, is_auto):
    objects = Objects()
    objects.found[ACCOUNT] = SimpleNamespace(secrets=[SimpleNamespace(name=one) for one in named])
    assert is_auto_generated(LegacyClaims(VALID, "shop", "sa", "u", "s"), objects) is is_auto


def test_a_token_of_a_deleted_account_was_not_created_with_it():
    objects = Objects()
    objects.found[ACCOUNT] = None
    assert not is_auto_generated(LegacyClaims(VALID, "shop", "sa", "u", "s"), objects)


# -- the token file ---------------------------------------------------------------------------------------------------


def test_a_token_file_has_comments_and_three_columns(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text('# comment\n\nsecret,jane,7,"a,b"\n')
    (token, user), *others = read_token_file(path).items()
    assert (token, user.name, user.uid, others) == ("secret", "jane", "7", [])
    path.write_text("secret,jane\n")
    with pytest.raises(ValueError, match="line 1 must have a token, a user and a uid"):
        read_token_file(path)


# -- who a request is from --------------------------------------------------------------------------------------------


def _request(token=""):
    request = Request("GET", "/api", "")
    request.headers = {"authorization": f"Bearer {token}"} if token else {}
    return request


def test_a_request_without_credentials_is_anonymous_only_if_that_is_allowed():
    assert Authenticator({}, True, ()).authenticate(_request()) is ANONYMOUS
    with pytest.raises(errors.Unauthorized):
        Authenticator({}, False, ()).authenticate(_request())
    with pytest.raises(errors.Unauthorized):
        Authenticator({}, True, ()).authenticate(_request("unknown"))


def test_tokens_of_the_file_are_known_before_others_are_asked():
    jane, other = User("jane"), User("other")
    authenticator = Authenticator({"t": jane}, False, [lambda token: None, lambda token: other])
    assert authenticator.authenticate(_request("t")).name == "jane"
    assert authenticator.authenticate(_request("u")).name == "other"


def test_a_token_that_no_other_server_knows_is_refused():
    async def unknown(token, audiences):
        return None

    remote = SimpleNamespace(authenticate=unknown, audiences=(), cached_user=lambda token: None)
    authenticator = Authenticator({}, True, (), None, remote)
    assert authenticator.authenticate(_request("t")) is None
    with pytest.raises(errors.Unauthorized):
        asyncio.run(authenticator.wait_user(_request("t")))
