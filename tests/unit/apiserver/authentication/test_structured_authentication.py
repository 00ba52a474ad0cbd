# SPDX-License-Identifier: Apache-2.0
"""AuthenticationConfiguration files: what they may say, and how a server follows them."""

from __future__ import annotations

import asyncio
import json

import pytest
import yaml

from kubeloop.apiserver.authentication.oidc.authentication_config import (
    StructuredAuthentication,
    authentication_of_flags,
    read_authentication_file,
)
from kubeloop.apiserver.authentication.oidc.configuration import OidcFlags, configuration_of_flags
from kubeloop.apiserver.background.file_reloader import FileReloader
from kubeloop.apiserver.config_file import ConfigFileError
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, start_server
from kubeloop.clock import SystemClock
from kubeloop.http import Request
from tests.unit.apiserver.authentication.issuer_server import IssuerServer

URL = "https://issuer.example.com"
USERNAME = {"claim": "sub", "prefix": ""}


def document(*jwt, version="v1", **more):
    return {
        "apiVersion": f"apiserver.config.k8s.io/{version}",
        "kind": "AuthenticationConfiguration",
        "jwt": list(jwt),
        **more,
    }


def jwt(issuer=None, **more):
    base = {"issuer": {"url": URL, "audiences": ["me"], **(issuer or {})}, "claimMappings": {"username": USERNAME}}
    return {**base, **more}


def mapped(**mappings):
    return jwt(claimMappings={"username": USERNAME, **mappings})


def written(path, content):
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def refusal(path, content, *disallowed):
    with pytest.raises(ConfigFileError) as error:
        read_authentication_file(written(path, content), disallowed)
    return str(error.value)


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_all_versions_are_read(tmp_path, version):
    found = read_authentication_file(written(tmp_path / "c", document(jwt(), version=version)), ())
    assert found.configuration.jwt[0].issuer.url == URL
    assert read_authentication_file(written(tmp_path / "c", document(version=version)), ()).configuration.jwt == ()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "empty config data"),
        ("kind: [", "couldn't get version/kind"),
        ("a: b", "Object 'Kind' is missing"),
        (document(version="v2"), 'no kind "AuthenticationConfiguration" is registered for version'),
        ({**document(), "kind": "Pod"}, 'no kind "Pod" is registered for version'),
        (document(jwt(more=1)), "strict decoding error: "),
    ],
)
def test_file_that_is_no_configuration_is_refused(tmp_path, content, told):
    path = tmp_path / "c"
    message = refusal(path, content)
    assert message.startswith(f'failed to load authentication configuration from file "{path}": {told}')


