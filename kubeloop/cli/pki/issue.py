# SPDX-License-Identifier: Apache-2.0
"""Issues keys and certificates: computes the files needed from the files found.

Imported only when something has to be created, since the cryptography package takes longer to load than to use.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubeloop.cli.pki.files import KUBELET_CLIENT_USER

Key: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

_CA_LIFE = timedelta(days=3650)
_LEAF_LIFE = timedelta(days=365)
# A certificate is renewed at a start in the last quarter of its life; a clock that is a little behind sees it as valid.
_RENEW_BEFORE = timedelta(days=90)
_CLOCK_SKEW = timedelta(hours=1)  # clocks that are behind, or are set back, see certificates as valid all the same

# User and group of each client certificate, by file: a person, and this server where it calls kubelets.
_CLIENTS = {
    "admin": ("kubernetes-admin", "system:masters"),
    "apiserver-kubelet-client": (KUBELET_CLIENT_USER, ""),
}


class UnusableFile(ValueError):
    """File with unexpected content."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


@dataclass(frozen=True, slots=True)
class IssuedFiles:
    """Contents by file name, and the earliest renewal time."""

    files: dict[str, bytes]
    renew_after: datetime


@dataclass(frozen=True, slots=True)
class _Authority:
    key: Key
    certificate: x509.Certificate
    now: datetime


def issue_missing(found: Mapping[str, bytes], names: Sequence[str], now: datetime) -> IssuedFiles:
    """Keep valid files; replace those missing, expiring, for other hosts or from another CA."""
    authority = _authority(found, "ca", "kubernetes", now)
    ca_key, ca = authority.key, authority.certificate
    serving_key, sa_key = _key_of(found, "apiserver.key"), _key_of(found, "sa.key")
    serving = _certificate_of(found, "apiserver.crt")
    if serving is None or not _is_good(serving, serving_key, authority) or not set(names) <= _names_of(serving):
        serving = _serving(serving_key, authority, names)
    proxy_keys, proxy_certificates = _front_proxy(found, now)
    keys = {"ca.key": ca_key, "apiserver.key": serving_key, "sa.key": sa_key} | proxy_keys
    certificates = {"ca.crt": ca, "apiserver.crt": serving} | proxy_certificates
    for file, (user, group) in _CLIENTS.items():
        keys[f"{file}.key"], certificates[f"{file}.crt"] = _client(found, file, _subject(user, group), authority)
    files = {name: found.get(name) or _private_pem(key) for name, key in keys.items()}
    files |= {name: one.public_bytes(serialization.Encoding.PEM) for name, one in certificates.items()}
    files["sa.pub"] = _public_pem(sa_key)
    return IssuedFiles(files, min(one.not_valid_after_utc for one in certificates.values()) - _RENEW_BEFORE)


def _authority(found: Mapping[str, bytes], file: str, name: str, now: datetime) -> _Authority:
    key, certificate = _key_of(found, f"{file}.key"), _certificate_of(found, f"{file}.crt")
    if certificate is None or certificate.public_key() != key.public_key() or _expires_soon(certificate, now):
        certificate = _self_signed(key, name, now)
    return _Authority(key, certificate, now)


def _front_proxy(found: Mapping[str, bytes], now: datetime) -> tuple[dict[str, Key], dict[str, x509.Certificate]]:
    """Issue the front proxy CA and client certificate; only this CA's certificates may assert user names."""
    authority = _authority(found, "front-proxy-ca", "front-proxy-ca", now)
    key, certificate = _key_of(found, "front-proxy-client.key"), _certificate_of(found, "front-proxy-client.crt")
    if certificate is None or not _is_good(certificate, key, authority):
        builder = _leaf(_subject("front-proxy-client"), key, authority, ExtendedKeyUsageOID.CLIENT_AUTH)
        certificate = builder.sign(authority.key, hashes.SHA256())
    keys = {"front-proxy-ca.key": authority.key, "front-proxy-client.key": key}
    return keys, {"front-proxy-ca.crt": authority.certificate, "front-proxy-client.crt": certificate}


def _key_of(found: Mapping[str, bytes], name: str) -> Key:
    if name not in found:
        return ec.generate_private_key(ec.SECP256R1())
    try:
        key = serialization.load_pem_private_key(found[name], password=None)
    except (ValueError, TypeError):
        raise UnusableFile(name, "contains no usable private key") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise UnusableFile(name, "contains a key that is neither ECDSA nor RSA")
    return key


def _certificate_of(found: Mapping[str, bytes], name: str) -> x509.Certificate | None:
    if name not in found:
        return None
    try:
        return x509.load_pem_x509_certificate(found[name])
    except ValueError:
        raise UnusableFile(name, "contains no usable certificate") from None


def _expires_soon(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_after_utc - _RENEW_BEFORE <= now


def _is_good(certificate: x509.Certificate, key: Key, authority: _Authority) -> bool:
    if certificate.public_key() != key.public_key() or _expires_soon(certificate, authority.now):
        return False
    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return _authority_identifier_of(certificate) == _identifier_of(authority.certificate)


def _identifier_of(certificate: x509.Certificate) -> bytes | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    except x509.ExtensionNotFound:
        return None


def _authority_identifier_of(certificate: x509.Certificate) -> bytes | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    except x509.ExtensionNotFound:
        return None


def _names_of(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in found}


def _self_signed(key: Key, name: str, now: datetime) -> x509.Certificate:
    subject = _subject(name)
    builder = _builder(subject, subject, key, now, _CA_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return builder.sign(key, hashes.SHA256())


def _serving(key: Key, authority: _Authority, names: Sequence[str]) -> x509.Certificate:
    builder = _leaf(_subject("kube-apiserver"), key, authority, ExtendedKeyUsageOID.SERVER_AUTH)
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    return builder.add_extension(alternatives, critical=False).sign(authority.key, hashes.SHA256())


def _client(
    found: Mapping[str, bytes], file: str, subject: x509.Name, authority: _Authority
) -> tuple[Key, x509.Certificate]:
    """Issue a client certificate."""
    key, certificate = _key_of(found, f"{file}.key"), _certificate_of(found, f"{file}.crt")
    if certificate is None or certificate.subject != subject or not _is_good(certificate, key, authority):
        builder = _leaf(subject, key, authority, ExtendedKeyUsageOID.CLIENT_AUTH)
        certificate = builder.sign(authority.key, hashes.SHA256())
    return key, certificate


def _leaf(subject: x509.Name, key: Key, authority: _Authority, use: x509.ObjectIdentifier) -> x509.CertificateBuilder:
    builder = _builder(subject, authority.certificate.subject, key, authority.now, _LEAF_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    identifier = _identifier_of(authority.certificate)
    if identifier is not None:  # as Go does; clients that follow RFC 5280 to the letter insist on it
        builder = builder.add_extension(x509.AuthorityKeyIdentifier(identifier, None, None), critical=False)
    return builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - _CLOCK_SKEW).not_valid_after(now + life)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.add_extension(identifier, critical=False)


def _subject(common_name: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not signs_certificates,
        key_cert_sign=signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _private_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_pem(key: Key) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
