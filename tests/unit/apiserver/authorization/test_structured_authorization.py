# SPDX-License-Identifier: Apache-2.0
"""AuthorizationConfiguration files: what they may say, and how a server follows them."""

from __future__ import annotations

import asyncio
import json

import pytest
import yaml

from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, AuthorizationDecision
from kubeloop.apiserver.authorization.configuration import parse_authorization_configuration
from kubeloop.apiserver.authorization.match_conditions import WebhookMatchConditions
from kubeloop.apiserver.authorization.webhook import WebhookAuthorizerConfig, review_spec
from kubeloop.apiserver.background import file_reloader
from kubeloop.apiserver.config_file import ConfigFileError
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, StartupError, start_server
from kubeloop.cli.apiserver.webhook_kubeconfig import WebhookKubeconfigReader
from kubeloop.clock import SystemClock
from kubeloop.http import Request, Response
from tests.unit.apiserver.review_server import ReviewServer


def document(*authorizers, version="v1"):
    config = {"apiVersion": f"apiserver.config.k8s.io/{version}", "kind": "AuthorizationConfiguration"}
    return yaml.safe_dump({**config, "authorizers": list(authorizers)}).encode()


@pytest.fixture
def kubeconfig(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text("x")
    return path


@pytest.fixture
def webhook(kubeconfig):
    def make(name="hook", type_="Webhook", **fields):
        base = {
            "timeout": "3s",
            "subjectAccessReviewVersion": "v1",
            "failurePolicy": "Deny",
            "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(kubeconfig)},
        }
        merged = {key: value for key, value in {**base, **fields}.items() if value is not None}
        return {"type": type_, "name": name, "webhook": merged}

    return make


RBAC = {"type": "RBAC", "name": "rbac"}


def refusal(*authorizers):
    with pytest.raises(ConfigFileError) as error:
        parse_authorization_configuration(document(*authorizers))
    return str(error.value)


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_authorizers_are_read_in_order_with_defaults(webhook, kubeconfig, version):
    cached = webhook("other", authorizedTTL="1m", unauthorizedTTL="1s", cacheUnauthorizedRequests=False)
    cached["webhook"] |= {"failurePolicy": "NoOpinion", "subjectAccessReviewVersion": "v1beta1"}
    first, second, last = parse_authorization_configuration(document(webhook(), RBAC, cached, version=version))
    assert (first.type, first.name) == ("Webhook", "hook")
    assert first.webhook == WebhookAuthorizerConfig(kubeconfig, "v1", 300.0, 30.0, 3.0, True)
    assert (second.type, second.name, second.webhook) == ("RBAC", "rbac", None)
    assert last.webhook == WebhookAuthorizerConfig(kubeconfig, "v1beta1", 60.0, 0.0, 3.0, False)


def test_chain_itself_is_validated(webhook):
    told = "failed to load AuthorizationConfiguration from file: "
    with pytest.raises(ConfigFileError, match=told + "no kind"):
        parse_authorization_configuration(document(RBAC, version="v9"))
    with pytest.raises(ConfigFileError, match=told + "strict decoding error"):
        parse_authorization_configuration(document({**RBAC, "x": 1}))
    for authorizers, message in (
        ([], "authorizers: Required value: at least one authorization mode must be defined"),
        ([{"name": "x"}], "authorizers[0].type: Required value"),
        ([{"type": "X", "name": "x"}], 'authorizers[0].type: Unsupported value: "X": supported values: "AlwaysAllow"'),
        ([RBAC, RBAC], 'authorizers[1].type: Duplicate value: "RBAC"'),
        ([{"type": "RBAC"}], "authorizers[0].name: Required value"),
        ([webhook("a"), webhook("a")], 'authorizers[1].name: Duplicate value: "a"'),
        ([webhook("A b")], 'authorizers[0].name: Invalid value: "A b": authorizer name is invalid: a lowercase RFC'),
        ([webhook("rbac", "RBAC")], 'authorizers[0].webhook: Invalid value: "non-null": may only be specified when'),
        ([{"type": "Webhook", "name": "x"}], "authorizers[0].webhook: Required value: required when type=Webhook"),
        ([{"type": "RBAC", "name": "x"}], "expected name rbac for authorizer RBAC instead of x"),
    ):
        assert message in refusal(*authorizers)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"timeout": None}, "authorizers[0].timeout: Required value"),
        ({"timeout": "31s"}, 'authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s'),
        ({"timeout": "-1s"}, "must be > 0s and <= 30s"),
        ({"timeout": "soon"}, "authorizers[0].timeout: Invalid value"),
        ({"authorizedTTL": "-1s"}, 'authorizedTTL: Invalid value: "-1s": must be > 0s'),
        ({"unauthorizedTTL": "-1s"}, 'unauthorizedTTL: Invalid value: "-1s": must be > 0s'),
        ({"subjectAccessReviewVersion": None}, "subjectAccessReviewVersion: Required value"),
        ({"subjectAccessReviewVersion": "v2"}, 'Unsupported value: "v2": supported values: "v1", "v1beta1"'),
        ({"failurePolicy": None}, "failurePolicy: Required value"),
        ({"failurePolicy": "X"}, 'failurePolicy: Unsupported value: "X": supported values: "NoOpinion", "Deny"'),
        ({"connectionInfo": {}}, "connectionInfo.type: Required value"),
        ({"connectionInfo": {"type": "X"}}, "connectionInfo.type: Unsupported value"),
        ({"connectionInfo": {"type": "InClusterConfig"}}, "connectionInfo.type: Unsupported value"),
        ({"connectionInfo": {"type": "KubeConfigFile"}}, "connectionInfo.kubeConfigFile: Required value"),
        ({"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "x"}}, "must be an absolute path"),
        (
            {"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/none"}},
            "error loading file: stat /none: no such file or directory",
        ),
        ({"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/"}}, "must be a regular file"),
        (
            {"matchConditions": [{"expression": "true"}]},
            "matchConditionSubjectAccessReviewVersion: Required value: req",
        ),
        (
            {"matchConditionSubjectAccessReviewVersion": "v1beta1"},
            'Unsupported value: "v1beta1": supported values: "v1"',
        ),
        ({"matchConditions": [{"expression": " "}]}, "matchConditions[0].expression: Required value"),
        ({"matchConditions": [{"expression": "true"}] * 2}, "matchConditions[1].expression: Duplicate value"),
        ({"matchConditions": [{"expression": "request.x"}]}, "undefined field 'x'"),
        ({"matchConditions": [{"expression": "request.user"}]}, "must evaluate to bool but got string"),
        ({"matchConditions": [{"expression": f"{n} > 0"} for n in range(65)]}, "matchConditions: Too many: 65"),
    ],
)
def test_invalid_webhook_is_refused(webhook, fields, told):
    assert told in refusal(webhook(**fields))