def rule(**fields):
    return jwt(claimValidationRules=[fields])


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (jwt({"url": ""}), "jwt[0].issuer.url: Required value"),
        (jwt({"url": "http://x"}), 'jwt[0].issuer.url: Invalid value: "http://x": URL scheme must be https'),
        (jwt({"url": "https://a:b@x"}), "URL must not contain a username or password"),
        (jwt({"url": "https://x?a"}), "URL must not contain a query"),
        (jwt({"url": "https://x#a"}), "URL must not contain a fragment"),
        (jwt({"url": "https://own"}), "URL must not overlap with disallowed issuers: [https://own]"),
        (jwt({"discoveryURL": f"{URL}/"}), "jwt[0].issuer.discoveryURL: Invalid value: "),
        (jwt({"discoveryURL": f"{URL}/"}), "discoveryURL must be different from URL"),
        (jwt({"discoveryURL": "http://x"}), "URL scheme must be https"),
        (
            jwt({"audiences": []}),
            "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is req",
        ),
        (jwt({"audiences": [""]}), "jwt[0].issuer.audiences[0]: Required value"),
        (
            jwt({"audiences": ["a", "a"], "audienceMatchPolicy": "MatchAny"}),
            'jwt[0].issuer.audiences[1]: Duplicate value: "a"',
        ),
        (jwt({"audiences": ["a", "b"]}), "audienceMatchPolicy must be MatchAny for multiple audiences"),
        (jwt({"audienceMatchPolicy": "All"}), "audienceMatchPolicy must be empty or MatchAny for single audience"),
        (
            jwt({"certificateAuthority": "x"}),
            'jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": '
            "data does not contain any valid RSA or ECDSA certificates",
        ),
        (jwt({"egressSelectorType": "x"}), "egress selector must be either controlplane or cluster"),
        (rule(claim="a", expression="b"), "claim and expression can't both be set"),
        (rule(), "jwt[0].claimValidationRules[0]: Required value: claim or expression is required"),
        (
            rule(claim="a", message="m"),
            'claimValidationRules[0].message: Invalid value: "m": may not be specified when',
        ),
        (rule(expression="true", requiredValue="m"), "requiredValue: Invalid value"),
        (rule(expression="claims.x"), "must evaluate to bool"),
        (rule(expression="nothing"), "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing'"),
        (jwt(claimValidationRules=[{"claim": "a"}] * 2), "claimValidationRules[1].claim: Duplicate value"),
        (jwt(claimValidationRules=[{"expression": "true"}] * 2), "claimValidationRules[1].expression: Duplicate value"),
        (mapped(username={}), "claimMappings.username: Required value: claim or expression is required"),
        (mapped(username={"claim": "a"}), "username.prefix: Required value: prefix is required when claim is set. It"),
        (mapped(username={"claim": "a", "expression": "b"}), "claim and expression can't both be set"),
        (mapped(username={"prefix": "a", "expression": "'b'"}), "prefix: Invalid value"),
        (mapped(username={"expression": "x"}), "claimMappings.username.expression: Invalid value"),
        (mapped(groups={"claim": "a"}), "groups.prefix: Required value"),
        (mapped(uid={"claim": "a", "expression": "b"}), 'claimMappings.uid: Invalid value: ""'),
        (mapped(uid={"expression": "b"}), "claimMappings.uid.expression: Invalid value"),
        (mapped(extra=[{"key": "a", "valueExpression": "''"}]), "must be a domain-prefixed path"),
        (mapped(extra=[{"key": "a.b/C", "valueExpression": "''"}]), "must be lowercase"),
        (mapped(extra=[{"key": "x.k8s.io/c", "valueExpression": "''"}]), "are reserved for Kubernetes use"),
        (mapped(extra=[{"key": "kubernetes.io/c", "valueExpression": "''"}]), "are reserved for Kubernetes use"),
        (mapped(extra=[{"key": "a.b/c"}]), "extra[0].valueExpression: Required value"),
        (mapped(extra=[{"key": "a.b/c", "valueExpression": "x"}]), "extra[0].valueExpression: Invalid value"),
        (mapped(extra=[{"key": "a.b/c", "valueExpression": "''"}] * 2), "extra[1].key: Duplicate value"),
        (mapped(username={"expression": "claims.email"}), "claims.email_verified must be used in claimMappings"),
        (jwt(userValidationRules=[{}]), "userValidationRules[0].expression: Required value"),
        (jwt(userValidationRules=[{"expression": "true"}] * 2), "userValidationRules[1].expression: Duplicate value"),
        (jwt(userValidationRules=[{"expression": "user.x"}]), "undefined field 'x'"),
        (jwt(userValidationRules=[{"expression": "user.uid"}]), "must evaluate to bool"),
    ],
)
def test_invalid_authenticator_is_refused(tmp_path, one, told):
    message = refusal(tmp_path / "c", document(one), "https://own")
    assert message.startswith("invalid authentication configuration: ")
    assert told in message


@pytest.mark.parametrize(
    "one",
    [
        mapped(username={"expression": "claims.email_verified ? claims.email : claims.sub"}),
        mapped(
            username={"expression": "claims.?email.orValue('')"},
            extra=[{"key": "a.b/c", "valueExpression": "string(claims.?email_verified.orValue(true))"}],
        ),
        {
            **mapped(username={"expression": "claims.email"}),
            "claimValidationRules": [{"expression": "claims.?email_verified.orValue(true) == true"}],
        },
    ],
)
def test_name_from_a_verified_address_is_accepted(tmp_path, one):
    read_authentication_file(written(tmp_path / "c", document(one)), ())


