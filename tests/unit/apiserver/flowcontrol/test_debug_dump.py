# SPDX-License-Identifier: Apache-2.0
"""`/debug/api_priority_and_fairness/*`: upstream's tables of levels, queues and requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.flowcontrol.request_flow import RequestFlow, Seat
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, RunningServer, start_server
from kubeloop.clock import SystemClock
from kubeloop.http import Request, Response

DUMPS = "/debug/api_priority_and_fairness"
TOKENS = 'admin-token,admin,1,"system:masters"\nuser-token,user,2\n'


async def ask(server: RunningServer, path: str, token: str = "admin") -> Response:
    path, _, query = path.partition("?")
    return await server.app.handle(Request("GET", path, query, {"authorization": f"Bearer {token}-token"}))


async def table(server: RunningServer, name: str) -> list[list[str]]:
    """Return the cells of a table after its alignment was checked."""
    response = await ask(server, f"{DUMPS}/{name}")
    assert (response.status, response.content_type) == (200, "text/plain; charset=utf-8")
    assert isinstance(response.body, bytes)
    lines = response.body.decode().splitlines()
    starts = [at for at in range(1, len(lines[0])) if lines[0][at - 1] == " " != lines[0][at]]
    for line in lines:
        assert all(line[at - 1] == " " and "," in line[: at - 1] for at in starts)
    return [[cell.strip() for cell in line.split(",")] for line in lines]


@pytest.fixture
def config(tmp_path: Path) -> ApiServerConfig:
    (tmp_path / "tokens").write_text(TOKENS)
    return ApiServerConfig(port=0, token_file=tmp_path / "tokens")


def flow_of(server: RunningServer) -> RequestFlow:
    control = server.app.flowcontrol
    assert control is not None
    asked = AuthorizationAttributes(User("user", ("system:authenticated",)), "create", "apps", "v1", "deployments")
    return control._find_flow(asked)


def test_priority_levels(config: ApiServerConfig) -> None:
    async def scenario() -> None:
        server = await start_server(config, SystemClock())
        try:
            await ask(server, "/api/v1/pods", "user")
            head, *rows = await table(server, "dump_priority_levels")
            assert head == [
                *("PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests"),
                *("ExecutingRequests", "DispatchedRequests", "RejectedRequests", "TimedoutRequests"),
                "CancelledRequests",
            ]
            assert [row[0] for row in rows] == sorted(row[0] for row in rows)
            found = {row[0]: row[1:] for row in rows}
            # The request for the table executes itself.
            assert found["exempt"][:5] == ["0", "false", "false", "0", "1"]
            assert found["workload-low"] == ["0", "true", "false", "0", "0", "0", "0", "0", "0"]
        finally:
            await server.close_now()

    asyncio.run(scenario())


def test_waiting_and_executing_requests(config: ApiServerConfig) -> None:
    async def scenario() -> None:
        server = await start_server(config, SystemClock())
        try:
            flow = flow_of(server)
            level = flow.level
            level.set_limit(1)
            source = Request("POST", "/apis/apps/v1/deployments")
            seat = Seat(flow, source)
            assert seat.try_enter()
            waiting = asyncio.ensure_future(Seat(flow, source).enter())
            await asyncio.sleep(0)
            head, *rows = await table(server, "dump_requests?includeRequestDetails=1")
            assert head[10:14] == ["UserName", "Verb", "APIPath", "Namespace"]
            assert head[14:] == ["Name", "APIVersion", "Resource", "SubResource"]
            ours = [row for row in rows if row[0] == level.name]
            assert [(row[3], row[9] == "0001-01-01T00:00:00Z") for row in ours] == [("0", True), ("-1", False)]
            assert all(row[1:2] + row[4:5] == [flow.schema, "user"] for row in ours)
            assert ours[0][10:] == ["user", "create", source.path, "", "", "apps/v1", "deployments", ""]
            assert len((await table(server, "dump_requests"))[0]) == 10
            queues = [row for row in (await table(server, "dump_queues"))[1:] if row[0] == level.name]
            assert len(queues) == len(level.queues)
            assert [row[5:] for row in queues if row[2] == "1"] == [
                ["0.00000000ss", "1", "1", "0.00300000ss"],
            ]
            waiting.cancel()
            await asyncio.wait((waiting,))
            seat.leave()
            levels = {row[0]: row for row in (await table(server, "dump_priority_levels"))[1:]}
            assert levels[level.name][7:] == ["1", "0", "1"]  # rejected, timed out, cancelled
        finally:
            await server.close_now()

    asyncio.run(scenario())


def test_access_is_that_of_a_path(config: ApiServerConfig) -> None:
    async def scenario() -> None:
        server = await start_server(config, SystemClock())
        try:
            assert (await ask(server, f"{DUMPS}/dump_queues", "user")).status == 403
            assert (await ask(server, f"{DUMPS}/dump_nothing")).status == 404
        finally:
            await server.close_now()

    asyncio.run(scenario())
