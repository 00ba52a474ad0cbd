# SPDX-License-Identifier: Apache-2.0
"""Tests of the client independent of its transport: rate limits, retries, deadlines, causes; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import ConfigMap, Node, Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, ListResult, WatchEvent
from kubeloop.api.unstructured import Unstructured
from kubeloop.client import Client
from kubeloop.client.errors import CallTimeout, ConnectError, ConnectionLost, NoKindMatchError, UsageError
from kubeloop.client.http.rate_limit import TokenBucket
from kubeloop.client.metrics import NoClientMetrics
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual


class ScriptedTransport:
    """Transport with scripted responses that records calls and their times."""

    def __init__(self, *answers: Any, documents: dict[str, Any] | None = None) -> None:
        self._answers = list(answers)
        self._documents = documents or {}
        self.calls: list[Call] = []
        self.paths: list[str] = []
        self.times: list[float] = []

    async def call(self, call: Call) -> Any:
        self.calls.append(call)
        self.times.append(asyncio.get_running_loop().time())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return await answer() if callable(answer) else answer

    async def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        yield await self.call(call)

    def is_in_process(self, resource: Resource) -> bool:
        return False

    def discovery_version(self) -> object | None:
        return None

    async def stream(self, call: Call) -> AsyncIterator[bytes]:
        yield await self.call(call)

    async def document(self, path: str) -> Any:
        self.paths.append(path)
        if path not in self._documents:
            raise errors.generic_server_response(404)
        return self._documents[path]

    async def close(self) -> None:
        """Metrics without effect."""


def in_virtual_time(main: Callable[[VirtualClock], Awaitable[None]]) -> None:
    loop = VirtualLoop()
    run_virtual(main(VirtualClock(loop)), loop=loop)  # type: ignore[arg-type]  # a coroutine function


NODE = Node(metadata=ObjectMeta(name="n"))
BUSY = errors.too_many_requests("slow down", 3)


@pytest.mark.parametrize("error", [BUSY, errors.server_timeout("", "nodes", "get", 3), errors.timeout("late", 3)])
def test_retry_after_is_honored(error: Exception) -> None:
    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport(error, error, NODE)
        assert await Client(transport).create(NODE) is NODE
        assert transport.times == [0.0, 3.0, 6.0]

    in_virtual_time(main)


def test_retries_are_limited_to_ten() -> None:
    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport(errors.too_many_requests("slow down", 1))
        with pytest.raises(errors.TooManyRequests):
            await Client(transport).with_timeout(None).get(Node, "n")
        assert len(transport.calls) == 11

    in_virtual_time(main)


@pytest.mark.parametrize(
    "error",
    [
        errors.not_found("", "nodes", "n"),
        errors.too_many_requests("now", 0),
        errors.generic_server_response(500),
        ConnectError("x"),
    ],
)
def test_other_failures_are_not_retried(error: Exception) -> None:
    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport(error)
        with pytest.raises(type(error)):
            await Client(transport).get(Node, "n")
        assert len(transport.calls) == 1

    in_virtual_time(main)


def test_lost_connection_is_retried_for_reads_only() -> None:
    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport(ConnectionLost("gone"), NODE)
        assert await Client(transport).get(Node, "n") is NODE
        assert transport.times == [0.0, 1.0]
        with pytest.raises(ConnectionLost):
            await Client(ScriptedTransport(ConnectionLost("gone"), NODE)).delete(Node, "n")

    in_virtual_time(main)


def test_call_timeout_is_enforced() -> None:
    async def never() -> None:
        await asyncio.sleep(1e6)

    async def main(clock: VirtualClock) -> None:
        with pytest.raises(CallTimeout, match=r"^get nodes n: no response within 30 s$"):
            await Client(ScriptedTransport(never)).get(Node, "n")
        assert clock.monotonic() == 30.0

    in_virtual_time(main)


def test_raw_and_discovery_calls_have_timeouts() -> None:
    class Silent(ScriptedTransport):
        async def document(self, path: str) -> Any:
            await asyncio.sleep(1e6)

    async def main(clock: VirtualClock) -> None:
        client = Client(Silent(NODE))
        with pytest.raises(CallTimeout, match=r"^get /version: no response within 30 s$"):
            await client.document("/version")
        with pytest.raises(CallTimeout):
            await client.get("widgets.example.com/v1", "w", "x")

    in_virtual_time(main)


def test_retries_share_one_deadline_and_the_last_error_is_raised() -> None:
    async def main(clock: VirtualClock) -> None:
        with pytest.raises(errors.TooManyRequests):
            await Client(ScriptedTransport(errors.too_many_requests("slow down", 20))).get(Node, "n")
        assert clock.monotonic() == 20.0

    in_virtual_time(main)


def test_waits_and_retries_are_reported_to_metrics() -> None:
    class RecordingMetrics(NoClientMetrics):
        def __init__(self) -> None:
            self.waits: list[tuple[str, float]] = []
            self.retries: list[tuple[str, str]] = []

        def rate_limiter_wait(self, verb: str, seconds: float) -> None:
            self.waits.append((verb, seconds))

        def retry(self, verb: str, code: str) -> None:
            self.retries.append((verb, code))

    async def main(clock: VirtualClock) -> None:
        noted = RecordingMetrics()
        client = Client(
            ScriptedTransport(BUSY, ConnectionLost("x"), NODE), limiter=TokenBucket(0.1, 1, clock), metrics=noted
        )
        await client.get(Node, "n")
        assert noted.retries == [("get", "429"), ("get", "<error>")]
        assert noted.waits == [("get", 0.0), ("get", 7.0), ("get", pytest.approx(9.0))]

    in_virtual_time(main)


def test_calls_wait_for_the_rate_limiter() -> None:
    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport(NODE)
        client = Client(transport, limiter=TokenBucket(10, 2, clock))
        await asyncio.gather(*(client.get(Node, "n") for _ in range(5)))
        assert transport.times == pytest.approx([0, 0, 0.1, 0.2, 0.3])
        await asyncio.sleep(10)
        await asyncio.gather(*(client.get(Node, "n") for _ in range(3)))
        assert transport.times[5:] == pytest.approx([10.3, 10.3, 10.4])

    in_virtual_time(main)


def test_unused_token_is_returned_to_the_limiter() -> None:
    async def main(clock: VirtualClock) -> None:
        bucket = TokenBucket(1, 1, clock)
        await bucket.wait()
        waiting = asyncio.create_task(bucket.wait())
        await asyncio.sleep(0.5)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await bucket.wait() == pytest.approx(0.5)

    in_virtual_time(main)


def test_writes_have_a_cause_and_reads_do_not() -> None:
    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport(NODE)
        client = Client(transport, cause=lambda: "outer")
        await client.create(NODE)
        await client.with_cause("inner").with_user_agent("me").create(NODE)
        await client.get(Node, "n")
        assert [(call.cause, call.user_agent) for call in transport.calls] == [
            ("outer", "kubeloop"),
            ("inner", "me"),
            ("", "kubeloop"),
        ]

    in_virtual_time(main)


def test_object_is_sent_to_its_namespace() -> None:
    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport(NODE)
        client = Client(transport)
        here = ConfigMap(metadata=ObjectMeta(name="a", namespace="x"))
        await client.create(here)
        await client.create(ConfigMap(metadata=ObjectMeta(name="a")), "y")
        assert [call.namespace for call in transport.calls] == ["x", "y"]
        with pytest.raises(UsageError, match="the object is in namespace x, but the call is for y"):
            await client.create(here, "y")
        with pytest.raises(UsageError, match="ObjectMeta is not the class of a resource"):
            await client.create(ObjectMeta())
        with pytest.raises(UsageError, match="must have apiVersion and kind"):
            await client.create({"metadata": {}})

    in_virtual_time(main)


def test_delete_sends_options_only_if_set() -> None:
    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport({})
        client = Client(transport)
        await client.delete(Node, "n")
        await client.delete(Node, "n", propagation="Foreground", grace_seconds=0)
        assert transport.calls[0].body is None
        assert transport.calls[1].body.propagation_policy == "Foreground"
        assert transport.calls[1].body.grace_period_seconds == 0

    in_virtual_time(main)


def test_pages_send_the_version_once() -> None:
    pages = [
        ListResult(items=(1,), resource_version="5", continue_token="next"),
        ListResult(items=(2,), resource_version="5"),
    ]

    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport(*pages)
        found = [
            page async for page in Client(transport).list_pages(Pod, "x", limit=1, resource_version="0", labels="a=b")
        ]
        assert found == pages
        assert [dict(call.options) for call in transport.calls] == [
            {"labelSelector": "a=b", "limit": "1", "resourceVersion": "0"},
            {"labelSelector": "a=b", "limit": "1", "continue": "next"},
        ]

    in_virtual_time(main)


WIDGETS = {
    "groupVersion": "example.com/v1",
    "resources": [
        {"name": "widgets", "kind": "Widget", "namespaced": True, "shortNames": ["wg"], "verbs": ["get", "create"]},
        {"name": "widgets/scale", "kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": ["get"]},
        {"name": "widgets/status", "kind": "Widget", "namespaced": True, "verbs": ["get", "patch"]},
    ],
}
DOCUMENTS = {
    "/apis": {"groups": [{"name": "example.com", "preferredVersion": {"groupVersion": "example.com/v1"}}]},
    "/apis/example.com/v1": WIDGETS,
}


def test_custom_resources_are_discovered_once() -> None:
    widget = Unstructured(
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "x"}}
    )

    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport(widget, documents=DOCUMENTS)
        client = Client(transport)
        for what in ("widgets.example.com/v1", "Widget.example.com", "wg"):
            for _ in range(2):
                assert await client.get(what, "w", "x") is widget
        assert transport.paths == [
            "/apis/example.com/v1",
            *("/apis", "/apis/example.com/v1"),
            *("/apis", "/api/v1", "/apis/example.com/v1"),
        ]
        resource = transport.calls[0].resource
        assert (resource.plural, resource.namespaced, resource.verbs) == ("widgets", True, ("get", "create"))
        assert {one.name: (one.group_version, one.kind) for one in resource.subresources} == {
            "scale": ("autoscaling/v1", "Scale"),
            "status": ("", ""),
        }

    in_virtual_time(main)


def test_a_custom_resource_is_sent_as_its_document() -> None:
    widget = Unstructured(
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "x"}}
    )

    async def main(clock: VirtualClock) -> None:
        transport = ScriptedTransport(widget, documents=DOCUMENTS)
        await Client(transport).create(widget)
        assert transport.calls[0].body is widget.document
        assert (transport.calls[0].resource.kind, transport.calls[0].namespace) == ("Widget", "x")

    in_virtual_time(main)


def test_unserved_resource_is_discovered_again() -> None:
    async def main(clock: VirtualClock) -> None:
        documents: dict[str, Any] = {"/apis": {"groups": []}}
        client = Client(ScriptedTransport(NODE, documents=documents))
        with pytest.raises(NoKindMatchError):
            await client.get("widgets.example.com", "w", "x")
        documents.update(DOCUMENTS)
        assert await client.get("widgets.example.com", "w", "x") is NODE

    in_virtual_time(main)


@pytest.mark.parametrize("what", ["", ".apps", "pods/latest", "pods/"])
def test_invalid_names_are_rejected(what: str) -> None:
    async def main(clock: VirtualClock) -> None:
        with pytest.raises((UsageError, NoKindMatchError)):
            await Client(ScriptedTransport(NODE, documents={"/apis": {}})).get(what + "x" * (what == "pods/"), "n", "x")

    in_virtual_time(main)


@pytest.mark.parametrize("ask", [lambda client: client.watch(Node), lambda client: client.stream_logs("p", "ns")])
def test_closed_watch_releases_its_connection(ask: Callable[[Client], Any]) -> None:
    class EndlessTransport(ScriptedTransport):
        closed = False

        async def watch(self, call: Call) -> AsyncIterator[Any]:
            try:
                while True:
                    yield b"line\n"
            finally:
                self.closed = True

        stream = watch

    async def main(clock: VirtualClock) -> None:
        transport = EndlessTransport()
        items = ask(Client(transport))
        await anext(items)
        await items.aclose()
        assert transport.closed

    in_virtual_time(main)