def test_issuers_must_be_distinct_and_not_too_many(tmp_path):
    assert "jwt[1].issuer.url: Duplicate value" in refusal(tmp_path / "c", document(jwt(), jwt()))
    same = [jwt({"url": f"https://{name}", "discoveryURL": "https://d"}) for name in "ab"]
    assert "jwt[1].issuer.discoveryURL: Duplicate value" in refusal(tmp_path / "c", document(*same))
    assert "jwt: Too many: 65: must have at most 64 items" in refusal(tmp_path / "c", document(*[jwt()] * 65))
    disabled = {"enabled": False, "conditions": [{"path": "/x"}]}
    told = "anonymous.conditions: Invalid value"
    assert told in refusal(tmp_path / "c", document(anonymous=disabled))


def test_egress_selector_is_refused(tmp_path):
    found = read_authentication_file(written(tmp_path / "c", document(jwt({"egressSelectorType": "cluster"}))), ())
    with pytest.raises(ValueError, match='oidc: egress lookup required with egress selector type "cluster"'):
        StructuredAuthentication(found, (), (), SystemClock())


def test_flags_with_an_unknown_algorithm_are_refused():
    config = configuration_of_flags(OidcFlags(URL, "me"))
    with pytest.raises(ConfigFileError, match='oidc: unsupported signing alg: "HS256"'):
        authentication_of_flags(config, ["HS256"], ())
    assert authentication_of_flags(config, ["RS256"], ()).algorithms == ("RS256",)


def issuer_config(issuer, prefix=""):
    fields = {"url": issuer.url, "certificateAuthority": issuer.authority}
    return jwt(fields, claimMappings={"username": {"claim": "sub", "prefix": prefix}})


def test_changed_file_is_used_once_its_issuers_are_known(tmp_path):
    async def main():
        async with IssuerServer(tmp_path) as issuer:
            path = written(tmp_path / "c", document(issuer_config(issuer)))
            structured = StructuredAuthentication(read_authentication_file(path, ()), (), (), SystemClock())
            reloader = FileReloader("configuration", [path], structured.reload)
            structured.authenticators.start()

            async def changed(content):
                written(path, content)
                reloader.check()
                await reloader.wait_applied()
                return (await structured.authenticators.authenticate(issuer.token(), ())).user.name

            assert await changed(document(issuer_config(issuer, "a:"))) == "a:jane"
            assert await changed("kind: [") == "a:jane"
            assert await changed(document(issuer_config(issuer, "b:"), jwt({"url": "http://x"}))) == "a:jane"
            assert await changed(document(issuer_config(issuer, "b:"), anonymous={"enabled": True})) == "a:jane"
            assert await changed(document(issuer_config(issuer, "c:"))) == "c:jane"
            structured.authenticators.close()

    asyncio.run(main())


def test_server_authenticates_tokens_of_the_issuer(tmp_path):
    async def main():
        async with IssuerServer(tmp_path) as issuer:
            anonymous = {"enabled": True, "conditions": [{"path": "/healthz"}]}
            content = document(issuer_config(issuer, "oidc:"), anonymous=anonymous)
            config = read_authentication_file(written(tmp_path / "c", content), ())
            server = await start_server(
                ApiServerConfig(port=0, authentication=config, anonymous_paths=frozenset({"/healthz"})), SystemClock()
            )
            try:
                await check_user(server, issuer.token())
                for path, expected in (("/healthz", 200), ("/livez", 401), ("/api/v1/pods", 401)):
                    assert (await server.app.handle(Request("GET", path))).status == expected
            finally:
                await server.close()

    asyncio.run(main())


async def check_user(server, token):
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    request = Request("POST", path, "", {"authorization": f"Bearer {token}", "content-type": "application/json"})
    request.body = b"{}"
    for _ in range(10_000):  # the issuer is discovered in the background
        response = await server.app.handle(request)
        if response.status != 401:
            break
        await asyncio.sleep(0.01)
    assert json.loads(response.body)["status"]["userInfo"] == {
        "username": "oidc:jane",
        "groups": ["system:authenticated"],
    }
    assert server.app.authenticator.authenticate(request) == User("oidc:jane", ("system:authenticated",))
