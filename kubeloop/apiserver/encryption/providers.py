# SPDX-License-Identifier: Apache-2.0
"""Ciphers of the encryption providers; the layouts are upstream's."""

from __future__ import annotations

import os
from typing import Any, Protocol, runtime_checkable

_BLOCK = 16
_GCM_NONCE = 12
_GCM_TAG = 16
_BOX_NONCE = 24
_BOX_TAG = 16
_TOO_SHORT = "the stored data was shorter than the required size"


class DecryptionError(Exception):
    """Error for stored bytes that a key does not decrypt; the message is upstream's."""


class EncryptionError(Exception):
    """Error for a value that cannot be encrypted now, as without the plugin of a KMS provider."""


class MissingPackageError(Exception):
    """Error for a provider whose package is missing; the message is one sentence for the operator."""


class Cipher(Protocol):
    """Cipher of one key. `context` is the store key: authenticated ciphers reject values moved elsewhere."""

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt."""

    def decrypt(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt; raises `DecryptionError`."""


@runtime_checkable
class RotatingCipher(Cipher, Protocol):
    """Cipher whose key changes by itself, so that values become stale."""

    def is_stale(self, sealed: bytes) -> bool:
        """Return True if a value was not written with the current key."""


# Nonces come from the system, not from the clock's seeded source: a predictable nonce would break the cipher.


class AesGcm:
    """AES-GCM; detects stored values that were changed or moved."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt under a random nonce, which is prepended."""
        nonce = os.urandom(_GCM_NONCE)
        return nonce + self._cipher.encrypt(nonce, plain, context)

    def decrypt(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt; raises `DecryptionError`."""
        from cryptography.exceptions import InvalidTag

        if len(sealed) < _GCM_NONCE + _GCM_TAG:
            raise DecryptionError(_TOO_SHORT)
        try:
            return self._cipher.decrypt(sealed[:_GCM_NONCE], sealed[_GCM_NONCE:], context)
        except InvalidTag:
            raise DecryptionError("cipher: message authentication failed") from None


class AesCbc:
    """AES-CBC with PKCS#7 padding; confidential, but not authenticated."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.algorithms import AES

        self._algorithm = AES(key)

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt under a random initialization vector, which is prepended."""
        vector, padding = os.urandom(_BLOCK), _BLOCK - len(plain) % _BLOCK
        encryptor = self._with(vector).encryptor()
        return bytes(vector + encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize())

    def decrypt(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt; raises `DecryptionError`."""
        if len(sealed) < _BLOCK:
            raise DecryptionError(_TOO_SHORT)
        vector, body = sealed[:_BLOCK], sealed[_BLOCK:]
        if len(body) % _BLOCK:
            raise DecryptionError("the stored data is not a multiple of the block size")
        decryptor = self._with(vector).decryptor()
        padded: bytes = decryptor.update(body) + decryptor.finalize()
        padding = padded[-1] if padded else 0
        if not 1 <= padding <= min(_BLOCK, len(padded)):
            raise DecryptionError("invalid PKCS7 data (empty or not padded)")
        if padded[-padding:] != bytes([padding]) * padding:
            raise DecryptionError("invalid padding on input")
        return padded[:-padding]

    def _with(self, vector: bytes) -> Any:
        from cryptography.hazmat.primitives.ciphers import Cipher as BlockCipher
        from cryptography.hazmat.primitives.ciphers.modes import CBC

        return BlockCipher(self._algorithm, CBC(vector))


class Secretbox:
    """XSalsa20 and Poly1305, from the PyNaCl package."""

    def __init__(self, key: bytes) -> None:
        try:
            from nacl.secret import SecretBox
        except ImportError:
            raise MissingPackageError(
                "the provider secretbox needs PyNaCl: pip install 'kubeloop[secretbox]'"
            ) from None
        self._box = SecretBox(key)

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt under a random nonce, which is prepended."""
        return bytes(self._box.encrypt(plain, os.urandom(_BOX_NONCE)))

    def decrypt(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt; raises `DecryptionError`."""
        from nacl.exceptions import CryptoError

        if len(sealed) < _BOX_NONCE + _BOX_TAG:
            raise DecryptionError(_TOO_SHORT)
        try:
            return bytes(self._box.decrypt(sealed))
        except CryptoError:
            raise DecryptionError("output array was not large enough for encryption") from None
