# SPDX-License-Identifier: Apache-2.0
"""Requests that are accumulated by flow are counted as others are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.apiserver.flowcontrol.request_flow import FlowSchemaCounters
from kubeloop.apiserver.flowcontrol.watermark import InFlightWatermarks
from kubeloop.apiserver.metrics.filters import FILTER_BOUNDS
from kubeloop.apiserver.metrics.requests import RequestSeries, _durations_of, _sizes_of, _slis_of
from kubeloop.metrics import FastHistogram, Histogram, linear_bounds
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


def test_lists_are_accumulated_with_their_queries_and_sizes(tmp_path: Path) -> None:
    async def scenario(env: LivePlane) -> None:
        await env.made("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "x" * 2000}})
        size = 0
        for query in ("?labelSelector=a%3Db", "", "?limit=1&fieldValidation=Strict"):
            body = (await env.ask("GET", MAPS + query)).body
            size += sum(map(len, [body] if isinstance(body, bytes) else body))
        found = await counts(env)
        of = 'group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"'
        assert found[f'apiserver_request_total{{code="200",component="apiserver",dry_run="",{of}}}'] == 3
        assert found[f'apiserver_response_sizes_count{{component="apiserver",{of}}}'] == 3
        assert found[f'apiserver_response_sizes_sum{{component="apiserver",{of}}}'] == size
        assert found['field_validation_request_duration_seconds_count{field_validation="Strict"}'] == 0

    run_live_plane(tmp_path, scenario)


@given(st.lists(st.sampled_from([0.0, 0.00005, 0.004, 0.005, 0.02, 0.3, 99.0]), min_size=1))
def test_a_batch_is_counted_like_its_values(seconds: list[float]) -> None:
    watermarks = InFlightWatermarks(0.0)
    one, all_at_once = _series("create"), _series("create")
    flow, flow_at_once = (FlowSchemaCounters(lambda _seconds, _served: None, watermarks) for _ in range(2))
    fast, fast_at_once = FastHistogram(FILTER_BOUNDS), FastHistogram(FILTER_BOUNDS)
    for value in seconds:
        one.observe(value, 0.0)
        flow.observe(value)
        fast.observe(value)
    all_at_once.observe_all(seconds)
    flow_at_once.observe_all(seconds)
    fast_at_once.observe_all(seconds)
    assert _counts(*_durations_of(one)) == _counts(*_durations_of(all_at_once))
    assert _counts(*_slis_of(one)) == _counts(*_slis_of(all_at_once))
    assert one.count == all_at_once.count == len(seconds)
    assert flow.executions().counts == flow_at_once.executions().counts
    assert flow.executions().total == pytest.approx(flow_at_once.executions().total)
    assert fast.histogram().counts == fast_at_once.histogram().counts
    assert fast.histogram().total == pytest.approx(fast_at_once.histogram().total)


@given(st.lists(st.sampled_from([0, 1, 1000, 1001, 50_000, 60_000]), min_size=1))
def test_sizes_of_reads_and_nonempty_bodies_are_counted(sizes: list[int]) -> None:
    read, write = _series("get"), _series("create")
    read.observe_sizes(sizes)
    write.observe_sizes(sizes)
    total = read.size + (read.sizes.total if read.sizes is not None else 0)
    assert (sum(_counts(*_sizes_of(read))), total) == (len(sizes), sum(sizes))
    assert write.bodies is not None
    assert (sum(write.bodies.counts), write.bodies.total) == (sum(map(bool, sizes)), sum(sizes))
    assert write.bodies.counts[0] == sum(0 < size <= 50_000 for size in sizes)


def _series(verb: str) -> RequestSeries:
    kind = ("apiserver", "", "configmaps", "resource", "", "GET" if verb == "get" else "POST", "v1")
    return RequestSeries(kind, "", 200, None if verb == "get" else Histogram(linear_bounds(50_000, 100_000, 31)))


def _counts(first: int, _: float, rest: Histogram | None) -> list[int]:
    others = rest.counts if rest is not None else [0] * 40
    return [others[0] + first, *others[1:40], *[0] * (40 - len(others))]


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
