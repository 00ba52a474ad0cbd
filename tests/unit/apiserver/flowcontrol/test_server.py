# SPDX-License-Identifier: Apache-2.0
"""A server that shares itself fairly: what its clients notice of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kubeloop.apiserver.server import ApiServerConfig, RunningServer, start_server
from kubeloop.clock import SystemClock
from kubeloop.http import Request, Response
from tests.bounds import GIVE_UP_SECONDS

SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
TOKENS = """admin-token,admin,1,"system:masters"
noisy-token,noisy,2
scheduler-token,system:kube-scheduler,3
"""


class FlowControlHarness:
    """Server that is called as any user."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server

    async def ask(self, path: str, body: Any = None, token: str = "admin", method: str = "") -> Response:
        request = Request(method or ("GET" if body is None else "POST"), path)
        request.headers = {"authorization": f"Bearer {token}-token", "content-type": "application/json"}
        request.body = b"" if body is None else json.dumps(body).encode()
        return await self.server.app.handle(request)

    async def json(self, path: str, body: Any = None, **more: str) -> Any:
        response = await self.ask(path, body, **more)
        return json.loads(response.body if isinstance(response.body, bytes) else b"".join(response.body))

    async def bootstrapped(self) -> None:
        """Wait until all of upstream's schemas exist and are read."""
        store = self.server.app.registry.store
        watch = store.watch("/registry/flowschemas/", store.revision)
        async with asyncio.timeout(GIVE_UP_SECONDS):
            while store.get("/registry/flowschemas/catch-all") is None:
                await anext(watch)
        watch.cancel()
        await asyncio.sleep(0)

    async def condition(self, schema: str, reason: str) -> Any:
        """A schema's condition, once its reason is this one."""
        store = self.server.app.registry.store
        watch = store.watch("/registry/flowschemas/", store.revision)
        async with asyncio.timeout(GIVE_UP_SECONDS):
            while True:
                found = (await self.json(f"{SCHEMAS}/{schema}")).get("status", {}).get("conditions") or [{}]
                if found[0].get("reason") == reason:
                    watch.cancel()
                    return found[0]
                await anext(watch)


Scenario = Callable[[FlowControlHarness], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    (tmp_path / "tokens").write_text(TOKENS)

    def run(scenario: Scenario, **settings: Any) -> None:
        async def whole() -> None:
            config = ApiServerConfig(
                port=0, token_file=tmp_path / "tokens", authorization_modes=("AlwaysAllow",), **settings
            )
            server = await start_server(config, SystemClock())
            try:
                harness = FlowControlHarness(server)
                await harness.bootstrapped()
                await scenario(harness)
            finally:
                await server.close_now()

        asyncio.run(whole())

    return run


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def test_every_response_names_its_flow_schema_and_priority_level(play: Play) -> None:
    async def scenario(harness: FlowControlHarness) -> None:
        uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in (await harness.json(SCHEMAS))["items"]}
        levels = {one["metadata"]["name"]: one["metadata"]["uid"] for one in (await harness.json(LEVELS))["items"]}
        for token, path, schema, level in (
            ("admin", MAPS, "exempt", "exempt"),
            ("noisy", MAPS, "global-default", "global-default"),
            ("scheduler", MAPS, "kube-scheduler", "workload-high"),
            ("noisy", "/livez", "probes", "exempt"),
            ("noisy", f"{MAPS}/none", "global-default", "global-default"),
        ):
            headers = dict((await harness.ask(path, token=token)).headers)
            assert headers["X-Kubernetes-PF-FlowSchema-UID"] == uids[schema]
            assert headers["X-Kubernetes-PF-PriorityLevel-UID"] == levels[level]

    play(scenario)


def test_fairness_can_be_disabled(play: Play) -> None:
    async def scenario(harness: FlowControlHarness) -> None:
        assert "X-Kubernetes-PF-FlowSchema-UID" not in dict((await harness.ask(MAPS)).headers)

    play(scenario, flowcontrol=False)


