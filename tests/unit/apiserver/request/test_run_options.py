# SPDX-License-Identifier: Apache-2.0
"""Flags of request handling: privileged containers, watches, browsers, tokens, tolerations, addresses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.features.resource_config import parse_resource_config
from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.api.generated.batch_v1 import CronJob
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.validation import ObjectValidator
from kubeloop.apiserver.handlers.watch import WatchResponse
from kubeloop.apiserver.request.filters import (
    FilterOptionError,
    check_cors_origins,
    check_hsts_directives,
    with_filters,
)
from kubeloop.apiserver.request.run_options import ServerRunOptions
from kubeloop.apiserver.response.observed_stream import ObservedStream
from kubeloop.apiserver.server import ApiServerConfig, RunningServer, StartupError, start_server, tls_context
from kubeloop.clock import SystemClock
from kubeloop.http import Request, Response
from kubeloop.http.tls import TlsOptions

CONTAINER = {"name": "c", "image": "i", "securityContext": {"privileged": True}}
POD_SPEC = {"containers": [CONTAINER], "initContainers": [CONTAINER]}


def problems(kind: type[Any], document: dict[str, Any], *, allowed: bool) -> list[tuple[str, str]]:
    errors = ObjectValidator(DEFAULT_FEATURES, allowed).validate_create(from_plain(document, kind))
    return [(error.field, error.body()) for error in errors if "cluster policy" in error.body()]


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        (Pod, POD_SPEC, "spec"),
        (Deployment, {"template": {"spec": POD_SPEC}}, "spec.template.spec"),
        (CronJob, {"jobTemplate": {"spec": {"template": {"spec": POD_SPEC}}}}, "spec.jobTemplate.spec.template.spec"),
    ],
)
def test_privileged_containers_are_forbidden_where_the_flag_says_so(kind: type[Any], spec: Any, path: str) -> None:
    document = {"metadata": {"name": "x", "namespace": "d"}, "spec": spec}
    assert problems(kind, document, allowed=True) == []
    assert problems(kind, document, allowed=False) == [
        (f"{path}.{group}[0].securityContext.privileged", "Forbidden: disallowed by cluster policy")
        for group in ("containers", "initContainers")
    ]


def test_host_process_containers_are_privileged() -> None:
    windows = {"windowsOptions": {"hostProcess": True}}
    document = {"metadata": {"name": "x"}, "spec": {"securityContext": windows, "containers": []}}
    assert problems(Pod, document, allowed=False) == [
        ("spec", "Forbidden: hostProcess containers are disallowed by cluster policy")
    ]


def test_a_privileged_pod_that_exists_may_be_updated_but_gets_no_privileged_ephemeral_container() -> None:
    ephemeral = {**CONTAINER, "name": "e"}
    old = from_plain({"metadata": {"name": "x"}, "spec": POD_SPEC}, Pod)
    new = from_plain({"metadata": {"name": "x"}, "spec": {**POD_SPEC, "ephemeralContainers": [ephemeral]}}, Pod)
    validator = ObjectValidator(DEFAULT_FEATURES, allow_privileged=False)
    assert not [one for one in validator.validate_update(old, old) if "cluster policy" in one.body()]
    found = [one.field for one in validator.validate_update(new, old, "ephemeralcontainers") if "policy" in one.body()]
    assert found == ["spec.ephemeralContainers[0].securityContext.privileged"]


# -- browsers


def answer(options: ServerRunOptions, method: str, origin: str) -> tuple[int, dict[str, str]]:
    async def handler(_: Request) -> Response:
        return Response(200)

    request = Request(method, "/version", "", {"origin": origin} if origin else {})
    response = asyncio.run(with_filters(handler, options)(request))
    return response.status, dict(response.headers)


CORS = ServerRunOptions(cors_allowed_origins=("//good.example(:|$)",))


def test_an_allowed_origin_gets_headers_and_its_preflight_request_an_answer() -> None:
    for method, status in (("GET", 200), ("OPTIONS", 204)):
        found, headers = answer(CORS, method, "https://good.example")
        assert found == status
        assert headers["Access-Control-Allow-Origin"] == "https://good.example"
        assert headers["Access-Control-Allow-Methods"] == "POST, GET, OPTIONS, PUT, DELETE, PATCH"
        assert headers["Access-Control-Allow-Credentials"] == "true"


@pytest.mark.parametrize("origin", ["", "https://bad.example", "https://good.example.bad.example"])
def test_another_origin_gets_none(origin: str) -> None:
    assert answer(CORS, "OPTIONS", origin) == (200, {})


def test_transport_security_is_announced() -> None:
    _, headers = answer(ServerRunOptions(hsts_directives=("max-age=31536000", "includeSubDomains")), "GET", "")
    assert headers == {"Strict-Transport-Security": "max-age=31536000; includeSubDomains"}


def test_without_these_flags_the_handler_is_called_directly() -> None:
    async def handler(_: Request) -> Response:
        return Response(200)

    assert with_filters(handler, ServerRunOptions()) is handler


@pytest.mark.parametrize("pattern", ["", "(", "good.example", "//good.example"])
def test_an_origin_that_is_not_pinned_is_refused(pattern: str) -> None:
    with pytest.raises(FilterOptionError):
        check_cors_origins([pattern])


@pytest.mark.parametrize("directive", [" ", "max-age", "maxage=1", "preloaded"])
def test_an_unknown_directive_is_refused(directive: str) -> None:
    with pytest.raises(FilterOptionError):
        check_hsts_directives([directive])


# -- a running server


def with_server(scenario: Callable[[RunningServer], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        server = await start_server(ApiServerConfig(port=0, **settings), SystemClock())
        await scenario(server)
        await server.close()

    asyncio.run(run())


def test_the_external_host_name_is_in_urls() -> None:
    async def scenario(server: RunningServer) -> None:
        assert server.address == f"api.example.com:{server.port}"

    with_server(scenario, external_hostname="api.example.com")


def test_without_an_endpoint_reconciler_there_are_no_endpoints() -> None:
    async def scenario(server: RunningServer) -> None:
        assert server.app.registry.get_object("endpoints", "default", "kubernetes") is None

    with_server(scenario, endpoint_reconciler=False)


def test_the_service_has_the_node_port_of_the_flag() -> None:
    async def scenario(server: RunningServer) -> None:
        spec = server.app.registry.get_object("services", "default", "kubernetes").spec
        assert (spec.type, spec.ports[0].node_port) == ("NodePort", 30443)

    with_server(scenario, service_node_port=30443)


def test_two_servers_may_share_a_port() -> None:
    async def run() -> None:
        one = await start_server(ApiServerConfig(port=0, reuse_port=True), SystemClock())
        two = await start_server(ApiServerConfig(port=one.port, reuse_port=True), SystemClock())
        assert one.port == two.port
        await one.close()
        await two.close()

    asyncio.run(run())


def test_tls_settings_that_cannot_be_followed_prevent_the_start(tmp_path: Any) -> None:
    from datetime import UTC, datetime

    from kubeloop.cli.pki.self_signed_certificate import ensure_self_signed

    certificate, key = ensure_self_signed(tmp_path, "x", ("localhost",), datetime.now(UTC))
    found = tls_context(ApiServerConfig(certificate=certificate, key=key, tls=TlsOptions("VersionTLS13")))
    assert found is not None
    assert found.minimum_version == ssl.TLSVersion.TLSv1_3
    with pytest.raises(StartupError, match="unknown tls version"):
        tls_context(ApiServerConfig(certificate=certificate, key=key, tls=TlsOptions("x")))


def test_pods_tolerate_broken_nodes_for_as_long_as_the_flags_say() -> None:
    options = ServerRunOptions(not_ready_toleration_seconds=7, unreachable_toleration_seconds=8)

    async def scenario(server: RunningServer) -> None:
        request = Request("POST", "/api/v1/namespaces/default/serviceaccounts")
        request.headers, request.body = {"content-type": "application/json"}, b'{"metadata": {"name": "default"}}'
        assert (await server.app.handle(request)).status == 201
        request.path = "/api/v1/namespaces/default/pods"
        request.body = b'{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}'
        assert (await server.app.handle(request)).status == 201
        pod = server.app.registry.get_object("pods", "default", "p")
        assert [one.toleration_seconds for one in pod.spec.tolerations] == [7, 8]

    with_server(scenario, run_options=options, authorization_modes=("AlwaysAllow",))


@pytest.mark.parametrize(("minimum", "shortest", "longest"), [(100, 100, 200), (0, 2**31, 2**31)])
def test_a_watch_without_a_timeout_ends_within_the_range_of_the_flag(minimum: int, shortest: int, longest: int) -> None:
    async def scenario(server: RunningServer) -> None:
        response = await server.app.handle(Request("GET", "/api/v1/pods", "watch=1"))
        assert isinstance(response, ObservedStream)
        assert isinstance(response._inner, WatchResponse)
        assert shortest <= response._inner._session.timeout <= longest

    options = ServerRunOptions(min_request_timeout=minimum)
    with_server(scenario, run_options=options, authorization_modes=("AlwaysAllow",))


# -- versions to serve


@pytest.mark.parametrize("key", ["v1", "api/v1", "/v1", "v1/pods", "api/v1/pods"])
def test_the_core_group_has_several_names(key: str) -> None:
    assert "pods" in {one.plural for one in parse_resource_config([f"{key}=true"], []).resources}
    assert "pods" not in {one.plural for one in parse_resource_config([f"{key}=false"], []).resources}


def test_api_legacy_is_ignored() -> None:
    assert "pods" in {one.plural for one in parse_resource_config(["api/legacy=false"], []).resources}
