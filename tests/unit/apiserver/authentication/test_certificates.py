"""Who a client certificate names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.apiserver.authentication.certificates import user_of_certificate

KEY = ec.generate_private_key(ec.SECP256R1())
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


def certificate(*parts: tuple[x509.ObjectIdentifier, str]) -> bytes:
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])
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


def test_the_common_name_is_the_user_and_the_organizations_are_the_groups():
    der = certificate(
        (NameOID.ORGANIZATION_NAME, "devs"), (NameOID.ORGANIZATION_NAME, "ops"), (NameOID.COMMON_NAME, "bob")
    )
    user = user_of_certificate(der)
    assert user is not None
    assert (user.name, user.groups, user.uid) == ("bob", ("devs", "ops", "system:authenticated"), "")


def test_the_certificate_itself_is_told_by_its_digest():
    der = certificate((NameOID.COMMON_NAME, "bob"))
    digest = hashes.Hash(hashes.SHA256())
    digest.update(der)
    user = user_of_certificate(der)
    assert user is not None
    expected = f"X509SHA256={digest.finalize().hex()}"
    assert user.extra == (("authentication.kubernetes.io/credential-id", (expected,)),)


def test_a_uid_has_a_part_of_its_own():
    user = user_of_certificate(certificate((NameOID.COMMON_NAME, "bob"), (UID, "seven")))
    assert user is not None
    assert user.uid == "seven"


@pytest.mark.parametrize("parts", [(), ((NameOID.ORGANIZATION_NAME, "system:masters"),)])
def test_a_certificate_without_a_name_names_nobody(parts):
    assert user_of_certificate(certificate(*parts)) is None


# A name in a certificate has 64 bytes at most, and a character up to four of them.
_text = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=16)


@settings(max_examples=30, deadline=None)
@given(_text, st.lists(_text, max_size=3))
def test_any_text_is_read_as_the_library_reads_it(name, groups):
    der = certificate((NameOID.COMMON_NAME, name), *((NameOID.ORGANIZATION_NAME, one) for one in groups))
    user = user_of_certificate(der)
    assert user is not None
    assert (user.name, user.groups[:-1]) == (name, tuple(groups))
