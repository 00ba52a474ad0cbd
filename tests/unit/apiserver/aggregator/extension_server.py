# SPDX-License-Identifier: Apache-2.0
"""A small extension API server for tests: gardens of the group flowers.example.com, over TLS.

It lets in nobody but a front proxy with a certificate of the right authority, and remembers what it was asked.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeloop.clock import SystemClock
from kubeloop.http import (
    HttpLimits,
    HttpServer,
    Request,
    Response,
    ResponseStream,
    StreamResponse,
    UpgradeResponse,
    encode_chunk,
    serve,
)

GROUP, VERSION = "flowers.example.com", "v1"
ROOT = f"/apis/{GROUP}/{VERSION}"
ROW = {
    "name": "gardens",
    "singularName": "garden",
    "namespaced": True,
    "kind": "Garden",
    "verbs": ["get", "list", "watch", "create"],
    "shortNames": ["gd"],
}
NAMES = {
    "swagger": "2.0",
    "paths": {f"{ROOT}/gardens": {"get": {"operationId": "listGarden"}}, "/elsewhere": {}},
    "definitions": {},
}


def garden(name: str) -> dict[str, object]:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Garden", "metadata": {"name": name, "resourceVersion": "7"}}


class Authority:
    """Signs the serving certificates of extension API servers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "extension-ca")])
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        signed = self._builder(self._name, self._key).add_extension(constraint, critical=True)
        self.pem = signed.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def serving(self, name: str) -> tuple[Path, Path]:
        """A certificate and a key for a DNS name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        alternative = x509.SubjectAlternativeName([x509.DNSName(name)])
        built = self._builder(subject, key).add_extension(alternative, critical=False)
        pem = built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        certificate_file, key_file = self._folder / "serving.crt", self._folder / "serving.key"
        certificate_file.write_bytes(pem)
        form = serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return certificate_file, key_file

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = SystemClock().now()
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        day = datetime.timedelta(days=1)
        return builder.not_valid_before(now - day).not_valid_after(now + day)


class Gardens:
    """The server's answers."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.next_event: asyncio.Queue[str] = asyncio.Queue()
        self.all_at_once = False
        self.discovery_status = 200
        self.pause: asyncio.Event | None = None  # for which requests about gardens wait

    @property
    def last(self) -> Request:
        """The last request that was about gardens."""
        return [one for one in self.seen if one.path.startswith(f"{ROOT}/")][-1]

    async def handle(self, request: Request) -> Response:
        self.seen.append(request)
        if request.path == ROOT:
            listed = {"kind": "APIResourceList", "groupVersion": f"{GROUP}/{VERSION}", "resources": [ROW]}
            return _json(listed, self.discovery_status)
        if request.path == "/apis" and self.all_at_once:
            return _json(_everything())
        if request.path == "/openapi/v2":
            return _json(NAMES)
        if request.path == f"/openapi/v3{ROOT}":
            return _json({"openapi": "3.0.0", "paths": {f"{ROOT}/gardens": {}}})
        if request.path.startswith(f"{ROOT}/"):
            if self.pause is not None:
                await self.pause.wait()
            return self._gardens(request)
        return Response(404, b"404 page not found\n", "text/plain")

    def _gardens(self, request: Request) -> Response:
        if request.upgrade:
            return UpgradeResponse(Echo().take_over, (("Connection", "Upgrade"), ("Upgrade", "echo")))
        if request.method == "POST":
            return Response(201, request.body)
        if "watch=" in request.query:
            return GardenWatch(self.next_event)
        name = request.path.rpartition("/")[2]
        if name == "moved":
            return Response(302, b"", "text/plain", (("Location", "https://elsewhere.example/"),))
        if name == "none":
            missing = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no garden"}
            return _json(missing, 404)
        if name == "gardens":
            return _json({"kind": "GardenList", "metadata": {"resourceVersion": "7"}, "items": [garden("eden")]})
        return _json(garden(name))


class GardenWatch(StreamResponse):
    """A line for each name that the test puts into the queue; an empty name ends it."""

    __slots__ = ("_names",)

    def __init__(self, names: asyncio.Queue[str]) -> None:
        super().__init__()
        self._names = names

    def run(self, stream: ResponseStream) -> Awaitable[None]:
        return self._run(stream)

    async def _run(self, stream: ResponseStream) -> None:
        while name := await self._names.get():
            line = json.dumps({"type": "ADDED", "object": garden(name)}).encode() + b"\n"
            stream.write(encode_chunk(line))


class Echo(asyncio.Protocol):
    """Sends back what it gets, in capital letters."""

    def take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        self._transport = transport
        transport.set_protocol(self)
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data.upper())


@asynccontextmanager
async def listening(gardens: Gardens, serving: tuple[Path, Path], clients: Path) -> AsyncIterator[HttpServer]:
    """The server on a free port; `clients` is the authority of the certificates it lets in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*serving)
    context.load_verify_locations(clients)
    context.verify_mode = ssl.CERT_REQUIRED
    server = await serve(gardens.handle, "127.0.0.1", 0, context, HttpLimits(), SystemClock())
    try:
        yield server
    finally:
        await server.close(0.1)


def _json(document: object, status: int = 200) -> Response:
    return Response(status, json.dumps(document).encode())


def _everything() -> dict[str, object]:
    kind = {"group": "", "version": "", "kind": "Garden"}
    resource = {"resource": "gardens", "responseKind": kind, "scope": "Namespaced", "verbs": ["list"]}
    version = {"version": VERSION, "resources": [resource], "freshness": "Current"}
    items = [{"metadata": {"name": GROUP}, "versions": [version]}]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}
