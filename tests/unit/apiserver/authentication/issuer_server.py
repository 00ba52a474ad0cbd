# SPDX-License-Identifier: Apache-2.0
"""A real OpenID issuer over TLS: discovery document, key set, and tokens that it signs."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.http import HttpLimits, HttpServer, Request, Response, serve

CURVES = {"ES256": (ec.SECP256R1(), "P-256", 32), "ES384": (ec.SECP384R1(), "P-384", 48)}
CURVES["ES512"] = (ec.SECP521R1(), "P-521", 66)
DIGESTS = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8))


class IssuerKeyPair:
    """A key for one algorithm."""

    def __init__(self, key_id: str, algorithm: str = "RS256") -> None:
        self.key_id = key_id
        self.algorithm = algorithm
        self.key: Any
        if algorithm in CURVES:
            self.key = ec.generate_private_key(CURVES[algorithm][0])
        else:
            self.key = rsa.generate_private_key(65537, 2048)

    def jwk(self) -> dict[str, str]:
        numbers = self.key.public_key().public_numbers()
        head = {"kid": self.key_id, "use": "sig", "alg": self.algorithm}
        if self.algorithm in CURVES:
            _, name, size = CURVES[self.algorithm]
            x, y = encoded(numbers.x.to_bytes(size)), encoded(numbers.y.to_bytes(size))
            return {**head, "kty": "EC", "crv": name, "x": x, "y": y}
        return {**head, "kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        head = {"alg": self.algorithm, "kid": self.key_id, **header}
        message = f"{encoded(json.dumps(head).encode())}.{encoded(json.dumps(claims).encode())}"
        return f"{message}.{encoded(self._signature(message.encode()))}"

    def _signature(self, message: bytes) -> bytes:
        digest = DIGESTS[self.algorithm[2:]]
        if self.algorithm in CURVES:
            r, s = decode_dss_signature(self.key.sign(message, ec.ECDSA(digest)))
            size = CURVES[self.algorithm][2]
            return r.to_bytes(size) + s.to_bytes(size)
        if self.algorithm.startswith("PS"):
            scheme = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
            return bytes(self.key.sign(message, scheme, digest))
        return bytes(self.key.sign(message, padding.PKCS1v15(), digest))


class IssuerServer:
    """`paths` are those that were asked for; `keys` may be replaced while it runs."""

    def __init__(self, folder: Path, *keys: IssuerKeyPair) -> None:
        self.pki: Pki = ensure_pki(folder / "issuer", ["127.0.0.1"], SystemClock().now())
        self.keys = list(keys) or [IssuerKeyPair("one")]
        self.paths: list[str] = []
        self.cache_control = ""
        self.document: dict[str, Any] = {}
        self.answers: dict[str, Response] = {}
        self._server: HttpServer | None = None

    async def __aenter__(self) -> IssuerServer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pki.serving_certificate, self.pki.serving_key)
        self._server = await serve(self._handle, "127.0.0.1", 0, context, HttpLimits(), SystemClock())
        self.document = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await self._server.close(1.0)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"https://127.0.0.1:{self._server.port}"

    @property
    def authority(self) -> str:
        return self.pki.ca.read_text()

    def claims(self, **claims: Any) -> dict[str, Any]:
        now = int(SystemClock().now().timestamp())
        return {"iss": self.url, "aud": "me", "sub": "jane", "exp": now + 600, "iat": now, **claims}

    def token(self, **claims: Any) -> str:
        return self.keys[0].sign(self.claims(**claims))

    async def _handle(self, request: Request) -> Response:
        self.paths.append(request.path)
        if request.path in self.answers:
            return self.answers[request.path]
        if request.path == "/.well-known/openid-configuration":
            return Response(200, json.dumps(self.document).encode())
        headers = (("Cache-Control", self.cache_control),) if self.cache_control else ()
        if request.path == "/keys":
            return Response(200, json.dumps({"keys": [key.jwk() for key in self.keys]}).encode(), headers=headers)
        return Response(404, b"nothing here", "text/plain")
