# SPDX-License-Identifier: Apache-2.0
"""Tokens of an external issuer, which the test runs over TLS."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from kubeloop.apiserver.authentication.oidc.authenticator import IssuerAuthenticator, JWTAuthenticators
from kubeloop.apiserver.authentication.oidc.configuration import (
    ClaimMappings,
    Issuer,
    JWTAuthenticatorConfig,
    OidcFlags,
    PrefixedClaimOrExpression,
    configuration_of_flags,
)
from kubeloop.apiserver.authentication.oidc.keys import ALGORITHMS
from kubeloop.apiserver.authentication.oidc.provider import HttpsFetcher, ProviderError, discover
from kubeloop.apiserver.authentication.remote_tokens import TokenRejected
from kubeloop.apiserver.request.context import User
from kubeloop.clock import SystemClock
from kubeloop.http import Response
from tests.unit.apiserver.authentication.issuer_server import IssuerKeyPair, IssuerServer, encoded


class AuthenticatorHarness:
    """One authenticator for a running issuer; its configuration is given as in a file."""

    def __init__(self, server: IssuerServer, algorithms=ALGORITHMS, **fields) -> None:
        base = {
            "issuer": {"url": server.url, "certificateAuthority": server.authority, "audiences": ["me"]},
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        }
        config = msgspec.convert({**base, **fields}, JWTAuthenticatorConfig)
        self.authenticator = IssuerAuthenticator(config, algorithms, SystemClock())

    async def __aenter__(self):
        self.authenticator.start()
        await self.authenticator.wait_discovered()
        return self

    async def __aexit__(self, *_):
        self.authenticator.close()

    async def user(self, token):
        return await self.authenticator.authenticate(token)

    async def rejection(self, token):
        with pytest.raises(TokenRejected) as error:
            await self.user(token)
        return str(error.value)


@pytest.fixture
def with_issuer(tmp_path):
    def run(work, *keys):
        async def main():
            async with IssuerServer(tmp_path, *keys) as issuer:
                await work(issuer)

        asyncio.run(main())

    return run


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_token_signed_with_each_algorithm_names_the_user(with_issuer, algorithm):
    async def work(issuer):
        async with AuthenticatorHarness(issuer) as subject:
            assert await subject.user(issuer.token()) == User("jane")
            good = issuer.token()
            head, _, signature = good.split(".")
            changed = encoded(json.dumps(issuer.claims(sub="eve")).encode())
            assert "failed to verify id token signature" in await subject.rejection(f"{head}.{changed}.{signature}")
        async with AuthenticatorHarness(issuer, [one for one in ALGORITHMS if one != algorithm]) as subject:
            told = await subject.rejection(issuer.token())
            assert told.startswith("oidc: verify token: oidc: id token signed with unsupported algorithm, expected [")
            assert told.endswith(f' got "{algorithm}"')

    with_issuer(work, IssuerKeyPair("one", algorithm))


def test_key_of_another_type_verifies_nothing(with_issuer):
    async def work(issuer):
        async with AuthenticatorHarness(issuer) as subject:
            other = IssuerKeyPair("one", "ES256")
            assert "failed to verify id token signature" in await subject.rejection(other.sign(issuer.claims()))
            for algorithm in ("none", "HS256", ""):
                assert "unsupported algorithm" in await subject.rejection(other.sign(issuer.claims(), alg=algorithm))

    with_issuer(work)


def test_tokens_of_others_are_left_to_others(with_issuer):
    async def work(issuer):
        async with AuthenticatorHarness(issuer) as subject:
            key = issuer.keys[0]
            for token in ("x", "a.b.c", "a.b", key.sign(issuer.claims(iss="https://other")), key.sign({})):
                assert await subject.user(token) is None
            assert await subject.user(issuer.token() + "=") is None
            assert await subject.user(issuer.token().replace(".", ".\n", 1)) is None
            assert await subject.user(issuer.token() + ".x") is None

    with_issuer(work)


def test_keys_are_fetched_again_for_an_unknown_one(with_issuer):
    async def work(issuer):
        async with AuthenticatorHarness(issuer) as subject:
            assert issuer.paths == ["/.well-known/openid-configuration"]
            await subject.user(issuer.token())
            await subject.user(issuer.token())
            assert issuer.paths.count("/keys") == 1
            old = issuer.token()
            issuer.keys = [IssuerKeyPair("two")]
            tokens = [issuer.token() for _ in range(3)]
            assert await asyncio.gather(*map(subject.user, tokens)) == [User("jane")] * 3
            assert issuer.paths.count("/keys") == 2
            assert "failed to verify id token signature" in await subject.rejection(old)

    with_issuer(work)


def test_keys_are_not_fetched_again_while_they_may_be_cached(with_issuer):
    async def work(issuer):
        issuer.cache_control = "public, max-age=3600"
        async with AuthenticatorHarness(issuer) as subject:
            await subject.user(issuer.token())
            issuer.keys = [IssuerKeyPair("two")]
            assert "failed to verify id token signature" in await subject.rejection(issuer.token())
            assert issuer.paths.count("/keys") == 1

    with_issuer(work)


def test_token_without_key_id_is_tried_with_all_keys(with_issuer):
    async def work(issuer):
        async with AuthenticatorHarness(issuer) as subject:
            assert await subject.user(issuer.keys[1].sign(issuer.claims(), kid="")) == User("jane")
            assert "failed to verify" in await subject.rejection(issuer.keys[1].sign(issuer.claims(), kid="one"))

    with_issuer(work, IssuerKeyPair("one"), IssuerKeyPair("two"))


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"exp": 1}, "oidc: token is expired (Token Expiry: 1970-01-01 00:00:01 +0000 UTC)"),
        ({"exp": None}, "oidc: token is expired"),
        ({"nbf": 9_000_000_000}, "before the nbf (not before) time: 2255-"),
        ({"aud": "you"}, 'oidc: expected audience "me" got ["you"]'),
        ({"aud": ["you", "them"]}, 'oidc: expected audience "me" got ["you" "them"]'),
    ],
)
def test_claims_about_time_and_audience_are_checked(with_issuer, claims, told):
    async def work(issuer):
        async with AuthenticatorHarness(issuer) as subject:
            assert told in await subject.rejection(issuer.token(**claims))
            assert await subject.user(issuer.token(aud=["x", "me"], nbf=1.5)) == User("jane")

    with_issuer(work)


def test_any_of_several_audiences_suffices(with_issuer):
    async def work(issuer):
        several = {"url": issuer.url, "certificateAuthority": issuer.authority, "audiences": ["b", "a"]}
        async with AuthenticatorHarness(issuer, issuer={**several, "audienceMatchPolicy": "MatchAny"}) as subject:
            assert await subject.user(issuer.token(aud=["x", "b"])) == User("jane")
            told = 'oidc: verify token: oidc: expected audience in ["a" "b"] got ["x"]'
            assert await subject.rejection(issuer.token(aud="x")) == told

    with_issuer(work)


def test_discovery_url_replaces_the_issuers(with_issuer):
    async def work(issuer):
        issuer.answers["/here"] = Response(200, json.dumps({**issuer.document, "issuer": "https://far"}).encode())
        elsewhere = {"url": "https://far", "discoveryURL": f"{issuer.url}/here", "audiences": ["me"]}
        async with AuthenticatorHarness(
            issuer, issuer={**elsewhere, "certificateAuthority": issuer.authority}
        ) as subject:
            assert await subject.user(issuer.token(iss="https://far")) == User("jane")
            assert issuer.paths[0] == "/here"

    with_issuer(work)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (b'{"issuer": "https://x"}', 'oidc: issuer did not match the issuer returned by provider, expected "https://'),
        (b"{", "oidc: failed to decode provider discovery object: "),
        (None, "provider did not return JWKS URL"),
    ],
)
def test_wrong_discovery_document_is_refused(with_issuer, document, told):
    async def work(issuer):
        body = document or json.dumps({"issuer": issuer.url}).encode()
        issuer.answers["/.well-known/openid-configuration"] = Response(200, body)
        with pytest.raises(ProviderError) as error:
            await discover(issuer.url, "", HttpsFetcher(issuer.authority), SystemClock())
        assert told in str(error.value)

    with_issuer(work)


def test_authenticator_is_not_healthy_before_the_discovery(with_issuer):
    async def work(issuer):
        subject = AuthenticatorHarness(issuer)
        prefix = f'oidc: authenticator for issuer "{issuer.url}" is not '
        assert subject.authenticator.problem == f"{prefix}healthy: {prefix}initialized"
        assert await subject.rejection(issuer.token()) == "oidc: authenticator not initialized"
        async with subject:
            assert subject.authenticator.problem == ""

    with_issuer(work)


def test_issuer_of_an_unknown_authority_is_not_trusted(with_issuer):
    async def work(issuer):
        with pytest.raises(ProviderError, match="certificate signed by unknown authority"):
            await discover(issuer.url, "", HttpsFetcher(""), SystemClock())

    with_issuer(work)


def test_failed_fetch_of_keys_is_reported(with_issuer):
    async def work(issuer):
        async with AuthenticatorHarness(issuer) as subject:
            issuer.answers["/keys"] = Response(500, b"broken", "text/plain")
            told = "oidc: verify token: failed to verify signature: fetching keys oidc: get keys failed: 500 broken"
            assert await subject.rejection(issuer.token()) == told
            issuer.answers["/keys"] = Response(200, b"[]")
            assert "failed to decode keys" in await subject.rejection(issuer.token())
            del issuer.answers["/keys"]
            assert await subject.user(issuer.token()) == User("jane")

    with_issuer(work)


MAPPED = {
    "username": {"expression": "'x:' + claims.sub"},
    "groups": {"expression": "claims.roles.split(',')"},
    "uid": {"expression": "claims.id"},
    "extra": [
        {"key": "example.com/a", "valueExpression": "claims.?team.orValue('')"},
        {"key": "example.com/n", "valueExpression": "string(claims.n + 0.5)"},
        {"key": "example.com/none", "valueExpression": "['']"},
    ],
}


def test_expressions_map_claims(with_issuer):
    async def work(issuer):
        async with AuthenticatorHarness(issuer, claimMappings=MAPPED) as subject:
            token = issuer.token(roles="a,,b", id="7", team="t", n=1, jti="z")
            extra = (
                ("authentication.kubernetes.io/credential-id", ("JTI=z",)),
                ("example.com/a", ("t",)),
                ("example.com/n", ("1.5",)),
            )
            assert await subject.user(token) == User("x:jane", ("a", "b"), "7", extra)
            for claims, told in (
                ({"roles": "", "n": 1}, "oidc: error evaluating uid claim expression: expression 'claims.id' resulted"),
                ({"roles": "", "n": 1, "id": 7}, "uid claim expression must return a string"),
                ({"id": "7", "n": 1}, "oidc: error evaluating group claim expression: expression"),
                ({"roles": "", "id": "7", "n": 1, "team": 5}, "claims.?team.orValue(''): expression must return a str"),
            ):
                assert told in await subject.rejection(issuer.token(**claims))

    with_issuer(work)


@pytest.mark.parametrize(
    ("mapping", "claims", "told"),
    [
        ({"expression": "claims.n"}, {"n": 1}, "username claim expression must return a string"),
        ({"expression": "claims.n"}, {"n": ""}, "oidc: empty username via CEL expression is not allowed"),
        ({"claim": "n", "prefix": ""}, {}, 'oidc: parse username claims "n": claim not present'),
        ({"claim": "n", "prefix": ""}, {"n": 1}, "json: cannot unmarshal number into Go value of type string"),
        ({"claim": "email", "prefix": ""}, {"email": "a@b", "email_verified": False}, "oidc: email not verified"),
        ({"claim": "email", "prefix": ""}, {"email": "a@b", "email_verified": "yes"}, "parse 'email_verified' claim"),
    ],
)
def test_name_must_be_a_text_and_an_address_verified(with_issuer, mapping, claims, told):
    async def work(issuer):
        async with AuthenticatorHarness(issuer, claimMappings={"username": mapping}) as subject:
            assert told in await subject.rejection(issuer.token(**claims))

    with_issuer(work)


def test_claims_are_mapped_with_prefixes(with_issuer):
    async def work(issuer):
        mappings = {
            "username": {"claim": "email", "prefix": "u:"},
            "groups": {"claim": "g", "prefix": "g:"},
            "uid": {"claim": "id"},
        }
        async with AuthenticatorHarness(issuer, claimMappings=mappings) as subject:
            one = issuer.token(email="a@b", email_verified=True, g="x", id="7")
            assert await subject.user(one) == User("u:a@b", ("g:x",), "7")
            several = issuer.token(email="a@b", g=["x", "y"], id="7")
            assert await subject.user(several) == User("u:a@b", ("g:x", "g:y"), "7")
            assert "parse groups claim" in await subject.rejection(issuer.token(email="a@b", g=[1], id="7"))
            assert await subject.user(issuer.token(email="a@b", id="7")) == User("u:a@b", (), "7")

    with_issuer(work)


def test_rules_about_claims_and_user_are_enforced(with_issuer):
    async def work(issuer):
        fields = {
            "claimValidationRules": [
                {"claim": "hd", "requiredValue": "example.com"},
                {"expression": "claims.exp - claims.iat <= 3600.0", "message": "too long"},
            ],
            "userValidationRules": [
                {"expression": "!user.username.startsWith('system:')", "message": "reserved"},
                {"expression": "user.groups.all(g, !g.startsWith('system:'))"},
            ],
            "claimMappings": {
                "username": {"claim": "sub", "prefix": ""},
                "groups": {"claim": "g", "prefix": ""},
            },
        }
        async with AuthenticatorHarness(issuer, **fields) as subject:
            assert await subject.user(issuer.token(hd="example.com")) == User("jane")
            for claims, told in (
                ({}, "oidc: required claim hd not present in ID token"),
                ({"hd": "x"}, "oidc: required claim hd value does not match. Got = x, want = example.com"),
                ({"hd": 1}, "oidc: parse claim hd: json: cannot unmarshal number"),
                (
                    {"hd": "example.com", "exp": 9_000_000_000},
                    "oidc: error evaluating claim validation expression: validation expression "
                    "'claims.exp - claims.iat <= 3600.0' failed: too long",
                ),
                (
                    {"hd": "example.com", "sub": "system:admin"},
                    "oidc: error evaluating user info validation rule: validation expression "
                    "'!user.username.startsWith('system:')' failed: reserved",
                ),
                ({"hd": "example.com", "g": "system:masters"}, "failed: "),
            ):
                assert told in await subject.rejection(issuer.token(**claims))

    with_issuer(work)


def test_groups_may_come_from_another_endpoint(with_issuer):
    async def work(issuer):
        mappings = {"username": {"claim": "sub", "prefix": ""}, "groups": {"claim": "g", "prefix": "g:"}}

        def sources(**endpoint):
            return {"_claim_names": {"g": "s"}, "_claim_sources": {"s": endpoint}}

        async with AuthenticatorHarness(issuer, claimMappings=mappings) as subject:
            issuer.answers["/groups"] = Response(200, issuer.token(g=["x"]).encode(), "application/jwt")
            endpoint = {"endpoint": f"{issuer.url}/groups", "access_token": "secret"}
            assert await subject.user(issuer.token(**sources(**endpoint))) == User("jane", ("g:x",))
            issuer.answers["/groups"] = Response(200, IssuerKeyPair("one").sign(issuer.claims(g=["x"])).encode())
            told = await subject.rejection(issuer.token(**sources(**endpoint)))
            assert told.startswith("oidc: could not expand distributed claims: verify distributed claim token: ")
            issuer.answers["/groups"] = Response(200, issuer.token().encode())
            assert "did not contain claim: g" in await subject.rejection(issuer.token(**sources(**endpoint)))
            assert "oidc: no claim sources" in await subject.rejection(issuer.token(_claim_names={"g": "s"}))
            assert await subject.user(issuer.token(**sources(JWT="x"))) == User("jane")

    with_issuer(work)


def test_tokens_are_for_the_audiences_of_the_server(with_issuer):
    async def work(issuer):
        async with AuthenticatorHarness(issuer) as subject:
            union = JWTAuthenticators([subject.authenticator], ("api", "more"))
            found = await union.authenticate(issuer.token(), ("other", "more"))
            assert (found.user, found.audiences) == (User("jane"), ("more",))
            assert await union.authenticate(issuer.token(), ("other",)) is None
            assert (await union.authenticate(issuer.token(), ())).audiences == ()

    with_issuer(work)


@pytest.mark.parametrize(
    ("claim", "given", "prefix"),
    [("sub", "", "https://i#"), ("email", "", ""), ("sub", "-", ""), ("email", "-", ""), ("sub", "p:", "p:")],
)
def test_flags_stand_for_a_configuration(claim, given, prefix):
    flags = OidcFlags("https://i", "me", "PEM", claim, given, "roles", "g:", {"a": "b"})
    config = configuration_of_flags(flags)
    assert config.issuer == Issuer("https://i", "", "PEM", ("me",))
    username = PrefixedClaimOrExpression(claim, prefix)
    assert config.claim_mappings == ClaimMappings(username, PrefixedClaimOrExpression("roles", "g:"))
    assert [(one.claim, one.required_value) for one in config.claim_validation_rules] == [("a", "b")]
