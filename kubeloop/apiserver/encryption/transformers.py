# SPDX-License-Identifier: Apache-2.0
"""Transformers of a resource's values: write with the first key of the first provider, read with any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kubeloop.apiserver.encryption.providers import Cipher, DecryptionError, RotatingCipher

ENCRYPTED = b"k8s:enc:"
_NO_PREFIX = "no matching prefix found"


class EncryptionProvider(NamedTuple):
    """Keys of one provider, by name, the writing one first; `prefix` is empty for the identity provider."""

    prefix: bytes
    keys: tuple[tuple[bytes, Cipher], ...] = ()
    no_key: str = ""  # error message if none of the keys fits

    def decrypt(self, stored: bytes, context: bytes) -> bytes:
        """Decrypt with any of the keys. Raises `DecryptionError`."""
        if not self.prefix:
            if stored.startswith(ENCRYPTED):
                raise DecryptionError("identity transformer tried to read encrypted data")
            return stored
        sealed, failures = stored[len(self.prefix) :], []
        for name, cipher in self.keys:
            if sealed.startswith(name):
                try:
                    return cipher.decrypt(sealed[len(name) :], context)
                except DecryptionError as error:
                    failures.append(str(error))
        raise DecryptionError(_summary(failures) or self.no_key)


IDENTITY = EncryptionProvider(b"")


class Transformer:
    """Transformer of one resource's values."""

    def __init__(self, providers: Sequence[EncryptionProvider]) -> None:
        self._providers = tuple(providers)
        first = self._providers[0]
        self._write_cipher = first.keys[0][1] if first.keys else None
        # Prefix of all values written with the current key.
        self._head = first.prefix + (first.keys[0][0] if first.keys else b"")

    def transform_to_storage(self, plain: bytes, key: str) -> bytes:
        """Encrypt with the first key; unchanged under the identity provider."""
        if self._write_cipher is None:
            return plain
        return self._head + self._write_cipher.encrypt(plain, key.encode())

    def transform_from_storage(self, stored: bytes, key: str) -> bytes:
        """Decrypt with any matching provider; two of one kind share a prefix. Raises `DecryptionError`.

        AES-CBC is not authenticated: one in 256 values can be decrypted with a wrong key. An object of JSON, as all
        stored values are, is therefore preferred to other bytes.
        """
        failures, doubtful = [], []
        for provider in self._providers:
            if stored.startswith(provider.prefix):
                try:
                    plain = provider.decrypt(stored, key.encode())
                except DecryptionError as error:
                    failures.append(str(error))
                    continue
                if plain.startswith(b"{") and plain.endswith(b"}"):
                    return plain
                doubtful.append(plain)
        if doubtful:
            return doubtful[0]
        raise DecryptionError(_summary(failures) or _NO_PREFIX)

    @property
    def write_prefix(self) -> str:
        """Prefix of the provider that writes, as label of metrics."""
        return self._providers[0].prefix.decode() or "identity"

    def prefix_of(self, stored: bytes) -> str:
        """Return the prefix of the provider that wrote a value, as label of metrics."""
        for provider in self._providers:
            if stored.startswith(provider.prefix) and (provider.prefix or not stored.startswith(ENCRYPTED)):
                return provider.prefix.decode() or "identity"
        return "unknown"

    def is_stale(self, stored: bytes) -> bool:
        """Return True if the value was written with another key than would be used now."""
        if not self._head:
            return stored.startswith(ENCRYPTED)
        if not stored.startswith(self._head):
            return True
        cipher = self._write_cipher
        return isinstance(cipher, RotatingCipher) and cipher.is_stale(stored[len(self._head) :])


UNENCRYPTED = Transformer([IDENTITY])


def _summary(failures: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(failures))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""
