"""Signed tokens: what we sign is recognized, and nothing else is."""

from __future__ import annotations

import base64
import json

import pytest
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


def test_what_was_signed_is_read_again():
    assert verify(TOKEN, KEYS) == CLAIMS


def test_a_token_follows_the_standard():
    head, body, signature = TOKEN.split(".")
    assert json.loads(decoded(head)) == {"alg": "ES256", "kid": KEY.public.key_id}
    assert json.loads(decoded(body)) == CLAIMS
    raw = decoded(signature)
    r, s = int.from_bytes(raw[:32]), int.from_bytes(raw[32:])
    KEY.public.key.verify(encode_dss_signature(r, s), f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))


def test_another_key_signs_other_tokens():
    with pytest.raises(InvalidToken):
        verify(OTHER.sign(CLAIMS), KEYS)


def test_the_signature_of_another_key_under_our_head_is_no_good():
    foreign = OTHER.sign(CLAIMS).split(".")
    with pytest.raises(InvalidToken):
        verify(".".join([TOKEN.split(".")[0], *foreign[1:]]), KEYS)


def test_a_token_cannot_choose_how_it_is_checked():
    _, body, _ = TOKEN.split(".")
    for head in ({"alg": "none"}, {"alg": "HS256", "kid": KEY.public.key_id}, {"alg": "ES256"}):
        forged = encoded(json.dumps(head).encode())
        for signature in ("", encoded(b"\0" * 64)):
            with pytest.raises(InvalidToken):
                verify(f"{forged}.{body}.{signature}", KEYS)


@given(st.integers(0, len(TOKEN) - 2), st.characters(max_codepoint=0x2FF))
@settings(max_examples=150, deadline=None)
def test_one_other_character_anywhere_spoils_a_token(position, character):
    # The last character holds two bits that no byte uses, so it is left alone.
    changed = TOKEN[:position] + character + TOKEN[position + 1 :]
    if changed != TOKEN:
        with pytest.raises(InvalidToken):
            verify(changed, KEYS)


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_text_is_no_token(text):
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
    described = key.public.described()
    assert (described["alg"], described["kty"]) == (algorithm, "RSA" if algorithm == "RS256" else "EC")
    with pytest.raises(InvalidToken):
        verify(token, KEYS)


def test_others_can_read_the_described_keys():
    described = SigningKey(pem(PRIVATE["RS256"])).public.described()
    numbers = PRIVATE["RS256"].public_key().public_numbers()
    assert int.from_bytes(decoded(described["n"])) == numbers.n
    assert int.from_bytes(decoded(described["e"])) == numbers.e


def test_a_file_may_hold_keys_of_all_forms():
    public = PRIVATE["ES384"].public_key()
    form = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    keys = read_public_keys(pem(PRIVATE["RS256"]) + form)
    assert [key.scheme.algorithm for key in keys] == ["RS256", "ES384"]
    with pytest.raises(ValueError, match="any valid RSA or ECDSA public keys"):
        read_public_keys(b"nothing")


@pytest.mark.parametrize("key", [ec.generate_private_key(ec.SECP256K1()), ed25519.Ed25519PrivateKey.generate()])
def test_keys_of_other_kinds_are_refused(key):
    with pytest.raises(ValueError, match="P-256"):
        SigningKey(pem(key))
