# SPDX-License-Identifier: Apache-2.0
"""Requests that are accumulated by flow are counted as others are."""

from __future__ import annotations

from pathlib import Path

from tests.unit.apiserver.metrics.live_plane import MAPS, LivePlane, run_live_plane


def test_accumulated_requests_are_in_all_series(tmp_path: Path) -> None:
    async def scenario(env: LivePlane) -> None:
        before = await counts(env)
        for name in ("a", "b", "c"):
            await env.made("POST", MAPS, {"metadata": {"name": name}})
            await env.made("GET", f"{MAPS}/{name}")
        assert (await env.ask("GET", f"{MAPS}/none")).status == 404
        await env.made("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "d"}})
        after = await counts(env)
        kind = 'component="apiserver",{}group="",resource="configmaps",scope="resource",subresource=""'
        of = kind.format('dry_run="",')
        assert after[f'apiserver_request_total{{code="201",{of},verb="POST",version="v1"}}'] == 3
        assert after[f'apiserver_request_total{{code="200",{of},verb="GET",version="v1"}}'] == 3
        assert after[f'apiserver_request_total{{code="404",{of},verb="GET",version="v1"}}'] == 1
        assert after[f'apiserver_request_duration_seconds_count{{{of},verb="POST",version="v1"}}'] == 3
        assert after[f'apiserver_response_sizes_count{{{kind.format("")},verb="GET",version="v1"}}'] == 4
        bodies = 'apiserver_request_body_size_bytes_count{group="",resource="configmaps",verb="create"}'
        assert after[bodies] == 4
        # Eight requests for objects, and one for the first reading of metrics.
        for name in (
            'authentication_attempts{result="success"}',
            'authenticated_user_requests{username="admin"}',
            'authorization_attempts_total{result="allowed"}',
        ):
            assert after[name] - before.get(name, 0) == 9
        executed = "apiserver_flowcontrol_request_execution_seconds_count"
        flow = f'{executed}{{flow_schema="exempt",priority_level="exempt",type="regular"}}'
        assert after[flow] - before.get(flow, 0) == 9

    run_live_plane(tmp_path, scenario)


def test_a_record_begins_with_a_plain_request(tmp_path: Path) -> None:
    async def scenario(env: LivePlane) -> None:
        await env.made("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}})
        await env.made("POST", MAPS, {"metadata": {"name": "a"}})
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
        await env.made("PATCH", f"{MAPS}/a?fieldManager=m", config, media="application/apply-patch+yaml")
        for _ in range(2):
            await env.made("PATCH", f"{MAPS}/a", {"data": {"k": "v"}}, media="application/merge-patch+json")
        found = await counts(env)
        of = 'group="",resource="configmaps",scope="resource",subresource=""'
        total = (
            'apiserver_request_total{{code="{}",component="apiserver",dry_run="{}",' + of + ',verb="{}",version="v1"}}'
        )
        assert found[total.format(201, "All", "POST")] == 1
        assert found[total.format(201, "", "POST")] == 1
        assert found[total.format(200, "", "APPLY")] == 1
        assert found[total.format(200, "", "PATCH")] == 2

    run_live_plane(tmp_path, scenario)


async def counts(env: LivePlane) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in (await env.metrics()).splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}
