# SPDX-License-Identifier: Apache-2.0
"""Measures answers about the cluster per second of the DNS server's processor time.

`python -m bench.dns` prints one line of JSON a figure. The server is a child process with a zone of 1,000 Services on a
UDP socket of loopback; this process sends questions and keeps a fixed number of them under way. The server's time
includes the kernel's work for its socket.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

import uvloop

from bench.program import cpu_seconds
from kubeloop.api.generated.core_v1 import Namespace, Service, ServicePort, ServiceSpec
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointPort, EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.clock import SystemClock
from kubeloop.dns.listeners import DnsListeners, bind_sockets, socket_address
from kubeloop.dns.server.handler import DnsHandler
from kubeloop.dns.server.metrics import DnsMetrics
from kubeloop.dns.wire.constants import RRType
from kubeloop.dns.wire.names import encode_name
from kubeloop.dns.zone.cluster_zone import ClusterZone
from kubeloop.dns.zone.settings import ZoneSettings
from kubeloop.metrics import MetricRegistry

SERVICES: Final = 1000
ENDPOINTS: Final = 10
_UNDER_WAY: Final = 64
_HEADER: Final = struct.pack("!5H", 0x0100, 1, 0, 0, 1)
_OPT: Final = b"\0\0\x29\x04\xd0\0\0\0\0\0\0"
_SUFFIX: Final = "default.svc.cluster.local"
# Figure, name with the number of a Service, type.
_LOADS: Final = (
    ("dns_cluster_ip_answers_per_cpu_s", f"web-{{}}.{_SUFFIX}", RRType.A),
    ("dns_headless_answers_per_cpu_s", f"heads-{{}}.{_SUFFIX}", RRType.A),
    ("dns_srv_answers_per_cpu_s", f"_http._tcp.web-{{}}.{_SUFFIX}", RRType.SRV),
    ("dns_nxdomain_answers_per_cpu_s", f"example-{{}}.com.{_SUFFIX}", RRType.A),
    ("dns_nodata_answers_per_cpu_s", f"web-{{}}.{_SUFFIX}", RRType.AAAA),
)


def new_zone() -> ClusterZone:
    """Return a zone with as many Services with a cluster IP as headless ones."""
    zone = ClusterZone(ZoneSettings(), SystemClock())
    zone.set_namespace(Namespace(metadata=ObjectMeta(name="default")))
    ports = (ServicePort(name="http", port=80, protocol="TCP"),)
    for number in range(SERVICES):
        high, low = divmod(number, 250)
        for name, address in ((f"web-{number}", f"10.96.{high}.{low + 1}"), (f"heads-{number}", "None")):
            spec = ServiceSpec(type="ClusterIP", cluster_ip=address, cluster_ips=(address,), ports=ports)
            zone.set_service(Service(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))
        addresses = [f"10.{one + 1}.{high}.{low + 1}" for one in range(ENDPOINTS)]
        labels = {"kubernetes.io/service-name": f"heads-{number}"}
        zone.set_slice(
            EndpointSlice(
                metadata=ObjectMeta(name=f"heads-{number}-1", namespace="default", labels=labels),
                address_type="IPv4",
                endpoints=tuple(Endpoint(addresses=(address,)) for address in addresses),
                ports=(EndpointPort(name="http", port=80, protocol="TCP"),),
            )
        )
    zone.mark_synced()
    return zone


async def serve() -> None:
    """Serve the zone until the process is killed; prints the port."""
    metrics = DnsMetrics(MetricRegistry(), "dns://:53")
    listeners = DnsListeners(DnsHandler(new_zone(), None, SystemClock()), metrics)
    pairs = bind_sockets(("127.0.0.1",), 0)
    await listeners.listen(pairs)
    print(socket_address(pairs[0])[1], flush=True)
    await asyncio.get_running_loop().create_future()


def questions(pattern: str, rrtype: int) -> list[bytes]:
    """Return a query without its number for every Service."""
    tail = struct.pack("!HH", rrtype, 1) + _OPT
    return [_HEADER + encode_name(pattern.format(number)) + tail for number in range(SERVICES)]


def load(port: int, queries: Sequence[bytes], seconds: float) -> int:
    """Send queries for a time, with a fixed number under way; returns the number of responses."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(("127.0.0.1", port))
    sock.setblocking(False)
    sent = received = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while sent - received < _UNDER_WAY:
            sock.send((sent & 0xFFFF).to_bytes(2) + queries[sent % len(queries)])
            sent += 1
        if not select.select([sock], [], [], 1.0)[0]:
            sent = received  # lost: there is no reason on loopback, but the run shall go on
        try:
            while True:
                sock.recv(4096)
                received += 1
        except BlockingIOError:
            continue
    sock.close()
    return received


def main() -> None:
    """Run the server or the measurement."""
    parser = argparse.ArgumentParser("bench.dns", description="Measure the DNS server.")
    parser.add_argument("--serve", action="store_true", help="run the measured server")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each figure (default: 3)")
    options = parser.parse_args()
    if options.serve:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())
        return
    command = [sys.executable, "-m", "bench.dns", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            for name, pattern, rrtype in _LOADS:
                before, began = cpu_seconds(server.pid), time.monotonic()
                count = load(port, questions(pattern, rrtype), options.seconds)
                used, passed = cpu_seconds(server.pid) - before, time.monotonic() - began
                figure = {"figure": name, "value": round(count / used), "per_wall_s": round(count / passed)}
                print(json.dumps(figure), flush=True)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
