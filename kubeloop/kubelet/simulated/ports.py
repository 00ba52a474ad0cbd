# SPDX-License-Identifier: Apache-2.0
"""Servers of simulated containers: each port of a container answers.

HTTP requests get a page that names the container; any other data is echoed.
"""

from __future__ import annotations

import re

from kubeloop.api.generated.core_v1 import Container, Pod, Probe
from kubeloop.api.kubelet_requests import PortConnection
from kubeloop.kubelet.sync.containers import all_containers_of

_REQUEST = re.compile(rb"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (\S+) HTTP/1\.[01]\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"
_LARGEST_HEAD = 64 << 10


def container_listening_on(pod: Pod, port: int) -> Container | None:
    """Return the container that listens on a port, or None."""
    return next((one for one in all_containers_of(pod) if port in listening_ports(one)), None)


def listening_ports(container: Container) -> set[int]:
    """Return the ports of a container: declared ones, and those of its probes."""
    found = {one.container_port for one in container.ports}
    named = {one.name: one.container_port for one in container.ports if one.name}
    for probe in (container.startup_probe, container.liveness_probe, container.readiness_probe):
        at = _port_of(probe) if probe is not None else None
        found.add(named.get(at, 0) if isinstance(at, str) else at or 0)
    return found - {0}


def _port_of(probe: Probe) -> int | str | None:
    if probe.http_get is not None:
        return probe.http_get.port
    if probe.tcp_socket is not None:
        return probe.tcp_socket.port
    return probe.grpc.port if probe.grpc is not None else None


def response_body(pod: Pod, container: Container, port: int, path: str) -> bytes:
    """Return the response body."""
    meta = pod.metadata
    where = f"simulated container {container.name} of pod {meta.namespace}/{meta.name} on node {pod.spec.node_name}"
    return f"{where}, port {port}: {path}\n".encode()


async def serve_connection(pod: Pod, container: Container, port: int, connection: PortConnection) -> None:
    """Serve a connection until the other end closes it."""
    held = b""
    while True:
        if not _may_be_http(held):
            await connection.write(held)
            held = b""
        elif _HEAD_END in held:
            held, goes_on = await _answer(pod, container, port, connection, held)
            if not goes_on:
                return
            continue
        piece = await connection.read()
        if not piece:
            return
        held += piece


def _may_be_http(data: bytes) -> bool:
    if _HEAD_END in data:
        return _REQUEST.match(data) is not None
    if b"\n" in data:
        return _REQUEST.match(data) is not None and len(data) < _LARGEST_HEAD
    return len(data) < _LARGEST_HEAD and not data.startswith((b"\x16", b"\x00"))


async def _answer(
    pod: Pod, container: Container, port: int, connection: PortConnection, held: bytes
) -> tuple[bytes, bool]:
    """Answer one request; return the remaining data, and whether another request may follow."""
    head, _, rest = held.partition(_HEAD_END)
    head += b"\r\n"
    length = _LENGTH.search(head)
    missing = (int(length[1]) if length is not None else 0) - len(rest)
    while missing > 0:  # the body is discarded, but must be read before the next request
        piece = await connection.read()
        if not piece:
            return b"", False
        missing -= len(piece)
        rest += piece
    found = _REQUEST.match(held)
    path = found[1].decode("utf-8", "replace") if found is not None else "/"
    body = response_body(pod, container, port, path)
    ends = _CLOSE.search(head) is not None
    fields = f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    fields += "Connection: close\r\n" if ends else ""
    shown = b"" if held.startswith(b"HEAD ") else body
    await connection.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n".encode() + shown)
    begin = int(length[1]) if length is not None else 0
    return rest[begin:], not ends
