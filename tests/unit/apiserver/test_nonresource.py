"""Paths that name no resource."""

from __future__ import annotations

import json

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.request.query import Query


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


def test_an_internal_error_is_not_cached_either(api) -> None:
    from kubeloop.http import Request

    response = api.server.internal_error_response(Request("GET", "/api/v1/nodes"), ValueError())
    assert response.status == 500
    assert ("Cache-Control", "no-cache, private") in response.headers
    assert json.loads(response.body)["reason"] == "InternalError"
