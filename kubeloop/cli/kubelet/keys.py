# SPDX-License-Identifier: Apache-2.0
"""Keys and certificate requests of a kubelet.

Imported only when a certificate is requested, since the cryptography package takes longer to load than to use.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def new_request(node: str, hosts: Sequence[str] = ()) -> tuple[bytes, bytes]:
    """Return a new key and its certificate request, both as PEM; hosts are for serving certificates."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder(subject)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([*map(_host, hosts)]), critical=False)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def life_of(pem: bytes) -> tuple[datetime, datetime] | None:
    """Return the validity period of a certificate; None if it is not one."""
    try:
        found = x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None
    return found.not_valid_before_utc, found.not_valid_after_utc


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
