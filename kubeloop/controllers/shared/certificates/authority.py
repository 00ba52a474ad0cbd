# SPDX-License-Identifier: Apache-2.0
"""Certificate authority: signs with a certificate and a key that are read again when their files change.

Imports the cryptography library, which is slow to load: import this module only when there is something to sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from kubeloop.controllers.shared.certificates.csr import ParsedCsr

BACKDATE: Final = timedelta(minutes=5)  # so that hosts whose clocks lag accept the certificate
SHORT_DURATION: Final = timedelta(hours=8)  # shorter certificates end exactly when requested, despite the backdating

# Bits of a certificate's key usage.
_KEY_USAGES = {
    "signing": 0, "digital signature": 0, "content commitment": 1, "key encipherment": 2, "data encipherment": 3,
    "key agreement": 4, "cert sign": 5, "crl sign": 6, "encipher only": 7, "decipher only": 8,
}  # fmt: skip
# In the order in which upstream writes them.
_PURPOSES = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": x509.ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": x509.ObjectIdentifier("2.16.840.1.113730.4.1"),
}


class SigningError(Exception):
    """Raised if the authority is unusable or must not sign the request."""


class KeyPair(NamedTuple):
    """Certificate and key read from the two files."""

    certificate: x509.Certificate
    key: Any


@dataclass(frozen=True, slots=True)
class ValidityPeriod:
    """Validity period of a certificate."""

    begin: datetime
    end: datetime


class CertificateAuthority:
    """Signs with the current content of the two files."""

    def __init__(self, certificate: str, key: str) -> None:
        self._files = (Path(certificate), Path(key))
        self._seen: tuple[tuple[int, int], ...] = ()
        self._pair: KeyPair | None = None

    def sign(self, asked: ParsedCsr, usages: Sequence[str], life: timedelta, now: datetime) -> bytes:
        """Sign a certificate and return it as PEM; raises CannotSign."""
        authority = self._current()
        term = validity_period(life, now, authority.certificate.not_valid_after_utc)
        builder = x509.CertificateBuilder(
            issuer_name=authority.certificate.subject,
            subject_name=asked.subject,
            public_key=asked.public_key,
            serial_number=x509.random_serial_number(),
            not_valid_before=term.begin,
            not_valid_after=term.end,
        )
        for extension, critical in _extensions(asked, usages, authority.certificate):
            builder = builder.add_extension(extension, critical)
        signed = builder.sign(authority.key, _digest_of(authority.key))
        return signed.public_bytes(serialization.Encoding.PEM)

    def _current(self) -> KeyPair:
        try:
            seen = tuple((found.st_mtime_ns, found.st_size) for found in (file.stat() for file in self._files))
            if self._pair is None or seen != self._seen:
                self._pair, self._seen = _read(*self._files), seen
        except OSError as error:
            raise SigningError(f"unable to read the certificate authority: {error}") from None
        return self._pair


def validity_period(life: timedelta, now: datetime, authority_ends: datetime) -> ValidityPeriod:
    """Compute the validity period of a certificate, which never exceeds that of its signer."""
    if now - BACKDATE >= authority_ends:
        raise SigningError(f"the signer has expired: NotAfter={authority_ends}")
    if now >= authority_ends:
        raise SigningError(f"refusing to sign a certificate that expired in the past: NotAfter={authority_ends}")
    end = now + life if life < SHORT_DURATION else now + life - BACKDATE
    return ValidityPeriod(now - BACKDATE, min(end, authority_ends))


def _read(certificate: Path, key: Path) -> KeyPair:
    try:
        found = x509.load_pem_x509_certificates(certificate.read_bytes())
        pair = KeyPair(found[0], serialization.load_pem_private_key(key.read_bytes(), None))
    except (ValueError, TypeError) as error:
        raise SigningError(f"{certificate} and {key} contain no usable certificate and key: {error}") from None
    if len(found) != 1:
        raise SigningError(f"{certificate} must contain one certificate, but contains {len(found)}")
    if pair.certificate.public_key() != pair.key.public_key():
        raise SigningError(f"{key} does not match {certificate}")  # maybe only one file has been replaced so far
    return pair


def _extensions(
    asked: ParsedCsr, usages: Sequence[str], authority: x509.Certificate
) -> Iterator[tuple[x509.ExtensionType, bool]]:
    unknown = [one for one in usages if one not in _KEY_USAGES and one not in _PURPOSES]
    if unknown:
        raise SigningError(f"unrecognized usage values: {unknown}")
    bits = {_KEY_USAGES[one] for one in usages if one in _KEY_USAGES}
    if bits:
        yield x509.UnrecognizedExtension(ExtensionOID.KEY_USAGE, _bit_string(bits)), True
    purposes = dict.fromkeys(oid for name, oid in _PURPOSES.items() if name in usages)
    if purposes:
        yield x509.ExtendedKeyUsage(purposes), False
    yield x509.BasicConstraints(ca=False, path_length=None), True
    identifier = _identifier_of(authority)
    if identifier is not None:
        yield x509.AuthorityKeyIdentifier(identifier, None, None), False
    names = list(_names(asked))
    if names:
        yield x509.SubjectAlternativeName(names), not asked.subject.rdns


def _names(asked: ParsedCsr) -> Iterator[x509.GeneralName]:
    yield from map(x509.DNSName, asked.dns_names)
    yield from map(x509.RFC822Name, asked.emails)
    yield from map(x509.IPAddress, asked.addresses)
    yield from map(x509.UniformResourceIdentifier, asked.uris)


def _identifier_of(authority: x509.Certificate) -> bytes | None:
    try:
        return authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    except x509.ExtensionNotFound:
        return None


def _bit_string(bits: Iterable[int]) -> bytes:
    """Encode bits as a DER bit string, since the library refuses combinations that upstream signs."""
    bits = set(bits)
    octets = bytearray(max(bits) // 8 + 1)
    for bit in bits:
        octets[bit // 8] |= 0x80 >> bit % 8
    unused = 7 - max(bits) % 8
    return bytes((0x03, len(octets) + 1, unused, *octets))


def _digest_of(key: Any) -> Any:
    """Choose the digest: matching the curve of an EC key, none for Ed25519 and Ed448, otherwise SHA-256."""
    if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey):
        return None
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return {384: hashes.SHA384(), 521: hashes.SHA512()}.get(key.curve.key_size, hashes.SHA256())
    return hashes.SHA256()
