# SPDX-License-Identifier: Apache-2.0
"""Parses the part of a PKCS #10 request that signers evaluate and certify.

Imports the cryptography library, which is slow to load: import this module only when there is a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubeloop.api.validation.certificates.pem import pem_blocks

# The attributes of a subject that go into a certificate, in upstream's order; others are dropped.
_SUBJECT = (
    NameOID.COUNTRY_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.POSTAL_CODE,
)
_SINGLE = (NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER)  # the last of several values wins


class UnreadableRequest(ValueError):
    """Raised for data that is not a request, or that lacks a valid signature of its key."""


@dataclass(frozen=True)
class ParsedCsr:
    """Content of a request with a valid signature."""

    subject: x509.Name
    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...]
    emails: tuple[str, ...]
    addresses: tuple[Any, ...]
    uris: tuple[str, ...]
    public_key: Any


def parse_csr(pem: bytes) -> ParsedCsr:
    """Parse a PEM request; raises UnreadableRequest."""
    block = next(pem_blocks(pem), None)
    if block is None or block.type != "CERTIFICATE REQUEST":
        raise UnreadableRequest("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_der_x509_csr(block.content)
        signed, names = request.is_signature_valid, _alternatives(request)
        found = ParsedCsr(
            subject=_subject(request.subject),
            common_name=_last(_values(request.subject, NameOID.COMMON_NAME)),
            organizations=_values(request.subject, NameOID.ORGANIZATION_NAME),
            dns_names=_of(names, x509.DNSName),
            emails=_of(names, x509.RFC822Name),
            addresses=_of(names, x509.IPAddress),
            uris=_of(names, x509.UniformResourceIdentifier),
            public_key=request.public_key(),
        )
    except Exception as error:  # the library raises many kinds of errors for unreadable content
        raise UnreadableRequest(f"unable to parse certificate request: {error}") from None
    if not signed:
        raise UnreadableRequest("unable to verify certificate request signature")
    return found


def _alternatives(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _of(names: x509.SubjectAlternativeName | None, kind: Any) -> tuple[Any, ...]:
    return () if names is None else tuple(names.get_values_for_type(kind))


def _subject(asked: x509.Name) -> x509.Name:
    """Build the subject as upstream writes it: several values of an attribute form one set."""
    parts = [(oid, _values(asked, oid)) for oid in _SUBJECT]
    parts += [(oid, _values(asked, oid)[-1:]) for oid in _SINGLE]
    return x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(oid, value) for value in dict.fromkeys(values)])
            for oid, values in parts
            if values
        ]
    )


def _values(name: x509.Name, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
    return tuple(str(one.value) for one in name.get_attributes_for_oid(oid))


def _last(values: tuple[str, ...]) -> str:
    return values[-1] if values else ""