def test_flow_schema_has_the_dangling_condition(play: Play) -> None:
    async def scenario(harness: FlowControlHarness) -> None:
        spec = {"priorityLevelConfiguration": {"name": "later"}, "matchingPrecedence": 7}
        await harness.json(SCHEMAS, named("mine") | {"spec": spec})
        said = await harness.condition("mine", "NotFound")
        message = 'This FlowSchema references the PriorityLevelConfiguration object named "later"'
        assert (said["type"], said["status"], said["reason"]) == ("Dangling", "True", "NotFound")
        assert said["message"] == f"{message} but there is no such object"
        limited = {"limitResponse": {"type": "Reject"}}
        await harness.json(LEVELS, named("later") | {"spec": {"type": "Limited", "limited": limited}})
        said = await harness.condition("mine", "Found")
        assert (said["status"], said["reason"], said["message"]) == ("False", "Found", f"{message} and it exists")

    play(scenario)


def test_excess_requests_are_rejected_and_counted(play: Play) -> None:
    async def scenario(harness: FlowControlHarness) -> None:
        asked = [harness.ask(MAPS, named(f"m{number}"), token="noisy") for number in range(500)]
        answers = await asyncio.gather(*asked)
        assert {one.status for one in answers} == {201, 429}
        refused = next(one for one in answers if one.status == 429)
        assert dict(refused.headers)["Retry-After"] == "1"
        metrics = bytes((await harness.ask("/metrics")).body).decode()  # type: ignore[arg-type]
        labels = 'flow_schema="global-default",priority_level="global-default"'
        count = sum(one.status == 429 for one in answers)
        line = f'apiserver_flowcontrol_rejected_requests_total{{{labels},reason="queue-full"}} {count}'
        assert line in metrics
        assert f"apiserver_flowcontrol_current_inqueue_requests{{{labels}}} 0" in metrics
        assert 'apiserver_flowcontrol_current_limit_seats{priority_level="system"}' in metrics

    play(scenario, max_mutating_requests_inflight=5, max_requests_inflight=5)


def test_flood_of_writes_does_not_delay_a_controller_manager(play: Play) -> None:
    """Measured in turns of the flood and not in seconds: how much of it is served before the manager is."""

    async def scenario(harness: FlowControlHarness) -> None:
        done: list[str] = []

        async def write(token: str, name: str) -> None:
            await harness.ask(MAPS, named(name), token=token)
            done.append(token)

        flood = [asyncio.create_task(write("noisy", f"noisy{number}")) for number in range(300)]
        await asyncio.sleep(0)
        await write("scheduler", "lease")
        before = done.index("scheduler")
        await asyncio.gather(*flood)
        assert before <= 30

    play(scenario, max_mutating_requests_inflight=20, max_requests_inflight=20)


def test_flood_of_reads_is_shared_fairly(play: Play) -> None:
    async def scenario(harness: FlowControlHarness) -> None:
        done: list[str] = []

        async def read(token: str) -> None:
            await harness.ask(MAPS, token=token)
            done.append(token)

        flood = [asyncio.create_task(read("noisy")) for _ in range(200)]
        urgent = asyncio.create_task(read("scheduler"))
        await asyncio.gather(*flood, urgent)
        assert done.index("scheduler") <= 30
        assert len(done) == 201

    play(scenario, max_mutating_requests_inflight=20, max_requests_inflight=20)


def test_idle_levels_lend_their_seats(play: Play) -> None:
    async def scenario(harness: FlowControlHarness) -> None:
        control = harness.server.app.flowcontrol
        assert control is not None
        level = control.levels["global-default"]
        before = level.limit
        asked = [harness.ask(MAPS, named(f"m{number}"), token="noisy") for number in range(200)]
        await asyncio.gather(*asked)
        control.adjust_seats()
        assert level.limit > before
        assert level.executing == 0

    play(scenario, max_mutating_requests_inflight=50, max_requests_inflight=50)
