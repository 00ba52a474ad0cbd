# SPDX-License-Identifier: Apache-2.0
"""Keys of pod certificates. Imported only for such a volume: the cryptography package takes long to load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

_Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
_Hash = hashes.SHA256 | hashes.SHA384 | hashes.SHA512
_KEYS: Final[dict[str, tuple[Callable[[], _Key], type[_Hash] | None]]] = {
    "RSA3072": (lambda: rsa.generate_private_key(65537, 3072), hashes.SHA256),
    "RSA4096": (lambda: rsa.generate_private_key(65537, 4096), hashes.SHA256),
    "ECDSAP256": (lambda: ec.generate_private_key(ec.SECP256R1()), hashes.SHA256),
    "ECDSAP384": (lambda: ec.generate_private_key(ec.SECP384R1()), hashes.SHA384),
    "ECDSAP521": (lambda: ec.generate_private_key(ec.SECP521R1()), hashes.SHA512),
    "ED25519": (ed25519.Ed25519PrivateKey.generate, None),
}


def new_key_and_request(kind: str) -> tuple[bytes, bytes]:
    """Return a new key as PEM, and an empty PKCS#10 request as DER that proves its possession. Raises ValueError."""
    if kind not in _KEYS:
        raise ValueError(f'unknown key type "{kind}"')
    generate, digest = _KEYS[kind]
    key = generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    request = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, digest() if digest is not None else None)
    return private, request.public_bytes(serialization.Encoding.DER)
