# SPDX-License-Identifier: Apache-2.0
"""JSON Web Keys of an issuer, and signatures of compact JWTs: RSA (PKCS 1 and PSS) and ECDSA.

A general JOSE library would let a token choose its own verification; here the key's type must fit the algorithm.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

ALGORITHMS: Final = ("ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512")
_HASHES: Final[Mapping[str, hashes.HashAlgorithm]] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
_CURVES: Final[Mapping[str, tuple[ec.EllipticCurve, str, int]]] = {
    "P-256": (ec.SECP256R1(), "ES256", 32),
    "P-384": (ec.SECP384R1(), "ES384", 48),
    "P-521": (ec.SECP521R1(), "ES512", 66),
}
_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*")


class MalformedToken(ValueError):
    """Error for a text that is no compact JWT."""


class IssuerKey(NamedTuple):
    """Public key of an issuer."""

    key_id: str
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey

    def verifies(self, token: ParsedToken) -> bool:
        """Return True if the key signed the token."""
        digest = _HASHES.get(token.algorithm[2:])
        if digest is None or token.algorithm not in ALGORITHMS:
            return False
        try:
            if isinstance(self.key, rsa.RSAPublicKey):
                return _verify_rsa(self.key, token, digest)
            return _verify_ecdsa(self.key, token, digest)
        except InvalidSignature:
            return False


class _Header(msgspec.Struct):
    alg: str = ""
    kid: str = ""
    crit: tuple[str, ...] | None = None


class ParsedToken(NamedTuple):
    """Compact JWT, decoded but not verified."""

    algorithm: str
    key_id: str
    message: bytes
    signature: bytes
    claims: dict[str, Any]


def parse_token(token: str) -> ParsedToken:
    """Decode a compact JWT; raises MalformedToken."""
    parts = token.split(".")
    if len(parts) != 3:
        raise MalformedToken("oidc: malformed jwt")
    try:
        header = msgspec.json.decode(decode_base64url(parts[0]), type=_Header)
        claims = msgspec.json.decode(decode_base64url(parts[1]), type=dict[str, Any])
        signature = decode_base64url(parts[2])
    except (ValueError, msgspec.MsgspecError) as error:
        raise MalformedToken(f"oidc: malformed jwt: {error}") from None
    if header.crit:
        raise MalformedToken("oidc: malformed jwt: unsupported crit header")
    return ParsedToken(header.alg, header.kid, f"{parts[0]}.{parts[1]}".encode(), signature, claims)


def parse_key_set(document: Any) -> list[IssuerKey]:
    """Return the usable keys of a JSON Web Key Set; raises ValueError if it is none."""
    if not isinstance(document, dict) or not isinstance(document.get("keys", []), list):
        raise ValueError("it is no JSON Web Key Set")
    found = (_key_of(one) for one in document.get("keys", []) if isinstance(one, dict))
    return [one for one in found if one is not None]


def matching_keys(keys: Sequence[IssuerKey], key_id: str) -> list[IssuerKey]:
    """Return the keys with an ID; all keys if the token names none."""
    return [one for one in keys if not key_id or one.key_id == key_id]


def decode_base64url(text: str) -> bytes:
    """Decode base64url without padding; raises ValueError for any other form."""
    if _BASE64.fullmatch(text) is None:
        raise ValueError("illegal base64 data")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError(f"illegal base64 data: {error}") from None


def _verify_rsa(key: rsa.RSAPublicKey, token: ParsedToken, digest: hashes.HashAlgorithm) -> bool:
    scheme: padding.AsymmetricPadding
    if token.algorithm.startswith("RS"):
        scheme = padding.PKCS1v15()
    elif token.algorithm.startswith("PS"):
        scheme = padding.PSS(padding.MGF1(digest), padding.PSS.AUTO)
    else:
        return False
    key.verify(token.signature, token.message, scheme, digest)
    return True


def _verify_ecdsa(key: ec.EllipticCurvePublicKey, token: ParsedToken, digest: hashes.HashAlgorithm) -> bool:
    for curve, algorithm, size in _CURVES.values():
        if key.curve.name == curve.name and token.algorithm == algorithm and len(token.signature) == 2 * size:
            r, s = int.from_bytes(token.signature[:size]), int.from_bytes(token.signature[size:])
            key.verify(encode_dss_signature(r, s), token.message, ec.ECDSA(digest))
            return True
    return False


def _key_of(jwk: Mapping[str, Any]) -> IssuerKey | None:
    """Return the key of a JWK; None for other types, which tokens may not be signed with."""
    key_id = str(jwk.get("kid") or "")
    try:
        if jwk.get("kty") == "RSA":
            return IssuerKey(key_id, rsa.RSAPublicNumbers(_integer(jwk["e"]), _integer(jwk["n"])).public_key())
        if jwk.get("kty") == "EC" and jwk.get("crv") in _CURVES:
            curve = _CURVES[jwk["crv"]][0]
            point = ec.EllipticCurvePublicNumbers(_integer(jwk["x"]), _integer(jwk["y"]), curve)
            return IssuerKey(key_id, point.public_key())
    except (ValueError, KeyError, TypeError):
        return None
    return None


def _integer(text: str) -> int:
    return int.from_bytes(decode_base64url(text))
