# SPDX-License-Identifier: Apache-2.0
"""A reflector against a server that answers wrongly in every way, over a real connection: it ends up right."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from kubeloop.api import errors
from kubeloop.api.kinds import RESOURCES
from kubeloop.clock import SystemClock
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.informer.reflector import ReflectorTimeouts
from tests.unit.client.raw_server import STREAM, Peer, answer, chunked, client_of, raw_server

NODES = next(one for one in RESOURCES if one.plural == "nodes")
QUICK = ReflectorTimeouts(first_pause=0.01)
SILENT = "silent before the answer"
SILENCE_SECONDS = 0.3
HANG = b""


def node(name: str, version: int) -> dict[str, object]:
    meta = {"name": name, "resourceVersion": str(version), "uid": name}
    return {"kind": "Node", "apiVersion": "v1", "metadata": meta}


def event(kind: str, name: str, version: int) -> bytes:
    return chunked(msgspec.json.encode({"type": kind, "object": node(name, version)}) + b"\n")


def error_event(error: errors.ApiError) -> bytes:
    return chunked(msgspec.json.encode({"type": "ERROR", "object": error.status()}) + b"\n")


def refusal(error: errors.ApiError, *headers: str) -> bytes:
    return answer(msgspec.json.encode(error.status()), f"{error.code} Trouble", headers)


class Server:
    """Serves scripted lists and watches; the last one stays open."""

    def __init__(self, acts: Sequence[Sequence[bytes]], lists: Sequence[bytes] = ()) -> None:
        self._acts = [*acts, (STREAM, event("ADDED", "b", 20), HANG)]
        self._lists = list(lists)
        self.asked: list[str] = []

    async def serve(self, peer: Peer, _: int) -> None:
        while True:
            target = (await peer.request()).split(" ")[1]
            query = parse_qs(urlsplit(target).query)
            if "sendInitialEvents" in query:
                await peer.say(refusal(errors.invalid("", "ListOptions", "", ())))
            elif "watch" in query:
                self.asked.append(f"watch {query['resourceVersion'][0]}")
                await self._act(peer)
            else:
                self.asked.append(f"list {query.get('resourceVersion', ['newest'])[0]}")
                await peer.say(self._lists.pop(0) if self._lists else _LIST)

    async def _act(self, peer: Peer) -> None:
        act = self._acts.pop(0) if len(self._acts) > 1 else self._acts[0]
        for said in act:
            if said is HANG:
                await peer.gone()
            else:
                await peer.say(said)
        if act[0] is STREAM:
            peer.reset()


_LIST = answer(
    msgspec.json.encode(
        {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": [node("a", 9)]}
    )
)
_GONE = errors.too_old_resource_version(10, 15)
_BUSY = errors.too_many_requests("slow down", 1)
RESUMED = ["list 0", "watch 10", "watch 10"]

TROUBLES = {
    "dropped at once": ([(STREAM,)], RESUMED),
    "dropped between events": ([(STREAM, event("ADDED", "c", 11))], ["list 0", "watch 10", "watch 11"]),
    "dropped in the middle of an event": ([(STREAM, event("ADDED", "c", 11)[:-20])], RESUMED),
    SILENT: ([(HANG,)], RESUMED),
    "too many requests": ([(refusal(_BUSY, "Retry-After: 1"),)], RESUMED),
    "internal error": ([(refusal(errors.internal_error("bad day")),)], RESUMED),
    "unavailable": ([(refusal(errors.service_unavailable("bad day")),)], RESUMED),
    "a gateway's page": ([(answer(b"<html>", "502 Bad Gateway"),)], RESUMED),
    "no HTTP": ([(b"SSH-2.0-OpenSSH_9.2\r\n",)], RESUMED),
    "no event": ([(STREAM, chunked(b'{"kind":"Pod"}\n'))], RESUMED),
    "gone": ([(refusal(_GONE),)], ["list 0", "watch 10", "list 10", "watch 10"]),
    "gone in the middle": ([(STREAM, error_event(_GONE))], ["list 0", "watch 10", "list 10", "watch 10"]),
    "back in time": (
        [(STREAM, event("ADDED", "c", 15), event("DELETED", "a", 12), HANG)],
        ["list 0", "watch 10", "list 15", "watch 10"],
    ),
}


def _distinct(asked: Sequence[str]) -> list[str]:
    """Remove repetitions: on a slow machine, the short timeout also ends calls that the server answers."""
    return list(dict.fromkeys(asked))


@pytest.mark.parametrize("trouble", TROUBLES)
def test_store_converges_after_any_watch_failure(trouble: str) -> None:
    acts, expected = TROUBLES[trouble]

    async def main() -> None:
        server = Server(acts)
        async with raw_server(server.serve) as listening, client_of(listening.port) as client:
            if trouble == SILENT:  # the only one that takes time to notice
                client = client.with_timeout(SILENCE_SECONDS)
            informers = SharedInformerFactory(client, SystemClock(), QUICK)
            informer = informers.for_resource(NODES)
            informers.start()
            await informer.wait_synced()
            await informer.wait_for_version("20", within=60)
            await informers.stop()
            assert _distinct(server.asked) == _distinct(expected) if trouble == SILENT else server.asked == expected
            assert {"a", "b"} <= {one.metadata.name for one in informer.list()}

    asyncio.run(main())


@pytest.mark.parametrize(
    "bad",
    [
        refusal(_BUSY, "Retry-After: 1"),
        refusal(errors.internal_error("bad day")),
        answer(b"<html>", "503 Service Unavailable"),
        answer(b'{"kind":"NodeList","items":[{"metadata":'),
    ],
    ids=["429", "500", "503", "broken"],
)
def test_failed_list_is_retried(bad: bytes) -> None:
    async def main() -> None:
        server = Server([], [bad, bad])
        async with raw_server(server.serve) as listening, client_of(listening.port) as client:
            informers = SharedInformerFactory(client, SystemClock(), QUICK)
            informer = informers.for_resource(NODES)
            informers.start()
            await informer.wait_for_version("20", within=60)
            await informers.stop()
            assert server.asked == ["list 0", "list 0", "list 0", "watch 10"]

    asyncio.run(main())
