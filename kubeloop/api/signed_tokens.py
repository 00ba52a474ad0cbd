# SPDX-License-Identifier: Apache-2.0
"""Signed JWTs of service accounts: RSA, or ECDSA on a NIST curve, depending on the key.

A general JOSE library would bring every other algorithm, and with them the class of mistakes in which a token chooses
its own verification. Here the key alone decides; the cryptography library does the arithmetic. Imported on first use,
because that library is slow to load.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

_PEM_MARK = b"-----BEGIN "


class InvalidToken(Exception):
    """Raised for a value that is no token, or was not signed by one of the given keys."""


class _Head(msgspec.Struct):
    alg: str
    kid: str = ""


class SignatureScheme(Protocol):
    """Signature scheme of one type of key."""

    algorithm: str

    def sign(self, key: Any, message: bytes) -> bytes:
        """Return the signature of a message."""

    def verify(self, key: Any, message: bytes, signature: bytes) -> None:
        """Verify the signature of a message; raises if it is invalid."""

    def jwk_members(self, key: Any) -> dict[str, str]:
        """Return the members of the JWK that describe the public key."""


class _Rsa:
    algorithm = "RS256"

    def sign(self, key: rsa.RSAPrivateKey, message: bytes) -> bytes:
        return key.sign(message, padding.PKCS1v15(), hashes.SHA256())

    def verify(self, key: rsa.RSAPublicKey, message: bytes, signature: bytes) -> None:
        key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())

    def jwk_members(self, key: rsa.RSAPublicKey) -> dict[str, str]:
        numbers = key.public_numbers()
        return {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}


class _Curve:
    def __init__(self, algorithm: str, curve: str, digest: hashes.HashAlgorithm, size: int) -> None:
        self.algorithm = algorithm
        self._curve = curve
        self._ecdsa = ec.ECDSA(digest)
        self._size = size  # of a coordinate, in bytes

    def sign(self, key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
        r, s = decode_dss_signature(key.sign(message, self._ecdsa))
        return r.to_bytes(self._size) + s.to_bytes(self._size)

    def verify(self, key: ec.EllipticCurvePublicKey, message: bytes, signature: bytes) -> None:
        if len(signature) != 2 * self._size:
            raise InvalidSignature
        r, s = int.from_bytes(signature[: self._size]), int.from_bytes(signature[self._size :])
        key.verify(encode_dss_signature(r, s), message, self._ecdsa)

    def jwk_members(self, key: ec.EllipticCurvePublicKey) -> dict[str, str]:
        point = key.public_numbers()
        x, y = point.x.to_bytes(self._size), point.y.to_bytes(self._size)
        return {"kty": "EC", "crv": self._curve, "x": _encoded(x).decode(), "y": _encoded(y).decode()}


_CURVES: dict[str, Callable[[], SignatureScheme]] = {
    "secp256r1": lambda: _Curve("ES256", "P-256", hashes.SHA256(), 32),
    "secp384r1": lambda: _Curve("ES384", "P-384", hashes.SHA384(), 48),
    "secp521r1": lambda: _Curve("ES512", "P-521", hashes.SHA512(), 66),
}


class PublicKey:
    """Public key that verifies tokens."""

    def __init__(self, key: Any) -> None:
        self.key = key
        self.scheme = _scheme_of(key)
        self.key_id = _key_id(key)

    def to_jwk(self) -> dict[str, str]:
        """Return the key as a JWK, for other verifiers."""
        told = {"use": "sig", "kid": self.key_id, "alg": self.scheme.algorithm}
        return told | self.scheme.jwk_members(self.key)


class SigningKey:
    """Private key, read from its PEM form."""

    def __init__(self, pem: bytes) -> None:
        self._key: Any = serialization.load_pem_private_key(pem, None)
        self.public = PublicKey(self._key.public_key())
        head = {"alg": self.public.scheme.algorithm, "kid": self.public.key_id}
        self._head = _encoded(msgspec.json.encode(head))

    def sign(self, claims: dict[str, Any]) -> str:
        """Return a signed token with the given claims."""
        message = self._head + b"." + _encoded(msgspec.json.encode(claims))
        return (message + b"." + _encoded(self.public.scheme.sign(self._key, message))).decode()


def verify(token: str, keys: Sequence[PublicKey]) -> dict[str, Any]:
    """Return the claims of a token that one of the keys signed; raises NotOurToken. The claims are not checked."""
    message, _, signature = token.rpartition(".")
    head, _, body = message.partition(".")
    try:
        said = msgspec.json.decode(_decoded(head), type=_Head)
        raw, signed = _decoded(signature), message.encode()
        if not any(_signed_by(key, said, signed, raw) for key in keys):
            raise InvalidToken
        return msgspec.json.decode(_decoded(body), type=dict[str, Any])
    except (binascii.Error, UnicodeEncodeError, ValueError, msgspec.MsgspecError):
        raise InvalidToken from None


def _signed_by(key: PublicKey, said: _Head, message: bytes, signature: bytes) -> bool:
    if said.alg != key.scheme.algorithm or said.kid not in ("", key.key_id):
        return False
    try:
        key.scheme.verify(key.key, message, signature)
    except InvalidSignature:
        return False
    return True


def read_public_keys(pem: bytes) -> list[PublicKey]:
    """Read the keys of a file with public keys, private keys or certificates; raises ValueError without any."""
    blocks = [_PEM_MARK + rest for rest in pem.split(_PEM_MARK)[1:]]
    if not blocks:
        raise ValueError("data does not contain any valid RSA or ECDSA public keys")
    return [PublicKey(_public_key(block)) for block in blocks if b"EC PARAMETERS" not in block]


def _public_key(block: bytes) -> Any:
    if block.startswith(b"-----BEGIN CERTIFICATE"):
        return x509.load_pem_x509_certificate(block).public_key()
    if b"PRIVATE KEY" in block.partition(b"\n")[0]:
        return serialization.load_pem_private_key(block, None).public_key()
    return serialization.load_pem_public_key(block)


def _scheme_of(key: Any) -> SignatureScheme:
    if isinstance(key, rsa.RSAPublicKey):
        return _Rsa()
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]()
    raise ValueError("tokens are signed with RSA, or on one of the curves P-256, P-384 and P-521")


def _key_id(key: Any) -> str:
    """Return upstream's ID of a key: the hash of its DER form."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _encoded(hashlib.sha256(der).digest()).decode()


def _number(number: int) -> str:
    return _encoded(number.to_bytes((number.bit_length() + 7) // 8)).decode()


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decoded(text: str) -> bytes:
    """Decode unpadded base64url; Python alone would accept padding and the standard alphabet, too."""
    raw = text.encode("ascii")
    if not raw.isascii() or any(mark in raw for mark in (b"=", b"+", b"/")):
        raise binascii.Error("not base64url")
    return base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
