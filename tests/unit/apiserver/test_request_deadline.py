# SPDX-License-Identifier: Apache-2.0
"""Time limits of requests: which have one, how long it is, and what is answered when it is over."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kubeloop.apiserver.request.run_options import ServerRunOptions
from kubeloop.apiserver.server import ApiServerConfig, AuditConfig, start_server
from kubeloop.clock import SystemClock
from kubeloop.http import Request
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.apiserver.conftest import Api

ALLOTTED = "Timeout: request did not complete within the allotted timeout"
REQUESTED = "Timeout: request did not complete within requested timeout - context deadline exceeded"
PODS = "/api/v1/namespaces/shop/pods"


@pytest.mark.parametrize(
    ("method", "target", "limit", "message"),
    [
        ("GET", PODS, 60, ALLOTTED),
        ("GET", f"{PODS}?timeout=5s", 5, ALLOTTED),
        ("GET", f"{PODS}?timeout=0s", 60, ALLOTTED),
        ("GET", f"{PODS}?timeout=10m", 60, ALLOTTED),
        ("GET", "/readyz", 60, ALLOTTED),
        ("DELETE", PODS, 60, ALLOTTED),
        ("POST", PODS, 34, REQUESTED),
        ("PUT", f"{PODS}/p/status", 34, REQUESTED),
        ("PATCH", f"{PODS}/p?timeout=2s", 2, REQUESTED),
        ("DELETE", f"{PODS}/p", 34, REQUESTED),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 34, REQUESTED),
        ("GET", f"{PODS}?labelSelector={'a' * 20_000}", 60, ALLOTTED),
    ],
)
def test_a_request_has_a_time_limit(api: Api, method: str, target: str, limit: float, message: str) -> None:
    path, _, query = target.partition("?")
    request = Request(method, path, query)
    assert api.server.timeout_response(request, limit - 0.1) is None
    late = api.server.timeout_response(request, limit)
    assert late is not None
    assert late.status == 504
    status = json.loads(bytes(late.body))  # type: ignore[arg-type]
    assert (status["reason"], status["code"], status["message"]) == ("Timeout", 504, message)


@pytest.mark.parametrize(
    "target",
    [
        f"{PODS}?watch=1",
        f"{PODS}?watch=1&labelSelector={'a' * 20_000}",
        "/api/v1/watch/pods",
        f"{PODS}/p/exec",
        f"{PODS}/p/log",
        f"{PODS}/p/proxy/x",
        "/api/v1/nodes/n/proxy",
        "/apis/unknown.example.com/v1/namespaces/x/machines/m/portforward",
        "/kubeloop/snapshot",
    ],
)
def test_long_running_requests_have_none(api: Api, target: str) -> None:
    path, _, query = target.partition("?")
    assert api.server.timeout_response(Request("GET", path, query), 10_000) is None


def test_a_malformed_timeout_is_rejected(api: Api) -> None:
    answer = api.get(f"{PODS}?timeout=soon")
    why = 'invalid timeout specified in the request URL - time: invalid duration "soon"'
    assert (answer.status, answer.body["message"]) == (400, why)
    assert api.get(f"{PODS}/p/log?timeout=soon").status == 404


def test_late_and_malformed_requests_are_audited(tmp_path: Path) -> None:
    """A token webhook that does not answer delays a request; here, the handler is delayed itself."""
    policy = tmp_path / "policy.json"
    policy.write_text('{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}')
    log = tmp_path / "audit.log"

    async def main() -> None:
        options = ServerRunOptions(request_timeout=0.6)
        config = ApiServerConfig(
            port=0, authorization_modes=("AlwaysAllow",), run_options=options, audit=AuditConfig(policy, str(log))
        )
        server = await start_server(config, SystemClock())
        started = asyncio.Event()

        async def hang(*_: object) -> None:
            started.set()
            await asyncio.Event().wait()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server.app, "serve", hang)
            try:
                answer = await _get(server.port, PODS)
                assert started.is_set()
                assert answer.startswith(b"HTTP/1.1 504 ")
                assert ALLOTTED.encode() in answer
                assert (await _get(server.port, f"{PODS}?timeout=x")).startswith(b"HTTP/1.1 400 ")
            finally:
                await server.close()

    asyncio.run(main())
    events = [json.loads(line) for line in log.read_text().splitlines()]
    ends = [(one["stage"], one["responseStatus"]["code"]) for one in events if "responseStatus" in one]
    assert ends == [("ResponseComplete", 504), ("ResponseStarted", 400)]
    assert events[-1]["responseStatus"]["message"].startswith("invalid timeout specified")


async def _get(port: int, target: str) -> bytes:
    async with asyncio.timeout(GIVE_UP_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        try:
            return await reader.read()
        finally:
            writer.close()
