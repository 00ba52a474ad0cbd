# SPDX-License-Identifier: Apache-2.0
"""A server on a SQLite store, and traffic of every kind."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeloop.apiserver.inprocess.stream import pieces_of
from kubeloop.apiserver.server import ApiServerConfig, RunningServer, ServiceAccountTokenConfig, start_server
from kubeloop.clock import SystemClock
from kubeloop.http import Request, Response, StreamResponse

MAPS = "/api/v1/namespaces/default/configmaps"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
JSON = "application/json"


class LivePlane:
    """One server, asked as a user of its token file."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.app = server.app

    async def ask(
        self, method: str, path: str, body: Any = None, *, token: str = "admin", media: str = JSON
    ) -> Response:
        """Send a request to the application."""
        path, _, query = path.partition("?")
        request = Request(method, path, query, {"authorization": f"Bearer {token}-token", "content-type": media})
        request.body = b"" if body is None else json.dumps(body).encode()
        return await self.app.handle(request)

    async def metrics(self) -> str:
        """Return the metrics as text."""
        body = (await self.ask("GET", "/metrics")).body
        return (body if isinstance(body, bytes) else b"".join(body)).decode()

    async def watch(self, path: str, change: Callable[[], Awaitable[Any]]) -> bytes:
        """Watch until something arrives after a change."""
        response = await self.ask("GET", path)
        assert isinstance(response, StreamResponse)
        async with aclosing(pieces_of(response)) as pieces:
            changing = asyncio.ensure_future(change())
            piece = await anext(pieces)
            await changing
            return piece

    async def cause_traffic(self) -> None:
        """Use everything that counts something."""
        await self.made("POST", MAPS, {"metadata": {"name": "a"}})
        await self.made("GET", f"{MAPS}/a")
        await self.made("GET", MAPS)
        assert (await self.ask("GET", MAPS, token="none")).status == 401
        assert (await self.ask("GET", MAPS, token="user")).status == 403
        await self.made("GET", "/api/v1/endpoints")
        await self.made("PATCH", f"{MAPS}/a", {"data": {"k": "v"}}, media="application/merge-patch+json")
        await self.watch(f"{MAPS}?watch=1", lambda: self.made("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}}))
        await self.made("POST", "/api/v1/namespaces/default/services", SERVICE)
        await self.made("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
        policy = {"metadata": {"name": "p.example.com"}, "spec": POLICY}
        await self.made("POST", f"{POLICIES}/mutatingadmissionpolicies", policy)
        binding = {"metadata": {"name": "b.example.com"}, "spec": {"policyName": "p.example.com"}}
        await self.made("POST", f"{POLICIES}/mutatingadmissionpolicybindings", binding)
        await self.made("POST", MAPS, {"metadata": {"name": "b"}})
        await self.issue_certificate()

    async def made(self, method: str, path: str, body: Any = None, **more: Any) -> Response:
        """Send a request that succeeds."""
        response = await self.ask(method, path, body, **more)
        assert response.status in (200, 201), response.body
        return response

    async def issue_certificate(self, seconds: int = 3600) -> None:
        """Approve and sign a CertificateSigningRequest that asks for a duration."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "someone")])
        asked = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
        spec = {
            "request": base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
            "expirationSeconds": seconds,
        }
        await self.made("POST", CSRS, {"metadata": {"name": "c"}, "spec": spec})
        now = datetime.now(UTC)
        issued = (
            x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(seconds=seconds))
            .sign(key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )
        approved = {"type": "Approved", "status": "True", "reason": "r"}
        merge = "application/merge-patch+json"
        await self.made("PATCH", f"{CSRS}/c/approval", {"status": {"conditions": [approved]}}, media=merge)
        signed = {"status": {"certificate": base64.b64encode(issued).decode()}}
        await self.made("PATCH", f"{CSRS}/c/status", signed, media=merge)


SERVICE = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
CRD = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
POLICY = {
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ]
    },
    "reinvocationPolicy": "Never",
    "mutations": [
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"},
        }
    ],
}


def run_live_plane(folder: Path, scenario: Callable[[LivePlane], Awaitable[None]]) -> None:
    """Run a scenario on a server whose files are in a folder."""
    tokens = folder / "tokens.csv"
    tokens.write_text('admin-token,admin,1,"system:masters"\nuser-token,user,2\n')
    key = folder / "sa.key"
    private = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key.write_bytes(private)

    async def main() -> None:
        config = ApiServerConfig(
            store=f"sqlite:{folder / 'store.db'}",
            port=0,
            token_file=tokens,
            service_account_tokens=ServiceAccountTokenConfig(key),
        )
        server = await start_server(config, SystemClock())
        try:
            await scenario(LivePlane(server))
        finally:
            await server.close()

    asyncio.run(main())
