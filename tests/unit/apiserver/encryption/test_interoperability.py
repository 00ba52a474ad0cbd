# SPDX-License-Identifier: Apache-2.0
"""Tests of interoperability with Kubernetes' ciphertexts, by the published layouts.

Nothing here is made by our own ciphers: the vectors are OpenSSL's and NaCl's, the rest is put together from primitives.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from kubeloop.apiserver.encryption.providers import DecryptionError
from kubeloop.apiserver.encryption.transformers import Transformer
from tests.unit.apiserver.encryption.test_transformers import secrets_with

PLACE = "/registry/secrets/default/one"
SECRET = b'{"kind":"Secret","apiVersion":"v1"}'
KEY = bytes(range(32))
# printf '{"kind":"Secret","apiVersion":"v1"}' | openssl enc -aes-256-cbc -K 000102…1f -iv f0f1…ff
VECTOR = bytes(range(0xF0, 0x100))
BY_OPENSSL = bytes.fromhex(
    "c49797803cf8c539d0dcd343f8c8c19cafe028c7e11aadb9db4da18c63c91aa6c4bcdee9da1466e80c02454d36104046"
)
# Of NaCl's own tests.
BOX_KEY = bytes.fromhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")
BOX_NONCE = bytes.fromhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37")
BOXED = bytes.fromhex(
    "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233561f4"
    "1db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd4924ca1c60902e52"
    "f0a089bc76897040e082f937763848645e0705"
)
BY_NACL = bytes.fromhex(
    "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98dce87b"
    "4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da"
    "99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5"
)


def transformer(tmp_path: Path, kind: str, key: bytes) -> Transformer:
    named: dict[str, Any] = {"keys": [{"name": "key1", "secret": base64.b64encode(key).decode()}]}
    return secrets_with(tmp_path, {kind: named})


def test_aes_cbc_blocks_of_openssl_are_decrypted(tmp_path: Path) -> None:
    stored = b"k8s:enc:aescbc:v1:key1:" + VECTOR + BY_OPENSSL
    assert transformer(tmp_path, "aescbc", KEY).transform_from_storage(stored, PLACE) == SECRET


@pytest.mark.parametrize("size", [16, 24, 32])
@pytest.mark.parametrize("length", [0, 15, 16, 35])
def test_aes_cbc_blocks_are_decrypted_by_openssl(tmp_path: Path, size: int, length: int) -> None:
    plain = SECRET[:length]
    stored = transformer(tmp_path, "aescbc", KEY[:size]).transform_to_storage(plain, PLACE)
    head, sealed = stored[:23], stored[23:]
    assert head == b"k8s:enc:aescbc:v1:key1:"
    decryptor = Cipher(AES(KEY[:size]), CBC(sealed[:16])).decryptor()
    unpadder = PKCS7(128).unpadder()
    padded = decryptor.update(sealed[16:]) + decryptor.finalize()
    assert unpadder.update(padded) + unpadder.finalize() == plain


@pytest.mark.parametrize("size", [16, 24, 32])
def test_ciphertext_is_bound_to_its_storage_key(tmp_path: Path, size: int) -> None:
    ours, nonce = transformer(tmp_path, "aesgcm", KEY[:size]), bytes(range(12))
    stored = b"k8s:enc:aesgcm:v1:key1:" + nonce + AESGCM(KEY[:size]).encrypt(nonce, SECRET, PLACE.encode())
    assert ours.transform_from_storage(stored, PLACE) == SECRET
    with pytest.raises(DecryptionError, match="message authentication failed"):
        ours.transform_from_storage(stored, f"{PLACE}-more")
    written = ours.transform_to_storage(SECRET, PLACE)
    assert written.startswith(b"k8s:enc:aesgcm:v1:key1:")
    sealed = written[23:]
    assert AESGCM(KEY[:size]).decrypt(sealed[:12], sealed[12:], PLACE.encode()) == SECRET


def test_secretbox_interoperates_with_nacl(tmp_path: Path) -> None:
    ours = transformer(tmp_path, "secretbox", BOX_KEY)
    head = b"k8s:enc:secretbox:v1:key1:"
    assert ours.transform_from_storage(head + BOX_NONCE + BY_NACL, PLACE) == BOXED
    written = ours.transform_to_storage(BOXED, PLACE)
    assert written.startswith(head)
    assert len(written) == len(head) + len(BOX_NONCE) + len(BY_NACL)