def test_reloaded_file_must_have_the_types_of_the_start():
    with pytest.raises(ConfigFileError, match=r"missing required types: \[Node\]"):
        parse_authorization_configuration(document(RBAC), ["Node", "RBAC"])


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        (["has(request.resourceAttributes)", "request.resourceAttributes.namespace == 'shop'"], True),
        (["!has(request.nonResourceAttributes)", "request.resourceAttributes.subresource == ''"], True),
        (["request.user == 'bob' && 'devs' in request.groups && request.uid == '' && request.extra.k == ['v']"], True),
        (["request.resourceAttributes.labelSelector.requirements.exists(r, r.key == 'a' && r.values == ['b'])"], True),
        (["request.resourceAttributes.?fieldSelector.requirements.orValue([]).size() == 0"], True),
        (["request.nonResourceAttributes.path == '/x'", "false"], False),
        (["request.resourceAttributes.name == 'x'"], False),
    ],
)
def test_match_conditions_see_the_review(expressions, expected):
    user = User("bob", ("devs",), "", (("k", ("v",)),))
    asked = AuthorizationAttributes(user, "list", "", "v1", "pods", "", "shop", label_selector="a=b")
    assert WebhookMatchConditions(expressions)(review_spec(asked)) is expected


def test_error_of_a_match_condition_is_told():
    spec = review_spec(AuthorizationAttributes(User("bob"), "get", path="/x"))
    with pytest.raises(ValueError, match=r"cel evaluation error: expression 'request.resource"):
        WebhookMatchConditions(["request.resourceAttributes.verb == 'get'", "true"])(spec)


def test_webhook_is_asked_only_if_its_conditions_hold(tmp_path):
    from kubeloop.apiserver.authorization.webhook import WebhookAuthorizer

    def mode(*conditions, denies=True):
        config = WebhookAuthorizerConfig(tmp_path, denies_on_failure=denies)
        return WebhookAuthorizer(config, None, SystemClock(), WebhookMatchConditions(conditions))

    asked = AuthorizationAttributes(User("bob"), "get", path="/x")
    assert mode("false").decide(asked) == AuthorizationDecision(False)
    failing = "request.resourceAttributes.verb == ''"
    found = mode(failing).decide(asked)
    assert (found.denied, "cel evaluation error" in found.error) == (True, True)
    assert not mode(failing, denies=False).decide(asked).denied


def test_server_follows_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr("kubeloop.apiserver.server.CHECK_SECONDS", 0.01)

    async def main():
        async with ReviewServer(tmp_path) as hook:
            hook.answer = lambda review: Response(200, json.dumps({**review, "status": {"allowed": True}}).encode())
            path = tmp_path / "authorization"
            path.write_bytes(document(RBAC))
            (tmp_path / "tokens").write_text("jane,jane,1\n")
            config = ApiServerConfig(
                port=0,
                token_file=tmp_path / "tokens",
                authorization_file=path,
                kubeconfigs=WebhookKubeconfigReader(SystemClock()),
            )
            server = await start_server(config, SystemClock())
            request = Request("GET", "/api/v1/pods", "", {"authorization": "Bearer jane"})
            try:
                assert (await server.app.handle(request)).status == 403
                info = {"type": "KubeConfigFile", "kubeConfigFile": str(hook.kubeconfig)}
                fields = {"timeout": "3s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny"}
                added = {"type": "Webhook", "name": "hook", "webhook": {**fields, "connectionInfo": info}}
                path.write_bytes(document(RBAC, added))
                for _ in range(10_000):
                    if (await server.app.handle(request)).status == 200:
                        break
                    await asyncio.sleep(0.01)
                assert (await server.app.handle(request)).status == 200
            finally:
                await server.close()

    asyncio.run(main())


def test_invalid_file_stops_the_start(tmp_path):
    path = tmp_path / "authorization"
    path.write_bytes(document())
    with pytest.raises(StartupError, match="at least one authorization mode must be defined"):
        asyncio.run(start_server(ApiServerConfig(port=0, authorization_file=path), SystemClock()))
    assert file_reloader.CHECK_SECONDS < 60  # upstream reloads within a minute
