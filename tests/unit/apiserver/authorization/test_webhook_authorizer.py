# SPDX-License-Identifier: Apache-2.0
"""The webhook authorizer asks a real server over TLS."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubeloop.api.field_selectors import parse_field_selector
from kubeloop.apiserver.authentication import user_of_certificate
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, AuthorizationDecision
from kubeloop.apiserver.authorization.webhook import WebhookAuthorizer, WebhookAuthorizerConfig
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.webhook_client.review_client import ReviewClient
from kubeloop.cli.apiserver.webhook_kubeconfig import WebhookKubeconfigReader
from kubeloop.http import Response
from tests.unit.apiserver.conftest import ManualClock
from tests.unit.apiserver.review_server import ReviewServer, status_of

BOB = User("bob", ("devs",), "7", (("team", ("a", "b")),))
LIST = AuthorizationAttributes(BOB, "list", "apps", "v1", "deployments", "", "shop")


class AuthorizerHarness:
    """A webhook authorizer and its server; questions are counted by `len(server.reviews)`."""

    def __init__(self, server: ReviewServer, **config) -> None:
        self.clock = ManualClock()
        self.server = server
        made = WebhookAuthorizerConfig(server.kubeconfig, **config)
        client = ReviewClient(
            WebhookKubeconfigReader(self.clock).endpoint(server.kubeconfig), self.clock, made.timeout, 0.001
        )
        self.mode = WebhookAuthorizer(made, client, self.clock)

    async def decide(self, asked: AuthorizationAttributes = LIST) -> AuthorizationDecision:
        decision = self.mode.decide(asked)
        return decision if isinstance(decision, AuthorizationDecision) else await decision


@pytest.fixture
def with_server(tmp_path):
    """Runs a coroutine function with a server."""

    def run(work):
        async def main():
            async with ReviewServer(tmp_path) as server:
                await work(server)

        asyncio.run(main())

    return run


@pytest.mark.parametrize(("version", "groups"), [("v1", "groups"), ("v1beta1", "group")])
def test_review_of_a_resource_has_all_attributes(with_server, version, groups):
    async def work(server):
        server.answer = status_of(allowed=True, reason="fine")
        subject = AuthorizerHarness(server, version=version, timeout=3.0)
        asked = LIST._replace(
            name="x",
            subresource="scale",
            field_selector=parse_field_selector("metadata.name=x,spec.y!=z"),
            label_selector="a in (c,b),d,!e,f=g,h!=i,j>1",
        )
        assert await subject.decide(asked) == AuthorizationDecision(True, "fine")
        (review,) = server.reviews
        assert review == {
            "kind": "SubjectAccessReview",
            "apiVersion": f"authorization.k8s.io/{version}",
            "metadata": {},
            "spec": {
                "user": "bob",
                groups: ["devs"],
                "uid": "7",
                "extra": {"team": ["a", "b"]},
                "resourceAttributes": {
                    "namespace": "shop",
                    "verb": "list",
                    "group": "apps",
                    "version": "v1",
                    "resource": "deployments",
                    "subresource": "scale",
                    "name": "x",
                    "fieldSelector": {
                        "requirements": [
                            {"key": "metadata.name", "operator": "In", "values": ["x"]},
                            {"key": "spec.y", "operator": "NotIn", "values": ["z"]},
                        ]
                    },
                    "labelSelector": {
                        "requirements": [
                            {"key": "a", "operator": "In", "values": ["b", "c"]},
                            {"key": "d", "operator": "Exists"},
                            {"key": "e", "operator": "DoesNotExist"},
                            {"key": "f", "operator": "In", "values": ["g"]},
                            {"key": "h", "operator": "NotIn", "values": ["i"]},
                        ]
                    },
                },
            },
            "status": {"allowed": False},
        }
        (request,) = server.requests
        assert (request.method, request.path, request.query) == ("POST", "/review", "timeout=3s")
        assert user_of_certificate(request.peer_certificate).name == "kubernetes-admin"

    with_server(work)


def test_review_of_a_path_has_path_and_verb(with_server):
    async def work(server):
        asked = AuthorizationAttributes(User("eve"), "get", path="/x")
        assert await AuthorizerHarness(server).decide(asked) == AuthorizationDecision(False)
        assert server.reviews[0]["spec"] == {"user": "eve", "nonResourceAttributes": {"path": "/x", "verb": "get"}}

    with_server(work)


@pytest.mark.parametrize(
    ("status", "decision"),
    [
        ({"allowed": True}, AuthorizationDecision(True)),
        ({"allowed": False, "reason": "r"}, AuthorizationDecision(False, "r")),
        ({"allowed": False, "denied": True, "reason": "r"}, AuthorizationDecision(False, "r", True)),
        (
            {"allowed": True, "denied": True},
            AuthorizationDecision(
                False, "", True, "webhook subject access review returned both allow and deny response"
            ),
        ),
    ],
)
def test_status_is_the_decision(with_server, status, decision):
    async def work(server):
        server.answer = status_of(**status)
        assert await AuthorizerHarness(server).decide() == decision

    with_server(work)


@pytest.mark.parametrize(("allowed", "seconds"), [(True, 60), (False, 10)])
def test_answers_are_cached_for_their_time(with_server, allowed, seconds):
    async def work(server):
        server.answer = status_of(allowed=allowed)
        subject = AuthorizerHarness(server, authorized_ttl=60.0, unauthorized_ttl=10.0)
        first = await subject.decide()
        subject.clock.advance(seconds - 1)
        assert subject.mode.decide(LIST) == first
        await subject.decide(LIST._replace(name="another"))
        assert len(server.reviews) == 2
        subject.clock.advance(1)
        assert await subject.decide() == first
        assert len(server.reviews) == 3

    with_server(work)


def test_nothing_is_cached_without_a_time_or_for_long_attributes(with_server):
    async def work(server):
        server.answer = status_of(allowed=True)
        subject = AuthorizerHarness(server, authorized_ttl=0.0)
        await subject.decide()
        await subject.decide()
        assert len(server.reviews) == 2
        cached = AuthorizerHarness(server)
        long = LIST._replace(name="x" * 10_000)
        await cached.decide(long)
        await cached.decide(long)
        assert len(server.reviews) == 4

    with_server(work)


@pytest.mark.parametrize("denies", [False, True])
def test_failure_policy_decides_about_errors(with_server, denies):
    async def work(server):
        server.answer = lambda review: Response(400, b"what?", "text/plain")
        decision = await AuthorizerHarness(server, denies_on_failure=denies).decide()
        assert (decision.allowed, decision.denied) == (False, denies)
        assert decision.error == "the server rejected our request for an unknown reason"
        assert len(server.reviews) == 1

    with_server(work)


@pytest.mark.parametrize("code", [500, 429, 504])
def test_transient_errors_are_retried(with_server, code):
    async def work(server):
        failures = [Response(code, b"later", "text/plain")] * 4

        def answer(review):
            return failures.pop() if failures else status_of(allowed=True)(review)

        server.answer = answer
        assert (await AuthorizerHarness(server).decide()).allowed
        assert len(server.reviews) == 5
        server.answer = lambda review: Response(code, b"later", "text/plain")
        decision = await AuthorizerHarness(server).decide()
        assert decision.error
        assert len(server.reviews) == 10

    with_server(work)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"{", "couldn't get version/kind; json parse error"),
        (json.dumps({"kind": "Pod", "apiVersion": "v1"}).encode(), "expected authorization.k8s.io/v1beta1"),
        (json.dumps({"status": {"allowed": "yes"}}).encode(), "cannot unmarshal status"),
    ],
)
def test_senseless_answer_is_an_error(with_server, answer, error):
    async def work(server):
        server.answer = lambda review: Response(200, answer)
        decision = await AuthorizerHarness(server).decide()
        assert not decision.allowed
        assert error in decision.error

    with_server(work)


def test_server_that_is_gone_is_an_error(tmp_path):
    async def main():
        async with ReviewServer(tmp_path) as server:
            subject = AuthorizerHarness(server)
            url = server.url
        decision = await subject.decide()
        port = url.rpartition(":")[2].partition("/")[0]
        assert decision.error == f'Post "{url}?timeout=30s": dial tcp 127.0.0.1:{port}: connect: connection refused'

    asyncio.run(main())


def test_bearer_token_of_the_kubeconfig_is_sent_and_read_again(with_server, tmp_path):
    async def work(server):
        (tmp_path / "token").write_text("one")
        server.write_kubeconfig(tokenFile=str(tmp_path / "token"))
        subject = AuthorizerHarness(server)
        await subject.decide()
        (tmp_path / "token").write_text("second")
        await subject.decide(LIST._replace(name="x"))
        assert [one.headers["authorization"] for one in server.requests] == ["Bearer one", "Bearer second"]
        assert server.requests[0].peer_certificate is None

    with_server(work)
