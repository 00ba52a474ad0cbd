# SPDX-License-Identifier: Apache-2.0
"""/flagz and /statusz, in text and in the structured form."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from kubeloop.api.errors import ApiError
from kubeloop.apiserver.nonresource.zpages import debug_folders, flagz_response, statusz_response
from kubeloop.apiserver.server import ApiServerConfig, start_server
from kubeloop.cli.flags.values import flag_values
from kubeloop.cli.scheduler.status_pages import SchedulerStatusPages
from kubeloop.cli.secure_port.server import SecurePortHandler
from kubeloop.cli.secure_port.status_pages import StatusPages
from kubeloop.clock import SystemClock
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.http import Request, Response
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.manager import LoopManager

START = datetime(2026, 5, 10, 12, 0, tzinfo=UTC)
FLAGS = {"v": "2", "bind-address": "0.0.0.0"}


def flagz(accept: str) -> Response:
    return flagz_response("kube-apiserver", FLAGS, accept)


def statusz(accept: str) -> Response:
    now = START + timedelta(hours=25, minutes=1, seconds=2)
    return statusz_response("kube-apiserver", START, now, ["/", "/api", "/healthz/ping", "/metrics"], accept)


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain", "application/json;q=0.1, text/plain"])
def test_people_get_text(accept: str) -> None:
    response = flagz(accept)
    assert response.content_type == "text/plain; charset=utf-8"
    assert isinstance(response.body, bytes)
    lines = response.body.decode().splitlines()
    assert lines[:2] == ["", "kube-apiserver flagz"]
    assert lines[2].startswith("Warning: This endpoint is not meant to be machine parseable")
    assert lines[3:] == ["bind-address=0.0.0.0", "v=2"]


def test_the_status_in_text() -> None:
    body = statusz("").body
    assert isinstance(body, bytes)
    assert "Started: Sun May 10 12:00:00 UTC 2026\nUp: 25 hr 01 min 02 sec\n" in body.decode()
    assert body.decode().endswith("Binary version: 1.37.0\nEmulation version: 1.37\nPaths: /healthz /metrics\n")


@pytest.mark.parametrize(("media", "read"), [("application/json", json.loads), ("application/yaml", yaml.safe_load)])
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_programs_get_the_structured_form_that_they_name(media: str, read: Any, version: str) -> None:
    flags = flagz(f"{media};as=Flagz;v={version};g=config.k8s.io")
    assert read(flags.body) == {
        "kind": "Flagz",
        "apiVersion": f"config.k8s.io/{version}",
        "metadata": {"name": "kube-apiserver"},
        "flags": FLAGS,
    }
    status = statusz(f"{media};as=Statusz;v={version};g=config.k8s.io")
    assert read(status.body)["uptimeSeconds"] == 90062
    assert read(status.body)["startTime"] == "2026-05-10T12:00:00Z"
    deprecated = version == "v1alpha1"
    assert [name for name, _ in status.headers] == (["Warning"] if deprecated else [])


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/json;as=Flagz;v=v1;g=config.k8s.io",
        "application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
        "application/vnd.kubernetes.protobuf",
    ],
)
def test_another_form_is_not_acceptable(accept: str) -> None:
    with pytest.raises(ApiError) as refused:
        flagz(accept)
    assert refused.value.code == 406


def test_paths_of_the_api_are_no_debug_paths() -> None:
    paths = ["/", "/api", "/apis", "/openapi/v2", "/.well-known/openid-configuration", "/readyz/ping", "/readyz"]
    assert debug_folders(paths) == ["/readyz"]


def test_values_of_flags_are_spelled_as_upstream_spells_them() -> None:
    given = {
        "anonymous_auth": True,
        "event_ttl": 3600.0,
        "goaway_chance": 0.01,
        "api_audiences": ("a", "b"),
        "audit_log_path": None,
        "service_node_port_range": range(30000, 32768),
        "without_effect": None,
    }
    assert flag_values(given) == {
        "anonymous-auth": "true",
        "event-ttl": "1h0m0s",
        "goaway-chance": "0.01",
        "api-audiences": "[a,b]",
        "audit-log-path": "",
        "service-node-port-range": "30000-32767",
    }


def test_a_server_shows_its_flags_and_its_status() -> None:
    async def scenario() -> None:
        server = await start_server(ApiServerConfig(port=0, flags=FLAGS), SystemClock())
        for path, shown in (("/flagz", b"bind-address=0.0.0.0"), ("/statusz", b"Paths: /flagz /healthz /livez")):
            body = server.app.nonresource.handle(Request("GET", path)).body
            assert isinstance(body, bytes)
            assert shown in body
        await server.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("pages", "component", "own"),
    [
        (StatusPages, "kube-controller-manager", "concurrent-gc-syncs=20"),
        (SchedulerStatusPages, "kube-scheduler", "secure-port=10257"),
    ],
)
def test_other_components_show_theirs_on_their_ports(pages: type[StatusPages], component: str, own: str) -> None:
    class AllowAll:
        async def check(self, _: Request) -> None:
            return None

    async def scenario() -> None:
        clock, config = SystemClock(), ManagerConfig()
        told = pages(LoopManager([], clock, name="x"), config, MetricRegistry(), "me")
        handler = SecurePortHandler(told, AllowAll(), clock)  # type: ignore[arg-type]  # it asks nobody
        flags = (await handler.handle(Request("GET", "/flagz"))).body
        assert isinstance(flags, bytes)
        assert f"{component} flagz" in flags.decode()
        assert own in flags.decode().splitlines()
        assert ("concurrent-gc-syncs" in flags.decode()) is (pages is StatusPages)
        status = (await handler.handle(Request("GET", "/statusz"))).body
        assert isinstance(status, bytes)
        assert b"Paths: /configz /flagz /healthz" in status
        await handler.handle(Request("GET", "/readyz"))
        results = (await handler.handle(Request("GET", "/metrics/slis"))).body
        assert isinstance(results, bytes)
        assert b"process_start_time_seconds" in results
        assert (b'name="shutdown",type="readyz"' in results) is (pages is SchedulerStatusPages)

    asyncio.run(scenario())
