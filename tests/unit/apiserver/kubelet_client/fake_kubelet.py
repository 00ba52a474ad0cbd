# SPDX-License-Identifier: Apache-2.0
"""A kubelet of the tests' own at a port, with whatever certificate it is given, and nodes that say where it is."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubeloop.api.generated.core_v1 import (
    Container,
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeDaemonEndpoints,
    NodeStatus,
    Pod,
    PodSpec,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kubelet_requests import (
    ForwardFailed,
    NodeConnectionRefused,
    NodeResponse,
    PodLogOptions,
    PortConnection,
    StandardStreams,
)
from kubeloop.apiserver.streaming.kubelet import kubelet_response
from kubeloop.clock import SystemClock
from kubeloop.http import HttpLimits, Request, Response, serve

POD = Pod(
    metadata=ObjectMeta(name="web", namespace="default", uid="u1"),
    spec=PodSpec(node_name="n1", containers=(Container(name="app", image="nginx"),)),
)


def named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Authority:
    """CA for test certificates."""

    def __init__(self, folder: Path, name: str = "kubernetes") -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = named(name)
        self.now: datetime = SystemClock().now()
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(self._name, self._key, self.now + timedelta(days=1))
        signed = builder.add_extension(constraint, critical=True).sign(self._key, hashes.SHA256())
        self.path = folder / "ca.crt"
        self.path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def signed(self, common_name: str, *, until: timedelta = timedelta(hours=1)) -> Path:
        """A serving certificate for 127.0.0.1, its key behind it."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(named(common_name), key, self.now + until)
        use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        here = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        made = builder.add_extension(use, critical=False).add_extension(here, critical=False)
        pem = made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        form = serialization.PrivateFormat.PKCS8
        path = self._folder / f"{common_name.replace(':', '-')}.pem"
        path.write_bytes(pem + key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return path

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        return builder.not_valid_before(self.now - timedelta(hours=2)).not_valid_after(until)


def der_of(pem: Path) -> bytes:
    return x509.load_pem_x509_certificate(pem.read_bytes()).public_bytes(serialization.Encoding.DER)


def node_at(port: int, host: str = "127.0.0.1", **annotations: str) -> Node:
    return Node(
        metadata=ObjectMeta(name="n1", annotations={key.replace("__", "/"): one for key, one in annotations.items()}),
        status=NodeStatus(
            addresses=(NodeAddress(type="InternalIP", address=host),),
            daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=port)),
        ),
    )


class FakeNodes:
    """Agent behind a kubelet's port that echoes its input."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.sizes: list[Any] = []
        self.refusal: NodeConnectionRefused | None = None

    def can_reach(self, node: str) -> bool:
        return True

    async def open(self, pod: Pod, container: str, wanted: Any) -> FakeNodes:
        if self.refusal is not None:
            raise self.refusal
        return self

    def close(self) -> None: ...

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], streams: StandardStreams) -> int:
        while piece := await streams.read():
            await streams.write(piece)
        await streams.write_error(" ".join(command).encode())
        if streams.tty:
            told = asyncio.Event()
            streams.on_resize = lambda _: told.set()
            if streams.size is None:
                await told.wait()
            self.sizes.append(streams.size)
        if command[:1] == ("break",):
            raise RuntimeError("it broke")
        return int(command[1]) if command[:1] == ("exit",) else 0

    async def attach(self, pod: Pod, container: str, streams: StandardStreams) -> None:
        await streams.write(b"attached")

    async def forward(self, pod: Pod, port: int, connection: PortConnection) -> None:
        if port != 80:
            raise ForwardFailed("connection refused")
        while piece := await connection.read():
            await connection.write(piece.upper())

    def logs(self, pod: Pod, container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def send_request(self, node: str, request: Any) -> NodeResponse:
        if request.path.startswith("/containerLogs"):
            return _log_page(request)
        return NodeResponse(200, f"{request.method} {request.path}".encode())


def _log_page(request: Any) -> NodeResponse:
    failures = {"missing": 404, "early": 400, "broken": 500, "shy": 403}
    container = request.path.rpartition("/")[2]
    if container in failures:
        return NodeResponse(failures[container], f"{container} indeed".encode())

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"

    return NodeResponse(200, pieces())


@asynccontextmanager
async def kubelet(certificate: Path, nodes: FakeNodes | None = None) -> AsyncIterator[int]:
    """A port that shows a certificate; its number."""
    nodes = nodes or FakeNodes()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)

    async def answer(request: Request) -> Response:
        await asyncio.sleep(0)
        nodes.asked.append(request)
        return await kubelet_response(request, request.path, "n1", nodes, lambda *_: POD)

    server = await serve(answer, "127.0.0.1", 0, tls, HttpLimits(), SystemClock())
    try:
        yield server.port
    finally:
        await server.close(0.1)


class Terminal:
    """Client streams of a command."""

    def __init__(self, said: tuple[bytes, ...] = (), *, tty: bool = False) -> None:
        self.stdin, self.tty = bool(said), tty
        self.size: Any = None
        self.on_resize: Any = None
        self._said: Iterator[bytes] = iter(said)
        self.heard, self.errors = b"", b""

    async def read(self) -> bytes:
        return next(self._said, b"")

    async def write(self, data: bytes) -> None:
        self.heard += data

    async def write_error(self, data: bytes) -> None:
        self.errors += data
