# SPDX-License-Identifier: Apache-2.0
"""Measures the syncs of the service proxy: the first one, and those of a change, with many Services.

`python -m bench.service_proxy` prints one line of JSON a figure. It needs root: the tables are in a network namespace
of its own, which ends with the process.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import statistics
import time
from collections.abc import Awaitable, Iterable
from typing import Final

from kubeloop.api.generated.core_v1 import Service, ServicePort, ServiceSpec
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointPort, EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.clock import SystemClock
from kubeloop.metrics import MetricRegistry
from kubeloop.nftables.library import open_nftables
from kubeloop.proxy.health.proxy_health import ProxyHealth
from kubeloop.proxy.ip_family import IPV4
from kubeloop.proxy.kernel.flow_cleaner import ConntrackCleaner
from kubeloop.proxy.metrics import ProxyMetrics
from kubeloop.proxy.node_addresses import LocalTrafficDetector
from kubeloop.proxy.proxier import Proxier, ProxierDependencies
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.service_port import NamespacedName
from kubeloop.proxy.sync_runner import SyncIntervals

_CLONE_NEWNET: Final = 0x40000000
_ENDPOINTS: Final = 3
_CHANGES: Final = 50


class _NoHealthChecks:
    """Health checks that are not served."""

    async def set_service(self, service: NamespacedName, port: int, local_endpoints: int) -> None:
        """Do nothing."""

    async def retry_failed(self) -> None:
        """Do nothing."""


async def _no_addresses() -> Iterable[str]:
    return ()


def _service(number: int) -> Service:
    address = f"10.{96 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
    spec = ServiceSpec(
        type="ClusterIP",
        cluster_ip=address,
        cluster_ips=(address,),
        ports=(ServicePort(name="http", port=80, protocol="TCP"),),
    )
    return Service(metadata=ObjectMeta(namespace="bench", name=f"service-{number}"), spec=spec)


def _slice(number: int, last: int = 0) -> EndpointSlice:
    hosts = [number * _ENDPOINTS + one for one in range(_ENDPOINTS - 1)] + [last or number * _ENDPOINTS + 2]
    labels = {"kubernetes.io/service-name": f"service-{number}"}
    return EndpointSlice(
        metadata=ObjectMeta(namespace="bench", name=f"service-{number}-1", labels=labels),
        address_type="IPv4",
        ports=(EndpointPort(name="http", port=8080, protocol="TCP"),),
        endpoints=tuple(Endpoint(addresses=(f"172.{16 + (one >> 16)}.{one >> 8 & 255}.{one & 255}",)) for one in hosts),
    )


async def _measure(call: Awaitable[bool]) -> tuple[float, float]:
    """Return seconds of wall time and of processor time."""
    wall, cpu = time.perf_counter(), time.process_time()
    assert await call
    return time.perf_counter() - wall, time.process_time() - cpu


async def _run(services: int) -> None:
    clock = SystemClock()
    nftables = await open_nftables()
    parts = ProxierDependencies(
        nftables,
        clock,
        ProxyMetrics(MetricRegistry()),
        ProxyHealth(clock, 60.0),
        _NoHealthChecks(),
        ConntrackCleaner(IPV4),
        _no_addresses,
    )
    settings = TableSettings(detector=LocalTrafficDetector("network", "172.16.0.0/12"))
    proxier = Proxier(settings, "bench", parts, SyncIntervals(0.0, 30.0, 30.0))
    for number in range(services):
        proxier.on_service(_service(number))
        proxier.on_endpoint_slice(_slice(number))
    proxier.mark_synced("services")
    proxier.mark_synced("slices")
    wall, cpu = await _measure(proxier.sync())
    _report(f"proxy_{services}_full_sync", wall, cpu)
    rows = []
    for number in range(_CHANGES):
        proxier.on_endpoint_slice(_slice(number * services // _CHANGES, last=900_000 + number))
        rows.append(await _measure(proxier.sync()))
    _report(f"proxy_{services}_endpoint_change", *(statistics.median(column) for column in zip(*rows, strict=True)))
    rows = []
    for number in range(services, services + _CHANGES):
        proxier.on_service(_service(number))
        proxier.on_endpoint_slice(_slice(number))
        rows.append(await _measure(proxier.sync()))
    _report(f"proxy_{services}_new_service", *(statistics.median(column) for column in zip(*rows, strict=True)))
    await nftables.close()


def _report(name: str, wall: float, cpu: float) -> None:
    print(json.dumps({f"{name}_ms": round(wall * 1e3, 2), f"{name}_cpu_ms": round(cpu * 1e3, 2)}), flush=True)


def _enter_new_network() -> None:
    """Move this process into a network namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, nargs="+", default=[1000, 10000], help="numbers of Services")
    options = parser.parse_args()
    _enter_new_network()
    for services in options.services:
        asyncio.run(_run(services))


if __name__ == "__main__":
    main()
