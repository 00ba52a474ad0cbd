# SPDX-License-Identifier: Apache-2.0
"""Self-signed certificate of a port, as upstream's components create when they are given none."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kubeloop.cli.program.files import exclusive_lock, write_private, write_public

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

_LIFE = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=90)
_CLOCK_SKEW = timedelta(hours=1)  # clocks that are behind, or are set back, see certificates as valid all the same


def ensure_self_signed(folder: Path, name: str, hosts: Sequence[str], now: datetime) -> tuple[Path, Path]:
    """Ensure a certificate and its key; both are created if missing, expiring, for other hosts or not a pair.

    Programs that start at the same time with the same folder agree on one pair: a lock lets one of them create it.
    """
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    if not _is_good(certificate, key, hosts, now):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with exclusive_lock(folder / f".{name}.lock"):
            if not _is_good(certificate, key, hosts, now):
                made, made_key = _make(name, hosts, now)
                write_private(key, made_key)
                write_public(certificate, made)
    return certificate, key


def _is_good(certificate: Path, key: Path, hosts: Sequence[str], now: datetime) -> bool:
    if not (certificate.exists() and key.exists()):
        return False
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        private = load_pem_private_key(key.read_bytes(), None)
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return False
    if found.public_key() != private.public_key():
        return False
    return found.not_valid_after_utc - _RENEW_BEFORE > now and set(hosts) <= {str(one.value) for one in names}


def _make(name: str, hosts: Sequence[str], now: datetime) -> tuple[bytes, bytes]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - _CLOCK_SKEW).not_valid_after(now + _LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([*map(_host, hosts)]), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    made = builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), private


def _host(name: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
