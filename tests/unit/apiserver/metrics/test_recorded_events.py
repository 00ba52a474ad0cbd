# SPDX-License-Identifier: Apache-2.0
"""Metrics of filters, updates, Services and flow control, after the events that they count."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kubeloop.apiserver.registry.allocation.recorder import PORTS
from kubeloop.http import Request
from kubeloop.store import StoreError
from tests.unit.apiserver.metrics.live_plane import MAPS, SERVICE, LivePlane, run_live_plane


async def value_of(env: LivePlane, series: str) -> float:
    """Return a sample by its name and labels, 0 if it does not exist."""
    lines = (await env.metrics()).splitlines()
    return next((float(one.rpartition(" ")[2]) for one in lines if one.rpartition(" ")[0] == series), 0.0)


def filtered(name: str) -> str:
    return f'apiserver_request_filter_duration_seconds_count{{filter="{name}"}}'


def test_filters_are_counted_for_every_request(tmp_path: Path) -> None:
    async def scenario(env: LivePlane) -> None:
        names = ("authentication", "authorization", "audit", "constrainedimpersonation", "priorityandfairness")
        before = {name: await value_of(env, filtered(name)) for name in names}
        for _ in range(3):
            await env.made("GET", MAPS)
        asked = Request("GET", MAPS, "", {"authorization": "Bearer admin-token", "impersonate-user": "admin2"})
        assert (await env.app.handle(asked)).status == 403
        after = {name: await value_of(env, filtered(name)) for name in names}
        grown = {name: after[name] - before[name] for name in names}
        scrapes = len(names)  # each value was read by a request of its own
        for name in names[:4]:
            assert grown[name] == 4 + scrapes, name
        assert grown["priorityandfairness"] == 3 + scrapes  # the forbidden request got no seat
        impersonation = 'apiserver_request_filter_duration_seconds_sum{filter="constrainedimpersonation"}'
        assert await value_of(env, impersonation) > 0

    run_live_plane(tmp_path, scenario)


def test_comparisons_of_updates_are_counted_by_their_outcome(tmp_path: Path) -> None:
    def compared(outcome: str) -> str:
        return f'apiserver_request_timestamp_comparison_time_count{{code_path="{outcome}"}}'

    async def scenario(env: LivePlane) -> None:
        await env.made("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        fast = await value_of(env, compared("unequal_objects_fast"))
        await env.made("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"k": "longer"}})
        assert await value_of(env, compared("unequal_objects_fast")) == fast + 1
        merge = "application/merge-patch+json"
        await env.made("PATCH", f"{MAPS}/a?fieldManager=x", {"data": {"k": "longer"}}, media=merge)
        assert await value_of(env, compared("unequal_objects_fast")) == fast + 2

    run_live_plane(tmp_path, scenario)


def test_addresses_of_services_are_counted_with_the_time_of_their_allocation(tmp_path: Path) -> None:
    async def scenario(env: LivePlane) -> None:
        series = 'kube_apiserver_clusterip_allocator_allocation_duration_seconds_count{cidr="10.0.0.0/24"}'
        before = await value_of(env, series)
        await env.made("POST", "/api/v1/namespaces/default/services", SERVICE)
        assert await value_of(env, series) == before + 1

    run_live_plane(tmp_path, scenario)


def test_repairs_of_node_ports_are_counted(tmp_path: Path) -> None:
    """A store that is not shared has no records of ports, so the repair misses each."""

    async def scenario(env: LivePlane) -> None:
        async def use_port(name: str, port: int) -> None:
            spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}
            service = {"metadata": {"name": name}, "spec": spec}
            await env.made("POST", "/api/v1/namespaces/default/services", service)

        store, storage = env.app.registry.store, env.app.registry.storage_named("", "v1", "services")
        await use_port("s", 30020)
        await store.write(f"{PORTS}30021", b'{"namespace":"default","name":"gone"}')
        assert storage.allocator is not None
        repair = storage.allocator.repair(env.app.clock)
        prefix = "apiserver_nodeport_repair_"
        repair.run_once()
        await store.wait_settled()
        assert await value_of(env, f'{prefix}port_errors_total{{type="repair"}}') == 1
        assert await value_of(env, f'{prefix}port_errors_total{{type="leak"}}') == 0
        repair.run_once()
        assert await value_of(env, f'{prefix}port_errors_total{{type="leak"}}') == 1
        assert await value_of(env, f"{prefix}reconcile_errors_total") == 0
        await use_port("t", 30022)

        def refuse(*_: object) -> None:
            raise StoreError("no")

        repair._recorder.record = refuse  # type: ignore[assignment,method-assign]  # a store that fails
        repair.run_once()
        assert await value_of(env, f"{prefix}reconcile_errors_total") == 1

    run_live_plane(tmp_path, scenario)


def test_reads_of_a_shared_store_are_counted_with_their_wait(tmp_path: Path) -> None:
    async def scenario(env: LivePlane) -> None:
        series = 'apiserver_watch_cache_read_wait_seconds_count{group="",resource="configmaps"}'
        await env.made("GET", MAPS)
        assert await value_of(env, series) == 0
        type(env.app.registry.store).is_shared = True  # type: ignore[misc]  # as etcd's
        try:
            await env.made("GET", MAPS)
        finally:
            del type(env.app.registry.store).is_shared
        assert await value_of(env, series) == 1

    run_live_plane(tmp_path, scenario)


def test_flow_control_observes_every_nanosecond(tmp_path: Path) -> None:
    """Histograms over time have as many observations as nanoseconds have passed, whatever is asked."""

    async def scenario(env: LivePlane) -> None:
        flow = "apiserver_flowcontrol_"
        names = (
            f'{flow}priority_level_seat_utilization_count{{phase="executing",priority_level="exempt"}}',
            f'{flow}priority_level_request_utilization_count{{phase="waiting",priority_level="global-default"}}',
            f'{flow}demand_seats_count{{priority_level="exempt"}}',
            f'{flow}read_vs_write_current_requests_count{{phase="executing",request_kind="mutating"}}',
        )
        monotonic = env.app.clock.monotonic
        for name in names:
            earliest, before, latest = monotonic(), await value_of(env, name), monotonic()
            await env.made("POST", MAPS, {"metadata": {"generateName": "a"}})
            await asyncio.sleep(0.02)
            began, after, ended = monotonic(), await value_of(env, name), monotonic()
            assert (began - latest) * 1e9 - 1e6 <= after - before <= (ended - earliest) * 1e9 + 1e6, name
        idle = f'{flow}priority_level_seat_utilization_bucket{{phase="executing",priority_level="exempt",le="0"}}'
        for _ in range(100):  # some turns are sampled
            await env.made("GET", MAPS)
            await asyncio.sleep(0)
        assert 0 < await value_of(env, idle) < await value_of(env, names[0])

    run_live_plane(tmp_path, scenario)
