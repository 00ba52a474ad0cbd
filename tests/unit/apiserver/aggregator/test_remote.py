# SPDX-License-Identifier: Apache-2.0
"""Requests for a group that an extension API server answers for, over real TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call
from kubeloop.apiserver.inprocess.stream import pieces_of
from kubeloop.apiserver.request.context import User
from kubeloop.http import StreamResponse
from tests.unit.apiserver.aggregator.conftest import NAME, AggregatorHarness, Scenario
from tests.unit.apiserver.aggregator.extension_server import GROUP, ROOT, VERSION

Play = Callable[[Scenario], None]
GARDENS = Resource(GROUP, VERSION, "gardens", "Garden")
ADMIN = User("boss", ("system:masters",), "7", (("scopes/a b", ("x", "y")),))


def test_request_is_proxied_with_the_users_identity(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        path = f"{ROOT}/namespaces/default/gardens/eden"
        as_alice = {"impersonate_user": "alice", "impersonate_group": "system:masters"}
        found = await env.json(f"{path}?pretty=1", x_remote_user="somebody-else", **as_alice)
        assert found["metadata"]["name"] == "eden"
        asked = env.gardens.last
        assert (asked.path, asked.query) == (path, "pretty=1")
        assert asked.headers["x-remote-user"] == "alice"
        assert asked.headers["x-remote-group"] == "system:masters, system:authenticated"
        assert not {"authorization", "impersonate-user"} & set(asked.headers)
        assert asked.headers["audit-id"]

    play(scenario)


def test_bodies_and_errors_are_proxied_unchanged(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        made = await env.ask(f"{ROOT}/namespaces/default/gardens", {"spec": 1})
        assert (made.status, made.body) == (201, b'{"spec": 1}')
        missing = await env.ask(f"{ROOT}/namespaces/default/gardens/none")
        assert missing.status == 404
        assert b"no garden" in bytes(missing.body)  # type: ignore[arg-type]

    play(scenario)


def test_a_redirect_is_not_passed_on(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        moved = await env.ask(f"{ROOT}/namespaces/default/gardens/moved")
        assert moved.status == 502
        assert b"attempted to redirect" in bytes(moved.body)  # type: ignore[arg-type]

    play(scenario)


def test_authorization_precedes_proxying(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        refused = await env.ask(f"{ROOT}/namespaces/default/gardens", token="nobody-token")
        assert refused.status == 403
        assert b'cannot list resource \\"gardens\\" in API group' in bytes(refused.body)  # type: ignore[arg-type]
        assert not [one for one in env.gardens.seen if "gardens" in one.path and "openapi" not in one.path]

    play(scenario)


def test_watch_is_proxied_event_by_event_until_the_client_disconnects(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        response = await env.ask(f"{ROOT}/gardens?watch=1")
        assert isinstance(response, StreamResponse)
        pieces = pieces_of(response)
        for name in ("eden", "versailles"):
            env.gardens.next_event.put_nowait(name)
            piece = await anext(pieces)
            assert json.loads(piece)["object"]["metadata"]["name"] == name
        await pieces.aclose()

    play(scenario)


def test_upgraded_connection_is_proxied(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        reader, writer = await asyncio.open_connection("127.0.0.1", env.server.port)
        head = f"GET {ROOT}/namespaces/default/gardens/eden/talk HTTP/1.1\r\nHost: x\r\n"
        upgrade = "Connection: Upgrade\r\nUpgrade: echo\r\nAuthorization: Bearer admin-token\r\n\r\nearly "
        writer.write((head + upgrade).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert b"upgrade: echo" in answer.lower()
        assert await reader.readexactly(6) == b"EARLY "
        writer.write(b"late")
        assert await reader.readexactly(4) == b"LATE"
        assert env.gardens.last.headers["x-remote-user"] == "admin"
        writer.close()

    play(scenario)


def test_connections_are_reused(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        for _ in range(3):
            await env.json(f"{ROOT}/namespaces/default/gardens/eden")
        ports = {one.remote for one in env.gardens.seen if one.path.endswith("/eden")}
        assert len(ports) == 1

    play(scenario)


def test_in_process_clients_reach_the_extension_server(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        entry = env.entry(ADMIN)
        listed = await entry.call(Call(verb="list", resource=GARDENS))
        assert [one.metadata.name for one in listed.items] == ["eden"]
        assert env.gardens.last.headers["x-remote-extra-scopes%2fa%20b"] == "x, y"
        assert env.gardens.last.headers["x-remote-uid"] == "7"
        document = await entry.document(ROOT)
        assert document["resources"][0]["name"] == "gardens"
        with pytest.raises(NotFound, match="no garden"):
            await entry.call(Call(verb="get", resource=GARDENS, namespace="default", name="none"))
        env.gardens.next_event.put_nowait("eden")
        async for batch in entry.watch(Call(verb="watch", resource=GARDENS)):
            assert [(one.type, one.object.metadata.name) for one in batch] == [("ADDED", "eden")]
            break

    play(scenario)


def test_unregistered_server_is_not_called(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        await env.ask(f"/apis/apiregistration.k8s.io/v1/apiservices/{NAME}", method="DELETE")
        assert (await env.ask(f"{ROOT}/gardens")).status == 404
        listed = await env.json("/apis")
        assert GROUP not in [group["name"] for group in listed["groups"]]

    play(scenario)
