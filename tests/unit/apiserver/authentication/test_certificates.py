# SPDX-License-Identifier: Apache-2.0
"""Tests of the users of client certificates."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.apiserver.authentication.certificates import user_of_certificate
from tests.bounds import GIVE_UP_SECONDS

KEY = ec.generate_private_key(ec.SECP256R1())
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


def certificate(*parts: tuple[x509.ObjectIdentifier, str]) -> bytes:
    return certificate_of(x509.Name([x509.NameAttribute(kind, value) for kind, value in parts]))


def certificate_of(subject: x509.Name) -> bytes:
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the issuer")]))
        .public_key(KEY.public_key())
        .serial_number(2**150)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2027, 1, 1, tzinfo=UTC))
        .sign(KEY, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.DER)


def test_common_name_is_the_user_and_organizations_are_groups():
    der = certificate(
        (NameOID.ORGANIZATION_NAME, "devs"), (NameOID.ORGANIZATION_NAME, "ops"), (NameOID.COMMON_NAME, "bob")
    )
    user = user_of_certificate(der)
    assert user is not None
    assert (user.name, user.groups, user.uid) == ("bob", ("devs", "ops", "system:authenticated"), "")


def test_certificate_digest_is_the_credential_id():
    der = certificate((NameOID.COMMON_NAME, "bob"))
    digest = hashes.Hash(hashes.SHA256())
    digest.update(der)
    user = user_of_certificate(der)
    assert user is not None
    expected = f"X509SHA256={digest.finalize().hex()}"
    assert user.extra == (("authentication.kubernetes.io/credential-id", (expected,)),)


def test_uid_has_its_own_attribute():
    user = user_of_certificate(certificate((NameOID.COMMON_NAME, "bob"), (UID, "seven")))
    assert user is not None
    assert user.uid == "seven"


@pytest.mark.parametrize("parts", [(), ((NameOID.ORGANIZATION_NAME, "system:masters"),)])
def test_certificate_without_a_name_authenticates_no_user(parts):
    assert user_of_certificate(certificate(*parts)) is None


def names_of(der: bytes) -> tuple[str, tuple[str, ...]] | None:
    user = user_of_certificate(der)
    return None if user is None else (user.name, user.groups[:-1])


def test_the_last_common_name_counts_and_groups_keep_their_order():
    der = certificate(
        (NameOID.COMMON_NAME, "first"),
        (NameOID.ORGANIZATION_NAME, "z"),
        (NameOID.COMMON_NAME, "last"),
        (NameOID.ORGANIZATION_NAME, "a"),
    )
    assert names_of(der) == ("last", ("z", "a"))


def test_all_attributes_of_a_relative_name_count():
    def part(kind: x509.ObjectIdentifier, *values: str) -> x509.RelativeDistinguishedName:
        return x509.RelativeDistinguishedName([x509.NameAttribute(kind, value) for value in values])

    subject = x509.Name([part(NameOID.ORGANIZATION_NAME, "a", "b"), part(NameOID.COMMON_NAME, "bob")])
    assert names_of(certificate_of(subject)) == ("bob", ("a", "b"))


def test_two_uids_authenticate_no_user():
    assert names_of(certificate((NameOID.COMMON_NAME, "bob"), (UID, "7"), (UID, "8"))) is None


@pytest.mark.parametrize(
    "tag",
    [
        pytest.param(0x0C, id="UTF8String"),
        pytest.param(0x13, id="PrintableString"),
        pytest.param(0x14, id="T61String"),
        pytest.param(0x16, id="IA5String"),
        pytest.param(0x1A, id="VisibleString"),
    ],
)
def test_strings_of_other_types_are_read(tag):
    assert names_of(with_common_name(bytes((tag, 3)) + b"bob")) == ("bob", ("devs",))


@pytest.mark.parametrize(("tag", "encoding"), [(0x1E, "utf-16-be"), (0x1C, "utf-32-be")])
def test_wide_strings_are_read(tag, encoding):
    text = "bö€"
    value = text.encode(encoding)
    der = with_common_name(bytes((tag, len(value))) + value)
    assert names_of(der) == (text, ("devs",))


def with_common_name(encoded: bytes) -> bytes:
    """Return a certificate with this common name element; its signature is not checked."""
    placeholder = "?" * (len(encoded) - 2)
    der = certificate((NameOID.ORGANIZATION_NAME, "devs"), (NameOID.COMMON_NAME, placeholder))
    before = b"\x0c" + bytes((len(placeholder),)) + placeholder.encode()
    assert der.count(before) == 1
    return der.replace(before, encoded)


@pytest.mark.parametrize(
    "der",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x30\x03abc", id="no certificate"),
        pytest.param(with_common_name(b"\x0c\x03b\xf6b"), id="no UTF-8"),
        pytest.param(with_common_name(b"\x02\x03bob"), id="an integer"),
        pytest.param(with_common_name(b"\x03\x03\x00ob"), id="a bit string"),
    ],
)
def test_malformed_certificate_authenticates_no_user(der):
    assert user_of_certificate(der) is None


def test_a_name_longer_than_the_standard_allows_is_read_without_a_warning():
    with pytest.warns(UserWarning, match="<= 64"):
        long = x509.NameAttribute(NameOID.COMMON_NAME, "x" * 65, _validate=False)
    assert names_of(certificate_of(x509.Name([long]))) == ("x" * 65, ())


def test_cryptography_is_loaded_with_the_first_certificate_only():
    program = (
        "import sys, kubeloop.apiserver.server\n"
        "from kubeloop.apiserver.authentication import user_of_certificate\n"
        "assert 'cryptography' not in sys.modules\n"
        "user_of_certificate(b'')\n"
        "assert 'cryptography' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=GIVE_UP_SECONDS)


# A name in a certificate has 64 bytes at most, and a character up to four of them.
_text = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=16)


@settings(max_examples=30, deadline=None)
@given(_text, st.lists(_text, max_size=3))
def test_any_text_is_read_as_the_library_reads_it(name, groups):
    der = certificate((NameOID.COMMON_NAME, name), *((NameOID.ORGANIZATION_NAME, one) for one in groups))
    user = user_of_certificate(der)
    assert user is not None
    assert (user.name, user.groups[:-1]) == (name, tuple(groups))
