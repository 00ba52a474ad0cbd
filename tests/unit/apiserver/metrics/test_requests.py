# SPDX-License-Identifier: Apache-2.0
"""Requests are counted by upstream's labels, over HTTP and in process; long-running ones while they run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.client import Client
from kubeloop.http import UpgradeResponse
from tests.unit.apiserver.conftest import Api
from tests.unit.apiserver.metrics.live_plane import MAPS, LivePlane, run_live_plane

PODS = "/api/v1/namespaces/default/pods"


def samples(api: Api, name: str, **labels: str) -> dict[str, float]:
    """The samples of a metric with these labels."""
    found = {}
    for line in api.get("/metrics").body.decode().splitlines():
        shown, _, value = line.rpartition(" ")
        if re.match(rf"{name}(\{{|$)", shown) and all(f'{one}="{text}"' in shown for one, text in labels.items()):
            found[shown] = float(value)
    return found


def count(api: Api, name: str, **labels: str) -> float:
    return sum(samples(api, name, **labels).values())


@pytest.mark.parametrize(
    ("ask", "verb", "scope"),
    [
        (lambda api: api.get(f"{MAPS}/a"), "GET", "resource"),
        (lambda api: api.get(MAPS), "LIST", "namespace"),
        (lambda api: api.get("/api/v1/configmaps"), "LIST", "cluster"),
        (lambda api: api.post(MAPS, {"metadata": {"name": "a"}}), "POST", "resource"),
        (lambda api: api.put(f"{MAPS}/a", {"metadata": {"name": "a"}}), "PUT", "resource"),
        (lambda api: api.patch("merge", f"{MAPS}/a", {}), "PATCH", "resource"),
        (lambda api: api.patch("apply", f"{MAPS}/a?fieldManager=m", {}), "APPLY", "resource"),
        (lambda api: api.ask("DELETE", f"{MAPS}/a"), "DELETE", "resource"),
        (lambda api: api.ask("DELETE", MAPS), "DELETE", "namespace"),
    ],
)
def test_a_request_is_counted_by_verb_and_scope(api: Api, ask: Callable[[Api], object], verb: str, scope: str) -> None:
    ask(api)
    [(shown, times)] = samples(api, "apiserver_request_total", resource="configmaps").items()
    assert times == 1
    assert f'component="apiserver",dry_run="",group="",resource="configmaps",scope="{scope}"' in shown
    assert f'verb="{verb}",version="v1"' in shown
    for histogram in ("apiserver_request_duration_seconds", "apiserver_request_sli_duration_seconds"):
        assert count(api, f"{histogram}_count", resource="configmaps", verb=verb, scope=scope) == 1
    sized = count(api, "apiserver_response_sizes_count", resource="configmaps")
    assert sized == (1 if verb in ("GET", "LIST") else 0)


def test_dry_runs_have_their_own_series_and_no_service_level_indicator(api: Api) -> None:
    api.post(f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}})
    api.post(f"{MAPS}?dryRun=Some", {"metadata": {"name": "a"}})
    assert count(api, "apiserver_request_total", resource="configmaps", dry_run="All", code="201") == 1
    assert count(api, "apiserver_request_total", resource="configmaps", dry_run="invalid") == 1
    assert count(api, "apiserver_request_duration_seconds_count", resource="configmaps", dry_run="All") == 1
    assert count(api, "apiserver_request_sli_duration_seconds_count", resource="configmaps") == 0


def test_requests_that_never_reach_a_handler_are_counted_as_decisions_only(api: Api) -> None:
    assert api.get(MAPS, token="stolen").status == 401
    assert api.get(MAPS, token="nobody").status == 403
    assert api.get("/api/v1/namespaces/default/gardens").status == 404
    assert count(api, "apiserver_request_total", resource="configmaps") == 0
    assert count(api, "authentication_attempts", result="failure") == 1
    assert count(api, "authorization_attempts_total", result="no-opinion") == 1
    assert count(api, "authorization_duration_seconds_count", result="no-opinion") == 1
    assert count(api, "authenticated_user_requests", username="admin") > 0
    assert count(api, "authenticated_user_requests", username="other") == 1


def test_an_old_api_is_reported_once_it_was_requested(api: Api) -> None:
    assert samples(api, "apiserver_requested_deprecated_apis") == {}
    api.get("/api/v1/endpoints")
    api.get("/api/v1/endpoints")
    [(shown, value)] = samples(api, "apiserver_requested_deprecated_apis").items()
    assert value == 1
    assert 'group="",removed_release="",resource="endpoints",subresource="",version="v1"' in shown


def test_health_and_openapi_are_counted_by_path(api: Api) -> None:
    api.get("/readyz")
    api.get("/version")
    [(shown, _)] = samples(api, "apiserver_request_total", subresource="/readyz").items()
    assert 'component="",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET"' in shown
    assert samples(api, "apiserver_request_total", subresource="/version") == {}


def test_large_and_slow_requests_are_in_their_buckets(api: Api) -> None:
    api.made(MAPS, {"metadata": {"name": "a"}, "data": {"k": "x" * 60_000}})
    api.get(f"{MAPS}/a")
    assert count(api, "apiserver_response_sizes_bucket", resource="configmaps", le="10000") == 0
    assert count(api, "apiserver_response_sizes_bucket", resource="configmaps", le="100000") == 1
    assert count(api, "apiserver_response_sizes_sum", resource="configmaps") > 60_000
    assert count(api, "apiserver_request_body_size_bytes_bucket", resource="configmaps", verb="create", le="50000") == 0
    assert count(api, "apiserver_request_body_size_bytes_count", resource="configmaps", verb="create") == 1
    authenticate = api.server.authenticator.authenticate

    def slowly(request):  # type: ignore[no-untyped-def]  # stands in for the method
        api.clock.advance(0.3)
        return authenticate(request)

    api.server.authenticator.authenticate = slowly  # type: ignore[method-assign]
    api.get(f"{MAPS}/a")
    slow = {"resource": "configmaps", "verb": "GET"}
    assert count(api, "apiserver_request_duration_seconds_bucket", **slow, le="0.2") == 1
    assert count(api, "apiserver_request_duration_seconds_bucket", **slow, le="0.4") == 2
    assert count(api, "apiserver_request_sli_duration_seconds_bucket", **slow, le="0.4") == 2
    assert count(api, "authentication_duration_seconds_bucket", result="success", le="0.256") > 0


def test_objects_lists_and_writes_are_counted_by_resource(api: Api) -> None:
    api.made(MAPS, {"metadata": {"name": "a", "labels": {"x": "y"}}})
    api.made(MAPS, {"metadata": {"name": "b"}})
    api.get(f"{MAPS}?labelSelector=x%3Dy")
    assert count(api, "apiserver_resource_objects", group="", resource="configmaps") == 2
    assert count(api, "apiserver_storage_objects", resource="configmaps") == 2
    assert count(api, "apiserver_resource_size_estimate_bytes", resource="configmaps") > 100
    assert count(api, "apiserver_cache_list_total", resource="configmaps") == 1
    assert count(api, "apiserver_cache_list_fetched_objects_total", resource="configmaps") == 2
    assert count(api, "apiserver_cache_list_returned_objects_total", resource="configmaps") == 1
    assert count(api, "etcd_requests_total", resource="configmaps", operation="create") == 2
    assert count(api, "etcd_request_duration_seconds_count", resource="configmaps", operation="create") == 2


def test_calls_within_the_process_are_counted_like_requests(api: Api) -> None:
    client = Client(InProcessTransport(api.server, User("system:apiserver", ("system:masters",))))

    async def calls() -> None:
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
        await client.get(ConfigMap, "a", namespace="default")

    api._runner.run(calls())
    assert count(api, "apiserver_request_total", resource="configmaps", verb="POST", code="201") == 1
    assert count(api, "apiserver_request_total", resource="configmaps", verb="GET", code="200") == 1
    assert count(api, "apiserver_selfrequest_total", resource="configmaps", verb="GET") == 1


def test_a_watch_is_active_while_it_lasts_and_a_request_afterwards(tmp_path: Path) -> None:
    def watches(text: str, name: str) -> list[float]:
        shown = [line for line in text.splitlines() if line.startswith(name) and 'resource="configmaps"' in line]
        return [float(line.rpartition(" ")[2]) for line in shown if 'verb="WATCH"' in line]

    async def scenario(env: LivePlane) -> None:
        async def look() -> None:
            during = await env.metrics()
            assert watches(during, "apiserver_longrunning_requests{") == [1]
            assert watches(during, "apiserver_request_total{") == []
            await env.made("POST", MAPS, {"metadata": {"name": "seen"}})

        assert b"seen" in await env.watch(f"{MAPS}?watch=1", look)
        after = await env.metrics()
        assert watches(after, "apiserver_longrunning_requests{") == [0]
        assert watches(after, "apiserver_request_total{") == [1]
        events = [line for line in after.splitlines() if line.startswith("apiserver_watch_events_total{")]
        assert 'apiserver_watch_events_total{group="",resource="configmaps",version="v1"} 1' in events

    run_live_plane(tmp_path, scenario)


def test_an_upgraded_connection_is_active_until_it_closes(api: Api) -> None:
    requests = api.server.metrics.requests
    response = UpgradeResponse(lambda _transport, _early: None)
    ctx = _exec_context(api)
    requests.observe_upgrade(ctx, "create", response, lambda: 90.0)
    labels = {"resource": "pods", "subresource": "exec", "verb": "CONNECT", "scope": "resource"}
    assert count(api, "apiserver_longrunning_requests", **labels) == 1
    assert count(api, "apiserver_websocket_streaming_requests_total", subresource="exec") == 1
    assert response.on_close is not None
    response.on_close()
    assert count(api, "apiserver_longrunning_requests", **labels) == 0
    assert count(api, "apiserver_request_total", **labels, code="101") == 1
    assert count(api, "apiserver_request_duration_seconds_sum", **labels) == 90


def _exec_context(api: Api):  # type: ignore[no-untyped-def]  # the context of a command over a WebSocket
    from kubeloop.apiserver.request.context import RequestContext
    from kubeloop.apiserver.request.negotiation import PLAIN
    from kubeloop.apiserver.request.query import Query
    from kubeloop.http import Request

    request = Request("POST", f"{PODS}/p/exec", "", {"upgrade": "websocket"})
    target = api.server._router.find("POST", f"{PODS}/p/exec")
    return RequestContext(request, target, Query(""), User("u"), PLAIN, api.clock.now)
