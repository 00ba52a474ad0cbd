# SPDX-License-Identifier: Apache-2.0
"""Tests of service account tokens: requested, used and revoked."""

from __future__ import annotations

import base64
import json

import pytest

from kubeloop.apiserver.request.run_options import ServerRunOptions

ACCOUNTS = "/api/v1/namespaces/shop/serviceaccounts"
TOKEN = f"{ACCOUNTS}/clerk/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ISSUER = "https://kubernetes.default.svc"
NOON = 1778414400


def request(name="", **spec):
    metadata = {"name": name} if name else {}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": metadata, "spec": spec}


def claims_of(token):
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


@pytest.fixture
def clerk(api):
    return api.made(ACCOUNTS, {"metadata": {"name": "clerk"}})["metadata"]


@pytest.fixture
def issued(api):
    """A new token, and its claims."""

    def issue(**spec):
        token = api.made(TOKEN, request(**spec))["status"]["token"]
        return token, claims_of(token)

    return issue


@pytest.fixture
def bound_to(issued):
    def issue(kind, name, **spec):
        return issued(boundObjectRef={"apiVersion": "v1", "kind": kind, "name": name}, **spec)

    return issue


def test_token_request_returns_a_token_for_an_hour(api, clerk):
    made = api.made(TOKEN, request())
    assert made["spec"] == {"audiences": [ISSUER, "second"], "expirationSeconds": 3600, "boundObjectRef": None}
    assert made["status"]["expirationTimestamp"] == "2026-05-10T13:00:00Z"
    meta = made["metadata"]
    assert (meta["name"], meta["namespace"], meta["uid"]) == ("clerk", "shop", clerk["uid"])
    assert meta["creationTimestamp"] == "2026-05-10T12:00:00Z"


def test_empty_token_request_is_accepted(api, clerk):
    assert api.post(TOKEN, {}).status == 201


def test_token_has_the_claims_of_its_account(clerk, issued):
    _, claims = issued(expirationSeconds=600, audiences=["vault"])
    assert claims.pop("jti")
    assert claims == {
        "iss": ISSUER,
        "sub": "system:serviceaccount:shop:clerk",
        "aud": ["vault"],
        "iat": NOON,
        "nbf": NOON,
        "exp": NOON + 600,
        "kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "clerk", "uid": clerk["uid"]}},
    }


def test_pod_bound_token_has_pod_and_node(api, clerk, pods, bound_to):
    node = api.made("/api/v1/nodes", {"metadata": {"name": "n1"}})["metadata"]["uid"]
    pods("p", serviceAccountName="clerk", nodeName="n1")
    _, claims = bound_to("Pod", "p")
    assert claims["kubernetes.io"]["node"] == {"name": "n1", "uid": node}
    assert claims["kubernetes.io"]["pod"]["name"] == "p"


def test_pod_bound_token_with_a_missing_node_has_the_node_name(clerk, pods, bound_to):
    pods("p", serviceAccountName="clerk", nodeName="gone")
    _, claims = bound_to("Pod", "p")
    assert claims["kubernetes.io"]["node"] == {"name": "gone", "uid": ""}


def test_kubelet_token_is_valid_for_a_year(clerk, pods, bound_to):
    pods("p", serviceAccountName="clerk")
    _, claims = bound_to("Pod", "p", expirationSeconds=3607)
    assert claims["exp"] == NOON + 365 * 24 * 3600
    assert claims["kubernetes.io"]["warnafter"] == NOON + 3607
    _, elsewhere = bound_to("Pod", "p", expirationSeconds=3607, audiences=["vault"])
    assert elsewhere["exp"] == NOON + 3607


def test_a_pods_token_lives_as_asked_for_if_the_server_does_not_extend(api, clerk, pods, bound_to):
    api.server.run_options = ServerRunOptions(extend_token_expiration=False)
    pods("p", serviceAccountName="clerk")
    _, claims = bound_to("Pod", "p", expirationSeconds=3607)
    assert claims["exp"] == NOON + 3607
    assert "warnafter" not in claims["kubernetes.io"]


