# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens that a webhook is asked about, over real TLS."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.apiserver.authentication.remote_tokens import RemoteTokenUnion, TokenRejected, TokenReviewResult
from kubeloop.apiserver.authentication.webhook import WebhookAuthenticatorConfig, WebhookTokenAuthenticator
from kubeloop.apiserver.metrics.tokens import TokenCacheMetrics
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.webhook_client.review_client import ReviewClient
from kubeloop.cli.apiserver.webhook_kubeconfig import WebhookKubeconfigReader
from kubeloop.http import Response
from kubeloop.metrics import MetricRegistry
from tests.unit.apiserver.conftest import ManualClock
from tests.unit.apiserver.review_server import ReviewServer, status_of

BOB = {"username": "bob", "uid": "7", "groups": ["devs"], "extra": {"k": ["v"]}}


def subject(server, clock, version="v1", cache_ttl=120.0):
    config = WebhookAuthenticatorConfig(server.kubeconfig, version, cache_ttl)
    client = ReviewClient(WebhookKubeconfigReader(clock).endpoint(server.kubeconfig), clock, retry_seconds=0.001)
    return WebhookTokenAuthenticator(config, client, ("api",), clock)


@pytest.fixture
def with_server(tmp_path):
    def run(work):
        async def main():
            async with ReviewServer(tmp_path) as server:
                await work(server, ManualClock())

        asyncio.run(main())

    return run


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_webhook_names_the_user_of_a_token(with_server, version):
    async def work(server, clock):
        server.answer = status_of(authenticated=True, user=BOB)
        found = await subject(server, clock, version).authenticate("t", ("other", "api"))
        assert found == TokenReviewResult(User("bob", ("devs",), "7", (("k", ("v",)),)), ("api",))
        (review,) = server.reviews
        assert (review["kind"], review["apiVersion"]) == ("TokenReview", f"authentication.k8s.io/{version}")
        assert review["spec"] == {"token": "t", "audiences": ["other", "api"]}
        assert server.requests[0].query == "timeout=30s"

    with_server(work)


@pytest.mark.parametrize(
    ("said", "wanted", "shared"),
    [
        (None, ("api",), ("api",)),  # a webhook that knows no audiences: those of this server
        (None, ("other",), None),
        (["other"], ("other", "x"), ("other",)),
        (["other"], ("api",), None),
        (["other"], (), ()),
    ],
)
def test_audiences_must_be_shared(with_server, said, wanted, shared):
    async def work(server, clock):
        server.answer = status_of(authenticated=True, user=BOB, audiences=said)
        found = await subject(server, clock).authenticate("t", wanted)
        assert (found.audiences if found else None) == shared

    with_server(work)


def test_token_that_the_webhook_does_not_know_is_left_to_others(with_server):
    async def work(server, clock):
        server.answer = status_of(authenticated=False)
        assert await subject(server, clock).authenticate("t", ("api",)) is None
        server.answer = status_of(authenticated=False, error="expired")
        with pytest.raises(TokenRejected, match=r"^expired$"):
            await subject(server, clock).authenticate("t", ("api",))

    with_server(work)


def test_answers_are_cached_but_failures_are_not(with_server):
    async def work(server, clock):
        hook = subject(server, clock)
        server.answer = lambda review: Response(403, b"no", "text/plain")
        for _ in range(2):
            with pytest.raises(TokenRejected):
                await hook.authenticate("t", ("api",))
        assert len(server.reviews) == 2
        for answer in (status_of(authenticated=False), status_of(authenticated=True, user=BOB)):
            server.answer, before = answer, len(server.reviews)
            first = await hook.authenticate("t", ("api",))
            clock.advance(119)
            assert await hook.authenticate("t", ("api",)) == first
            await hook.authenticate("t", ())
            await hook.authenticate("u", ("api",))
            assert len(server.reviews) == before + 3
            clock.advance(121)

    with_server(work)


def test_union_shares_lookups_and_caches_users_for_ten_seconds(with_server):
    async def work(server, clock):
        server.answer = status_of(authenticated=True, user=BOB)
        registry = MetricRegistry()
        metrics = TokenCacheMetrics(registry, clock)
        union = RemoteTokenUnion([subject(server, clock, cache_ttl=0.0)], ("api",), clock, metrics)
        assert union.cached_user("t") is None
        found = await asyncio.gather(*(union.authenticate("t", ("api",)) for _ in range(3)))
        assert len(server.reviews) == 1
        user = User("bob", ("devs", "system:authenticated"), "7", (("k", ("v",)),))
        assert [one.user for one in found] == [user] * 3
        assert union.cached_user("t") == user
        clock.advance(10)
        assert union.cached_user("t") is None
        union.close()
        shown = registry.render().splitlines()
        for status, count in (("hit", 1), ("miss", 3)):
            assert f'authentication_token_cache_request_total{{status="{status}"}} {count}' in shown
        assert 'authentication_token_cache_fetch_total{status="ok"} 1' in shown
        assert 'authentication_token_cache_active_fetch_count{status="in_flight"} 0' in shown

    with_server(work)


def test_union_reports_all_reasons(with_server):
    class RejectingAuthenticator:
        async def authenticate(self, token, audiences):
            raise TokenRejected("grumpy")

        def close(self):
            pass

    async def work(server, clock):
        server.answer = status_of(authenticated=False, error="expired")
        with pytest.raises(TokenRejected, match=r"^\[grumpy, expired\]$"):
            await RemoteTokenUnion([RejectingAuthenticator(), subject(server, clock)], (), clock).authenticate("t", ())
        server.answer = status_of(authenticated=True, user={"username": "system:anonymous"})
        found = await RemoteTokenUnion([RejectingAuthenticator(), subject(server, clock)], (), clock).authenticate(
            "t", ()
        )
        assert found.user == User("system:anonymous")

    with_server(work)
