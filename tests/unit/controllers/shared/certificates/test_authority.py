# SPDX-License-Identifier: Apache-2.0
"""Tests of issued certificates: the requested subject, names, usages and validity, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from kubeloop.controllers.shared.certificates.authority import CertificateAuthority, SigningError, validity_period
from kubeloop.controllers.shared.certificates.csr import UnreadableRequest, parse_csr
from tests.controllers.certificate_requests import KEY, authority_in, pem_request

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
YEAR = timedelta(days=365)
HOUR = timedelta(hours=1)


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(*authority_in(tmp_path, NOW))


def signed(authority: CertificateAuthority, request: bytes, *usages: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.sign(parse_csr(request), usages, HOUR, NOW))


@pytest.mark.parametrize(
    ("life", "ends", "begin", "end"),
    [
        (HOUR, NOW + YEAR, -5, 60),
        (timedelta(hours=8), NOW + YEAR, -5, 8 * 60 - 5),
        (timedelta(days=1), NOW + HOUR, -5, 60),
        (timedelta(minutes=1), NOW + YEAR, -5, 1),
    ],
    ids=["short", "long", "longer than the authority", "very short"],
)
def test_validity_is_backdated_and_ends_with_the_ca(life: timedelta, ends: datetime, begin: int, end: int) -> None:
    term = validity_period(life, NOW, ends)
    assert (term.begin - NOW, term.end - NOW) == (timedelta(minutes=begin), timedelta(minutes=end))


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (NOW - HOUR, "the signer has expired"),
        (NOW - timedelta(minutes=5), "the signer has expired"),
        (NOW, "refusing to sign a certificate that expired in the past"),
    ],
)
def test_expired_ca_signs_nothing(ends: datetime, why: str) -> None:
    with pytest.raises(SigningError, match=why):
        validity_period(HOUR, NOW, ends)


def test_usages_are_encoded_in_a_fixed_order(authority: CertificateAuthority) -> None:
    made = signed(authority, pem_request(), "ocsp signing", "crl sign", "client auth", "s/mime", "email protection")
    usage = made.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.crl_sign
    assert not any((usage.digital_signature, usage.key_cert_sign, usage.key_agreement))
    purposes = [one.dotted_string for one in made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value]
    assert purposes == ["1.3.6.1.5.5.7.3.2", "1.3.6.1.5.5.7.3.4", "1.3.6.1.5.5.7.3.9"]


def test_last_usage_takes_a_second_octet(authority: CertificateAuthority) -> None:
    made = signed(authority, pem_request(), "key agreement", "decipher only")
    usage = made.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.key_agreement
    assert usage.decipher_only


def test_no_usages_are_certified_without_request(authority: CertificateAuthority) -> None:
    made = signed(authority, pem_request())
    kinds = {type(one.value) for one in made.extensions}
    assert kinds == {x509.BasicConstraints, x509.AuthorityKeyIdentifier}


def test_unknown_usages_are_rejected(authority: CertificateAuthority) -> None:
    with pytest.raises(SigningError, match="unrecognized usage values"):
        signed(authority, pem_request(), "flying")


def test_subject_is_encoded_in_a_fixed_order_without_unknown_attributes(authority: CertificateAuthority) -> None:
    asked = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "first"),
            x509.NameAttribute(NameOID.USER_ID, "dropped"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "b"),
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "a"),
            x509.NameAttribute(NameOID.COMMON_NAME, "last"),
        ]
    )
    request = x509.CertificateSigningRequestBuilder(asked).sign(KEY, hashes.SHA256())
    made = signed(authority, request.public_bytes(serialization.Encoding.PEM))
    told = [sorted(str(one.value) for one in part) for part in made.subject.rdns]
    assert told == [["DE"], ["a", "b"], ["last"]]


def test_alternative_names_without_subject_are_critical(authority: CertificateAuthority) -> None:
    made = signed(authority, pem_request(name="", alternatives=[x509.DNSName("a.example")]))
    assert made.extensions.get_extension_for_class(x509.SubjectAlternativeName).critical


def test_requested_extensions_are_not_certified(authority: CertificateAuthority) -> None:
    builder = x509.CertificateSigningRequestBuilder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "evil")]))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    made = signed(authority, builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    assert made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


@pytest.mark.parametrize(
    "request_",
    [b"", b"nonsense", pem_request().replace(b" REQUEST", b""), b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"
     b"-----END CERTIFICATE REQUEST-----\n"],
    ids=["nothing", "no PEM", "something else", "no request"],
)  # fmt: skip
def test_invalid_request_is_rejected(request_: bytes) -> None:
    with pytest.raises(UnreadableRequest):
        parse_csr(request_)


def test_files_are_reloaded_when_changed(tmp_path: Path) -> None:
    authority = CertificateAuthority(*authority_in(tmp_path, NOW))
    first = signed(authority, pem_request())
    authority_in(tmp_path, NOW)
    replaced = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    second = signed(authority, pem_request())
    second.verify_directly_issued_by(replaced)
    assert first.serial_number != second.serial_number


def test_mismatched_key_signs_nothing(tmp_path: Path) -> None:
    certificate, _ = authority_in(tmp_path / "one", NOW)
    _, key = authority_in(tmp_path / "two", NOW)
    with pytest.raises(SigningError, match="does not match"):
        signed(CertificateAuthority(certificate, key), pem_request())


def test_missing_files_sign_nothing(tmp_path: Path) -> None:
    with pytest.raises(SigningError, match="unable to read"):
        signed(CertificateAuthority(str(tmp_path / "a"), str(tmp_path / "b")), pem_request())
