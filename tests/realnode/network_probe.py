# SPDX-License-Identifier: Apache-2.0
"""Sockets in network namespaces: servers, and probes of many connections at once.

A socket belongs to the namespace of the thread that has created it. So one process has servers and clients of all pods.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


def in_namespace(name: str, work: Callable[[], T]) -> T:
    """Run a function in a thread of a network namespace."""

    def enter() -> T:
        descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY)
        try:
            if _LIBC.setns(descriptor, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {name}")
        finally:
            os.close(descriptor)
        return work()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(enter).result()


class Probe(NamedTuple):
    """One connection: namespace of the client, address, port, protocol (TCP or UDP)."""

    namespace: str
    address: str
    port: int
    protocol: str = "TCP"


class PodServers:
    """Servers in namespaces that answer each connection and each datagram with one word."""

    def __init__(self) -> None:
        self._sockets: list[tuple[socket.socket, str]] = []

    def add(self, namespace: str, ports: Iterable[int], word: str) -> None:
        """Listen at TCP and UDP ports of a namespace, of both IP families."""

        def listen() -> list[socket.socket]:
            made = []
            for port in ports:
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    one = socket.socket(socket.AF_INET6, kind)
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    one.bind(("::", port))
                    if kind == socket.SOCK_STREAM:
                        one.listen(256)
                    one.setblocking(False)
                    made.append(one)
            return made

        self._sockets += [(one, word) for one in in_namespace(namespace, listen)]

    def close(self) -> None:
        """Close all servers."""
        for one, _ in self._sockets:
            one.close()
        self._sockets.clear()

    def probe(self, probes: Iterable[Probe], seconds: float = 1.0) -> dict[Probe, str]:
        """Try all connections at once; returns the words that were answered, empty where nothing was."""
        return asyncio.run(self._probe(list(dict.fromkeys(probes)), seconds))

    async def _probe(self, probes: list[Probe], seconds: float) -> dict[Probe, str]:
        loop = asyncio.get_running_loop()
        for one, word in self._sockets:
            loop.add_reader(one, _answer, one, word.encode())
        try:
            clients = await loop.run_in_executor(None, _open_clients, probes)
            words = await asyncio.gather(*(_try(*pair, seconds) for pair in zip(probes, clients, strict=True)))
        finally:
            for one, _ in self._sockets:
                loop.remove_reader(one)
        return dict(zip(probes, words, strict=True))


def _open_clients(probes: list[Probe]) -> list[socket.socket]:
    """Open the sockets of all probes, namespace by namespace."""
    places: dict[str, list[int]] = {}
    for place, probe in enumerate(probes):
        places.setdefault(probe.namespace, []).append(place)
    made: dict[int, socket.socket] = {}
    for namespace, numbers in places.items():
        opened = in_namespace(namespace, lambda numbers=numbers: [_open(probes[one]) for one in numbers])  # type: ignore[misc]
        made |= dict(zip(numbers, opened, strict=True))
    return [made[place] for place in range(len(probes))]


def _open(probe: Probe) -> socket.socket:
    family = socket.AF_INET6 if ":" in probe.address else socket.AF_INET
    one = socket.socket(family, socket.SOCK_DGRAM if probe.protocol == "UDP" else socket.SOCK_STREAM)
    one.setblocking(False)
    return one


def _answer(server: socket.socket, word: bytes) -> None:
    with suppress(OSError):
        if server.type == socket.SOCK_DGRAM:
            _, sender = server.recvfrom(100)
            server.sendto(word, sender)
        else:
            connection, _ = server.accept()
            with connection:
                connection.send(word)


async def _try(probe: Probe, client: socket.socket, seconds: float) -> str:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            await loop.sock_connect(client, (probe.address, probe.port))
            if probe.protocol == "UDP":
                await loop.sock_sendall(client, b"?")
            return (await loop.sock_recv(client, 100)).decode()
    except (OSError, TimeoutError):
        return ""
    finally:
        client.close()
