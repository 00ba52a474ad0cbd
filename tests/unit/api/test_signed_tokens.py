# SPDX-License-Identifier: Apache-2.0
"""Signed tokens: what we sign is recognized, and nothing else is."""

from __future__ import annotations

import base64
import json
import os
from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.signed_tokens import InvalidToken, SigningKey, read_public_keys, verify

CLAIMS = {"sub": "me", "aud": ["a", "b"], "exp": 12}


def pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


KEY = SigningKey(pem(ec.generate_private_key(ec.SECP256R1())))
OTHER = SigningKey(pem(ec.generate_private_key(ec.SECP256R1())))
KEYS = (KEY.public,)
TOKEN = KEY.sign(CLAIMS)


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_signed_token_is_verified():
    assert verify(TOKEN, KEYS) == CLAIMS


def test_token_is_a_standard_jwt():
    head, body, signature = TOKEN.split(".")
    assert json.loads(decoded(head)) == {"alg": "ES256", "kid": KEY.public.key_id}
    assert json.loads(decoded(body)) == CLAIMS
    raw = decoded(signature)
    r, s = int.from_bytes(raw[:32]), int.from_bytes(raw[32:])
    KEY.public.key.verify(encode_dss_signature(r, s), f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))


def test_another_key_gives_another_signature():
    with pytest.raises(InvalidToken):
        verify(OTHER.sign(CLAIMS), KEYS)


def test_signature_of_another_key_is_rejected():
    foreign = OTHER.sign(CLAIMS).split(".")
    with pytest.raises(InvalidToken):
        verify(".".join([TOKEN.split(".")[0], *foreign[1:]]), KEYS)


def test_token_cannot_choose_the_algorithm():
    _, body, _ = TOKEN.split(".")
    for head in ({"alg": "none"}, {"alg": "HS256", "kid": KEY.public.key_id}, {"alg": "ES256"}):
        forged = encoded(json.dumps(head).encode())
        for signature in ("", encoded(b"\0" * 64)):
            with pytest.raises(InvalidToken):
                verify(f"{forged}.{body}.{signature}", KEYS)


@given(st.integers(0, len(TOKEN) - 2), st.characters(max_codepoint=0x2FF))
@settings(max_examples=150, deadline=None)
def test_any_modified_character_invalidates_a_token(position, character):
    # The last character holds two bits that no byte uses, so it is left alone.
    changed = TOKEN[:position] + character + TOKEN[position + 1 :]
    if changed != TOKEN:
        with pytest.raises(InvalidToken):
            verify(changed, KEYS)


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_arbitrary_text_is_not_a_token(text):
    with pytest.raises(InvalidToken):
        verify(text, KEYS)


PRIVATE = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
}


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_the_key_decides_the_algorithm(algorithm):
    key = SigningKey(pem(PRIVATE[algorithm]))
    token = key.sign(CLAIMS)
    assert json.loads(decoded(token.split(".")[0]))["alg"] == algorithm
    assert verify(token, (KEY.public, key.public)) == CLAIMS
    described = key.public.to_jwk()
    assert (described["alg"], described["kty"]) == (algorithm, "RSA" if algorithm == "RS256" else "EC")
    with pytest.raises(InvalidToken):
        verify(token, KEYS)


def test_published_keys_are_readable_by_other_libraries():
    described = SigningKey(pem(PRIVATE["RS256"])).public.to_jwk()
    numbers = PRIVATE["RS256"].public_key().public_numbers()
    assert int.from_bytes(decoded(described["n"])) == numbers.n
    assert int.from_bytes(decoded(described["e"])) == numbers.e


def certificate_of(key):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer of tokens")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    day = datetime(2026, 1, 1)
    return (
        builder.not_valid_before(day)
        .not_valid_after(day + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def test_key_file_may_contain_all_formats():
    public = PRIVATE["ES384"].public_key()
    form = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    keys = read_public_keys(pem(PRIVATE["RS256"]) + form + certificate_of(PRIVATE["ES256"]))
    assert [key.scheme.algorithm for key in keys] == ["RS256", "ES384", "ES256"]
    with pytest.raises(ValueError, match="any valid RSA or ECDSA public keys"):
        read_public_keys(b"nothing")


@pytest.mark.parametrize("key", [ec.generate_private_key(ec.SECP256K1()), ed25519.Ed25519PrivateKey.generate()])
def test_keys_of_other_kinds_are_refused(key):
    with pytest.raises(ValueError, match="P-256"):
        SigningKey(pem(key))


# -- rules that once no test noticed the removal of -------------------------------------------------------------------

RSA_KEY = SigningKey(pem(rsa.generate_private_key(65537, 2048)))


def test_a_changed_token_of_an_rsa_key_is_no_good():
    head, _, signature = RSA_KEY.sign(CLAIMS).split(".")
    forged = f"{head}.{encoded(json.dumps({**CLAIMS, 'sub': 'admin'}).encode())}.{signature}"
    with pytest.raises(InvalidToken):
        verify(forged, (RSA_KEY.public,))
    assert verify(RSA_KEY.sign(CLAIMS), (RSA_KEY.public,)) == CLAIMS


def _signed_with_head(**changes):
    """A token of our key, truly signed, whose head says something else."""
    head = {"alg": "ES256", "kid": KEY.public.key_id, **changes}
    message = f"{encoded(json.dumps(head).encode())}.{encoded(json.dumps(CLAIMS).encode())}".encode()
    return f"{message.decode()}.{encoded(KEY.public.scheme.sign(KEY._key, message))}"


@pytest.mark.parametrize("changes", [{"alg": "RS256"}, {"alg": "none"}, {"alg": "ES384"}, {"kid": "other"}])
def test_a_head_that_names_another_algorithm_or_key_is_no_good(changes):
    with pytest.raises(InvalidToken):
        verify(_signed_with_head(**changes), KEYS)
    assert verify(_signed_with_head(kid=""), KEYS) == CLAIMS


@pytest.mark.parametrize("part", [0, 1, 2])
def test_padding_and_the_standard_alphabet_are_refused(part):
    """Upstream's library decodes unpadded base64url alone; a head in another form must not count as the same token."""
    while True:  # sign until every part can be written in another way
        token = KEY.sign({**CLAIMS, "sub": "?~?~" + base64.b64encode(os.urandom(30)).decode()})
        parts = token.split(".")
        if "-" in parts[2] and ("-" in parts[1] or "_" in parts[1]):
            break
    assert verify(token, KEYS)
    others = [parts[part] + "=" * (-len(parts[part]) % 4 or 4)]
    others.append(parts[part].replace("-", "+").replace("_", "/"))
    for other in others:
        if other != parts[part]:
            with pytest.raises(InvalidToken):
                verify(".".join([*parts[:part], other, *parts[part + 1 :]]), KEYS)


def test_the_same_signed_text_in_the_standard_alphabet_is_no_token():
    head, body = (json.dumps(one).encode() for one in ({"alg": "ES256", "typ": "JWT>>>???"}, {"sub": "???>>>"}))
    message = b".".join(base64.b64encode(one).rstrip(b"=") for one in (head, body))
    signature = KEY.public.scheme.sign(KEY._key, message)
    assert b"/" in message
    with pytest.raises(InvalidToken):
        verify(f"{message.decode()}.{encoded(signature)}", KEYS)
