"""Signed tokens (JWT) with ECDSA on P-256, the one algorithm that we issue and accept.

A general JOSE library would bring every other algorithm, and with them the class of mistakes in which a token chooses
how it is checked. What is left of the standard without them is this file; the arithmetic is the cryptography library's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

_ALGORITHM = ec.ECDSA(hashes.SHA256())
_COORDINATE_BYTES = 32


class NotOurToken(Exception):
    """Not a token, or not one that was signed with this key."""


class SigningKey:
    """A private key on P-256, from its PEM form."""

    def __init__(self, pem: bytes) -> None:
        key = serialization.load_pem_private_key(pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ValueError("tokens are signed with a private key on the curve P-256")
        self._key = key
        self.public_key = key.public_key()
        self.key_id = _key_id(self.public_key)
        self._head = _encoded(msgspec.json.encode({"alg": "ES256", "kid": self.key_id}))

    def sign(self, claims: dict[str, Any]) -> str:
        """A token that says these claims."""
        message = self._head + b"." + _encoded(msgspec.json.encode(claims))
        r, s = decode_dss_signature(self._key.sign(message, _ALGORITHM))
        signature = r.to_bytes(_COORDINATE_BYTES) + s.to_bytes(_COORDINATE_BYTES)
        return (message + b"." + _encoded(signature)).decode()

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token that this key signed; raises NotOurToken. Says nothing about what they mean."""
        message, _, signature = token.rpartition(".")
        head, _, body = message.partition(".")
        try:
            # The head is the same for every token of ours, byte for byte: there is nothing in it to interpret.
            if head.encode() != self._head:
                raise NotOurToken
            raw = _decoded(signature)
            if len(raw) != 2 * _COORDINATE_BYTES:
                raise NotOurToken
            r, s = int.from_bytes(raw[:_COORDINATE_BYTES]), int.from_bytes(raw[_COORDINATE_BYTES:])
            self.public_key.verify(encode_dss_signature(r, s), message.encode(), _ALGORITHM)
            return msgspec.json.decode(_decoded(body), type=dict[str, Any])
        except (InvalidSignature, binascii.Error, UnicodeEncodeError, ValueError, msgspec.MsgspecError):
            raise NotOurToken from None


def _key_id(key: ec.EllipticCurvePublicKey) -> str:
    """Upstream's name for a key: the hash of its DER form."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _encoded(hashlib.sha256(der).digest()).decode()


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decoded(text: str) -> bytes:
    raw = text.encode("ascii")
    return base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
