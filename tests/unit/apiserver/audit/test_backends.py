# SPDX-License-Identifier: Apache-2.0
"""Backends of audit events: log and webhook, blocking and in batches."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubeloop.apiserver.audit.backends import (
    AuditWebhookConfig,
    BatchConfig,
    BlockingBackend,
    BufferedBackend,
    LogBackend,
    TruncateBackend,
    TruncateConfig,
    UnionBackend,
    WebhookBackend,
    legacy_line,
)
from kubeloop.apiserver.server import ApiServerConfig, AuditConfig, start_server
from kubeloop.apiserver.webhook_client.review_client import ReviewClient
from kubeloop.cli.apiserver.webhook_kubeconfig import WebhookKubeconfigReader
from kubeloop.clock import SystemClock
from kubeloop.http import Request, Response
from tests.unit.apiserver.conftest import ManualClock
from tests.unit.apiserver.review_server import ReviewServer


class StoredEvents:
    """Keeps batches; its answers may be awaitable."""

    def __init__(self, answer=True, *, waits=False):
        self.batches = []
        self.closed = False
        self._answer = answer
        self._waits = waits

    def process(self, events):
        self.batches.append(list(events))

        async def later():
            return self._answer

        return later() if self._waits else self._answer

    async def close(self):
        self.closed = True


def event(number, **more):
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": str(number),
        **more,
    }


def test_batches_are_full_or_late_and_sent_at_the_end(virtual_run):
    async def main():
        kept = StoredEvents(waits=True)
        backend = BufferedBackend(kept, BatchConfig(max_size=2, max_wait=30.0, throttle=False), SystemClock())
        for number in range(3):
            assert backend.process([event(number)]) is True
        await asyncio.sleep(1)
        assert [len(batch) for batch in kept.batches] == [2]
        await asyncio.sleep(31)
        assert [len(batch) for batch in kept.batches] == [2, 1]
        backend.process([event(4)])
        await backend.close()
        assert [len(batch) for batch in kept.batches] == [2, 1, 1]
        assert kept.closed

    virtual_run(main)


def test_full_buffer_drops_events(caplog):
    async def main():
        kept = StoredEvents()
        backend = BufferedBackend(kept, BatchConfig(buffer_size=2, throttle=False), ManualClock())
        assert backend.process([event(number) for number in range(4)]) is True
        await backend.close()
        assert [one["auditID"] for batch in kept.batches for one in batch] == ["0", "1"]
        backend.process([event(9)])

    asyncio.run(main())
    first, second = (message for message in caplog.messages if "audit plugin" in message)
    assert "affecting 2 audit events: audit buffer queue blocked (2, 3)" in first
    assert "audit backend shut down" in second


def test_batches_are_throttled(virtual_run):
    async def main():
        kept = StoredEvents()
        loop = asyncio.get_running_loop()
        clock = ManualClock()
        clock.monotonic = loop.time
        config = BatchConfig(max_size=1, throttle_qps=2.0, throttle_burst=3)
        backend = BufferedBackend(kept, config, clock)
        backend.process([event(number) for number in range(7)])
        began = loop.time()
        await backend.close()
        assert len(kept.batches) == 7
        assert loop.time() - began == pytest.approx(2.0)

    virtual_run(main)


@pytest.fixture
def virtual_run():
    from kubeloop.sim.loop import VirtualLoop

    def run(main):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(main())

    return run


@pytest.mark.parametrize("waits", [False, True])
def test_blocking_ignores_failures_and_a_union_does_not(waits):
    async def stored(backend):
        found = backend.process([event(1)])
        return found if isinstance(found, bool) else await found

    async def main():
        assert await stored(BlockingBackend(StoredEvents(False, waits=waits))) is True
        assert await stored(UnionBackend([StoredEvents(), StoredEvents(False, waits=waits)])) is False
        assert await stored(UnionBackend([StoredEvents(waits=waits), StoredEvents()])) is True

    asyncio.run(main())


def test_large_events_lose_their_bodies_and_batches_are_split(caplog):
    kept = StoredEvents()
    backend = TruncateBackend(kept, TruncateConfig(max_event_size=300, max_batch_size=400))
    body = {"x": "y" * 400}
    large = event(1, requestObject=body, responseObject=body, annotations={"a": "b"})
    events = [event(0), large, event(2, level="Metadata", requestURI="z" * 400), event(3), event(4)]
    assert backend.process(events) is True
    assert [[one["auditID"] for one in batch] for batch in kept.batches] == [["0", "1", "3"], ["4"]]
    truncated = kept.batches[0][1]
    assert truncated["annotations"] == {"a": "b", "audit.k8s.io/truncated": "true"}
    assert "requestObject" not in truncated
    assert "requestObject" in large
    assert any("event is too large even after truncating (2)" in message for message in caplog.messages)


def test_legacy_format_is_one_line_of_text():
    full = event(
        7, stage="ResponseComplete", sourceIPs=["10.0.0.1"], verb="list", userAgent="test/1", requestURI="/api/v1/pods",
        user={"username": "bob", "groups": ["a", "b"]}, impersonatedUser={"username": "eve"},
        objectRef={"namespace": "shop"}, responseStatus={"code": 200}, requestReceivedTimestamp="2026-01-01T00:00:00Z",
    )  # fmt: skip
    assert legacy_line(full).decode() == (
        '2026-01-01T00:00:00Z AUDIT: id="7" stage="ResponseComplete" ip="10.0.0.1" method="list" user="bob" '
        'groups="\\"a\\",\\"b\\"" as="eve" asgroups="<lookup>" user-agent="test/1" namespace="shop" '
        'uri="/api/v1/pods" response="200"'
    )
    assert legacy_line({}).decode() == (
        ' AUDIT: id="" stage="" ip="<unknown>" method="" user="<none>" groups="<none>" as="<self>" '
        'asgroups="<lookup>" user-agent="" namespace="<none>" uri="" response="<deferred>"'
    )


def test_log_that_cannot_be_written_is_a_failure(caplog):
    class FullLog:
        def write(self, line):
            raise OSError("no space left on device")

        def close(self):
            pass

    assert LogBackend(FullLog()).process([event(1)]) is False
    assert "Error in audit plugin 'log' affecting 1 audit events: no space left on device (1)" in caplog.messages


def test_webhook_gets_a_list_of_events_and_is_tried_again(tmp_path, caplog):
    async def main():
        async with ReviewServer(tmp_path) as server:
            clock = ManualClock()
            client = ReviewClient(
                WebhookKubeconfigReader(clock).endpoint(server.kubeconfig), clock, retry_seconds=0.001
            )
            backend = WebhookBackend(client)
            failures = [Response(403, b"no", "text/plain"), Response(500, b"no", "text/plain")]
            server.answer = lambda _: failures.pop() if failures else Response(200, b"not even JSON")
            assert await backend.process([event(1), event(2)]) is True
            assert len(server.reviews) == 3
            assert server.reviews[0] == {
                "kind": "EventList",
                "apiVersion": "audit.k8s.io/v1",
                "metadata": {},
                "items": [{"level": "RequestResponse", "auditID": number} for number in ("1", "2")],
            }
            server.answer = lambda _: Response(400, b"no", "text/plain")
            assert await backend.process([event(3)]) is False
            assert len(server.reviews) == 8
            await backend.close()

    asyncio.run(main())
    assert any("Error in audit plugin 'webhook' affecting 1 audit events" in message for message in caplog.messages)


def serving(tmp_path, hook, **webhook):
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    (tmp_path / "policy").write_text(json.dumps(policy))
    config = AuditWebhookConfig(hook.kubeconfig, 0.001, **webhook)
    audit = AuditConfig(tmp_path / "policy", webhook=config)
    return ApiServerConfig(port=0, audit=audit, kubeconfigs=WebhookKubeconfigReader(SystemClock()))


def stages(hook):
    return [one["stage"] for review in hook.reviews for one in review["items"]]


@pytest.mark.parametrize(("mode", "code"), [("blocking", 200), ("blocking-strict", 500)])
def test_strict_server_answers_nothing_that_is_not_recorded(tmp_path, mode, code):
    async def main():
        async with ReviewServer(tmp_path) as hook:
            hook.answer = lambda _: Response(200)
            server = await start_server(serving(tmp_path, hook, mode=mode), SystemClock())
            try:
                assert (await server.app.handle(Request("GET", "/livez"))).status == 200
                assert stages(hook) == ["RequestReceived", "ResponseComplete"]
                hook.answer = lambda _: Response(503)
                response = await server.app.handle(Request("GET", "/livez"))
                assert response.status == code
                if code == 500:
                    assert response.body == b'Internal Server Error: "/livez": failed to store audit event\n'
            finally:
                hook.answer = lambda _: Response(200)
                await server.close()

    asyncio.run(main())


def test_batches_are_sent_when_the_server_stops(tmp_path):
    async def main():
        async with ReviewServer(tmp_path) as hook:
            hook.answer = lambda _: Response(200)
            server = await start_server(serving(tmp_path, hook), SystemClock())
            assert (await server.app.handle(Request("GET", "/livez"))).status == 200
            assert hook.reviews == []
            await server.close()
            assert stages(hook)[:2] == ["RequestReceived", "ResponseComplete"]

    asyncio.run(main())