def test_a_token_lives_no_longer_than_the_server_allows(api, clerk):
    api.server.run_options = ServerRunOptions(max_token_expiration=3600)
    answer = api.post(TOKEN, request(expirationSeconds=7200))
    assert answer.body["spec"]["expirationSeconds"] == 3600
    assert answer.headers["Warning"] == '299 - "requested expiration of 7200 seconds shortened to 3600 seconds"'


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (
            request(expirationSeconds=599),
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: '
            "may not specify a duration less than 10 minutes",
        ),
        (
            request(expirationSeconds=2**32 + 1),
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: '
            "may not specify a duration larger than 2^32 seconds",
        ),
        (
            request("other"),
            422,
            'TokenRequest.authentication.k8s.io "clerk" is invalid: metadata.name: Invalid value: "other": '
            "must match the service account name if specified",
        ),
        (
            request(boundObjectRef={"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (request(boundObjectRef={"apiVersion": "v1", "kind": "Pod"}), 400, "Name parameter required."),
        (request(boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "x"}), 404, 'pods "x" not found'),
        (request(boundObjectRef={"apiVersion": "v1", "kind": "Node", "name": "x"}), 404, 'nodes "x" not found'),
    ],
)
def test_invalid_token_request_is_rejected(api, clerk, body, status, message):
    answer = api.post(TOKEN, body)
    assert (answer.status, answer.body["message"]) == (status, message)


def test_a_request_for_another_account_of_the_same_name_conflicts(api, clerk):
    answer = api.post(TOKEN, {"metadata": {"uid": "other"}})
    assert answer.status == 409
    assert f"({'other'}) does not match the UID of the service account ({clerk['uid']})" in answer.body["message"]


def test_a_token_is_not_bound_to_a_pod_of_another_account(api, clerk, pods):
    pods("p", serviceAccountName="other")
    answer = api.post(TOKEN, request(boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p"}))
    assert answer.body["message"] == (
        'cannot bind token for serviceaccount "clerk" to pod running with different serviceaccount name.'
    )


def test_a_token_is_not_bound_to_another_object_of_the_same_name(api, clerk):
    api.made("/api/v1/namespaces/shop/secrets", {"metadata": {"name": "s"}})
    wanted = {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "other"}
    answer = api.post(TOKEN, request(boundObjectRef=wanted))
    assert answer.status == 409
    assert answer.body["message"].startswith('Operation cannot be fulfilled on Secret "s": the UID in the bound object')


def test_token_of_a_missing_account_is_not_found(api):
    answer = api.post(f"{ACCOUNTS}/none/token", request())
    assert (answer.status, answer.body["message"]) == (404, 'serviceaccounts "none" not found')


def test_server_without_a_key_issues_no_tokens(api, clerk):
    api.server.tokens = None
    assert api.post(TOKEN, request()).status == 404


# -- showing a token ---------------------------------------------------------------------------------------------------


def test_token_authenticates_its_account(api, clerk, issued):
    token, claims = issued()
    user = api.tokens.authenticate(token)
    assert (user.name, user.uid) == ("system:serviceaccount:shop:clerk", clerk["uid"])
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated")
    assert dict(user.extra) == {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}


def test_user_of_a_pod_bound_token_has_pod_and_node(api, clerk, pods, bound_to):
    pods("p", serviceAccountName="clerk", nodeName="gone")
    token, claims = bound_to("Pod", "p")
    extra = dict(api.tokens.authenticate(token).extra)
    assert extra["authentication.kubernetes.io/pod-name"] == ("p",)
    assert extra["authentication.kubernetes.io/pod-uid"] == (claims["kubernetes.io"]["pod"]["uid"],)
    assert extra["authentication.kubernetes.io/node-name"] == ("gone",)
    assert "authentication.kubernetes.io/node-uid" not in extra


def test_token_for_another_audience_is_rejected(api, clerk, issued):
    token, _ = issued(audiences=["vault"])
    assert api.tokens.authenticate(token) is None


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "admin"])
def test_foreign_tokens_are_not_authenticated(api, token):
    assert api.tokens.authenticate(token) is None


