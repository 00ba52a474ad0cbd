# SPDX-License-Identifier: Apache-2.0
"""Webhook authentication and authorization of a whole server."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubeloop.api.codec import to_plain
from kubeloop.api.generated.authentication_v1 import TokenReview, TokenReviewSpec
from kubeloop.api.kinds import RESOURCES
from kubeloop.api.requests import Call
from kubeloop.apiserver.authentication.webhook import WebhookAuthenticatorConfig
from kubeloop.apiserver.authorization.webhook import WebhookAuthorizerConfig
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, ServiceAccountTokenConfig, StartupError, start_server
from kubeloop.cli.apiserver.webhook_kubeconfig import WebhookKubeconfigReader
from kubeloop.clock import SystemClock
from kubeloop.http import Request, Response
from tests.unit.apiserver.review_server import ReviewServer


def answers(review):
    if review["kind"] == "TokenReview":
        known = review["spec"]["token"] == "jane"
        status = {"authenticated": known, "user": {"username": "jane"} if known else {}}
    else:
        attributes = review["spec"].get("resourceAttributes", {})
        status = {"allowed": attributes.get("resource") == "pods", "reason": "by the book"}
    return Response(200, json.dumps({**review, "status": status}).encode())


async def ask(server, path, method="GET", token="jane", body=b""):
    request = Request(method, path, "", {"authorization": f"Bearer {token}", "content-type": "application/json"})
    request.body = body
    response = await server.app.handle(request)
    raw = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    return response.status, json.loads(raw)


def test_user_and_permission_come_from_webhooks(tmp_path):
    async def main():
        async with ReviewServer(tmp_path) as hook:
            hook.answer = answers
            config = ApiServerConfig(
                port=0,
                token_webhook=WebhookAuthenticatorConfig(hook.kubeconfig, "v1"),
                authorization_modes=("RBAC", "Webhook"),
                authorization_webhook=WebhookAuthorizerConfig(hook.kubeconfig, "v1"),
                kubeconfigs=WebhookKubeconfigReader(SystemClock()),
                service_account_tokens=ServiceAccountTokenConfig(hook.pki.account_key),
            )
            server = await start_server(config, SystemClock())
            try:
                assert (await ask(server, "/api/v1/pods"))[0] == 200
                status, body = await ask(server, "/api/v1/secrets")
                told = 'User "jane" cannot list resource "secrets" in API group "" at the cluster scope'
                assert (status, body["message"]) == (403, f"secrets is forbidden: {told}: default: by the book")
                assert (await ask(server, "/api/v1/pods", token="eve"))[0] == 401
                await check_reviews(server)
            finally:
                await server.close()

    asyncio.run(main())


async def check_reviews(server):
    """Reviews are answered by the same webhooks."""
    rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    body = json.dumps({"spec": {"namespace": "shop"}}).encode()
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    status, review = await ask(server, path, "POST", body=json.dumps(asked).encode())
    assert (status, review["status"]) == (201, {"allowed": True, "reason": "by the book"})
    status, review = await ask(server, rules, "POST", body=body)
    assert (review["status"]["incomplete"], review["status"]["evaluationError"]) == (
        True,
        "webhook authorizer does not support user rule resolution",
    )
    for token, expected in (("jane", True), ("eve", False)):
        found = await review_token(server, token)
        assert found["status"].get("authenticated", False) is expected
        if expected:
            assert found["status"]["user"] == {"username": "jane", "groups": ["system:authenticated"]}
            assert found["status"]["audiences"] == ["https://kubernetes.default.svc"]
        else:
            assert found["status"]["error"] == "invalid bearer token"


async def review_token(server, token):
    """A TokenReview that an administrator asks for."""
    resource = next(one for one in RESOURCES if one.plural == "tokenreviews")
    transport = InProcessTransport(server.app, User("admin", ("system:masters",)))
    review = TokenReview(spec=TokenReviewSpec(token=token))
    return to_plain(await transport.call(Call(verb="create", resource=resource, body=review)))


def test_kubeconfig_that_cannot_be_read_stops_the_start(tmp_path):
    (tmp_path / "kubeconfig").write_text("kind: Pod")
    for webhook in (
        {"token_webhook": WebhookAuthenticatorConfig(tmp_path / "kubeconfig")},
        {
            "authorization_modes": ("Webhook",),
            "authorization_webhook": WebhookAuthorizerConfig(tmp_path / "kubeconfig"),
        },
    ):
        config = ApiServerConfig(port=0, kubeconfigs=WebhookKubeconfigReader(SystemClock()), **webhook)
        with pytest.raises(StartupError, match="is not a kubeconfig"):
            asyncio.run(start_server(config, SystemClock()))
