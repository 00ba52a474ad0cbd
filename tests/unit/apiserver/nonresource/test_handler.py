# SPDX-License-Identifier: Apache-2.0
"""Paths that name no resource."""

from __future__ import annotations

import asyncio
import json

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.server import ApiServerConfig, start_server
from kubeloop.clock import SystemClock
from kubeloop.http import Request


def test_the_version_is_that_of_kubernetes_and_ours_is_named_beside_it(api) -> None:
    info = api.get("/version").body
    assert info["gitVersion"] == f"v{KUBERNETES_VERSION}"
    assert info["compiler"].endswith(f"+kubeloop.{__version__}")


def test_the_root_lists_the_paths_of_built_in_groups_and_of_checks(api) -> None:
    paths = api.get("/").body["paths"]
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz", "/version"} <= set(paths)
    assert paths == sorted(paths)


def test_a_single_check_is_answered_and_listed() -> None:
    checks = HealthChecks({"ping": lambda: ""}, {})
    assert "/livez/ping" in set(checks.paths())
    response = checks.handle("/livez/ping", Query(""))
    assert (response.status, response.body, response.headers) == (200, b"ok", ())


def test_results_of_checks_are_metrics() -> None:
    checks = HealthChecks({"ping": lambda: "", "log": lambda: "full"}, {})
    checks.handle("/livez", Query(""))
    checks.handle("/livez", Query("exclude=log"))
    checks.handle("/livez/ping", Query(""))  # a single check is not counted
    shown = [line for line in checks.metrics.respond("GET").decode().splitlines() if line.startswith("kubernetes_")]
    assert shown == [
        'kubernetes_healthcheck{name="log",type="livez"} 0',
        'kubernetes_healthcheck{name="ping",type="livez"} 1',
        'kubernetes_healthchecks_total{name="log",status="error",type="livez"} 1',
        'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 2',
    ]
    assert checks.metrics.respond("DELETE") == b"metrics reset\n"
    assert b"kubernetes_" not in checks.metrics.respond("GET")


def test_the_server_shows_the_results_of_its_checks() -> None:
    async def scenario() -> None:
        server = await start_server(ApiServerConfig(port=0), SystemClock())
        handle = server.app.nonresource.handle
        handle(Request("GET", "/readyz"))
        response = handle(Request("GET", "/metrics/slis"))
        assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"
        assert isinstance(response.body, bytes)
        lines = response.body.decode().splitlines()
        assert 'kubernetes_healthcheck{name="etcd-readiness",type="readyz"} 1' in lines
        assert any(line.startswith("process_start_time_seconds ") for line in lines)
        assert "/metrics/slis" in json.loads(bytes(handle(Request("GET", "/")).body))["paths"]
        await server.close_now()

    asyncio.run(scenario())


def test_an_internal_error_is_not_cached_either(api) -> None:
    response = api.server.internal_error_response(Request("GET", "/api/v1/nodes"), ValueError())
    assert response.status == 500
    assert ("Cache-Control", "no-cache, private") in response.headers
    assert json.loads(response.body)["reason"] == "InternalError"