def test_token_expires_with_at_most_a_minute_leeway(api, clerk, issued):
    token, _ = issued(expirationSeconds=600)
    api.clock.advance(659)
    assert api.tokens.authenticate(token)
    api.clock.advance(2)
    assert api.tokens.authenticate(token) is None


def test_token_is_revoked_with_its_account(api, clerk, issued):
    token, _ = issued()
    assert api.tokens.authenticate(token)
    api.ask("DELETE", f"{ACCOUNTS}/clerk")
    assert api.tokens.authenticate(token) is None
    api.made(ACCOUNTS, {"metadata": {"name": "clerk"}})
    assert api.tokens.authenticate(token) is None


@pytest.mark.parametrize(
    ("kind", "collection"),
    [("Secret", "/api/v1/namespaces/shop/secrets"), ("Node", "/api/v1/nodes")],
)
def test_token_is_revoked_with_its_bound_object(api, clerk, bound_to, kind, collection):
    api.made(collection, {"metadata": {"name": "o"}})
    token, _ = bound_to(kind, "o")
    assert api.tokens.authenticate(token)
    api.ask("DELETE", f"{collection}/o")
    assert api.tokens.authenticate(token) is None
    api.made(collection, {"metadata": {"name": "o"}})
    assert api.tokens.authenticate(token) is None


def test_pod_bound_token_survives_its_node_but_not_the_pod(api, clerk, pods, bound_to):
    api.made("/api/v1/nodes", {"metadata": {"name": "n1"}})
    path = pods("p", serviceAccountName="clerk", nodeName="n1")
    token, _ = bound_to("Pod", "p")
    api.ask("DELETE", "/api/v1/nodes/n1")
    assert api.tokens.authenticate(token)
    api.ask("DELETE", f"{path}?gracePeriodSeconds=0")
    assert api.tokens.authenticate(token) is None


def test_overdue_terminating_pod_loses_its_token(api, clerk, pods, bound_to):
    path = pods("p", serviceAccountName="clerk", nodeName="n1")
    token, _ = bound_to("Pod", "p")
    api.ask("DELETE", f"{path}?gracePeriodSeconds=30")
    api.clock.advance(80)
    assert api.tokens.authenticate(token)
    api.clock.advance(20)
    assert api.tokens.authenticate(token) is None


# -- reviews -----------------------------------------------------------------------------------------------------------


def reviewed(api, token, *audiences):
    body = {"kind": "TokenReview", "spec": {"token": token, "audiences": list(audiences)}}
    return api.made(REVIEWS, body)["status"]


def test_token_review_returns_the_user(api, clerk, issued):
    token, _ = issued()
    status = reviewed(api, token)
    assert status["authenticated"] is True
    assert status["user"]["username"] == "system:serviceaccount:shop:clerk"
    assert status["audiences"] == [ISSUER, "second"]


def test_token_review_checks_the_audience(api, clerk, issued):
    token, _ = issued(audiences=["vault", "archive"])
    assert reviewed(api, token, "vault", "x")["audiences"] == ["vault"]
    status = reviewed(api, token)
    assert "authenticated" not in status
    assert status["error"] == (
        '[invalid bearer token, token audiences ["vault" "archive"] is invalid for the target audiences '
        f'["{ISSUER}" "second"]]'
    )


def test_token_review_returns_the_error(api, clerk, issued):
    token, _ = issued()
    api.clock.advance(4000)
    assert reviewed(api, token) == {
        "user": {},
        "error": "[invalid bearer token, service account token has expired]",
    }


def test_token_review_supports_the_token_file(api):
    status = reviewed(api, "admin")
    assert (status["authenticated"], status["user"]["username"]) == (True, "admin")
    assert reviewed(api, "admin", "vault") == {"user": {}, "error": "invalid bearer token"}


def test_token_review_of_an_unknown_token_is_unauthenticated(api):
    assert reviewed(api, "who") == {"user": {}, "error": "invalid bearer token"}


def test_token_review_requires_a_token(api):
    answer = api.post(REVIEWS, {"spec": {}})
    assert (answer.status, answer.body["message"]) == (400, "token is required for TokenReview in authentication")
