"""A resource's way into the store and out of it: written with the first key of the first provider, read with any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kubeloop.apiserver.encryption.providers import Cipher, Undecryptable

ENCRYPTED = b"k8s:enc:"
_NO_PREFIX = "no matching prefix found"


class Provider(NamedTuple):
    """The keys of one provider, by name, the one that writes first; `prefix` is empty for one that encrypts nothing."""

    prefix: bytes
    keys: tuple[tuple[bytes, Cipher], ...] = ()
    no_key: str = ""  # what is said when none of them fits

    def open(self, stored: bytes, context: bytes) -> bytes:
        """Raises `Undecryptable`."""
        if not self.prefix:
            if stored.startswith(ENCRYPTED):
                raise Undecryptable("identity transformer tried to read encrypted data")
            return stored
        sealed, failures = stored[len(self.prefix) :], []
        for name, cipher in self.keys:
            if sealed.startswith(name):
                try:
                    return cipher.open(sealed[len(name) :], context)
                except Undecryptable as error:
                    failures.append(str(error))
        raise Undecryptable(_summary(failures) or self.no_key)


IDENTITY = Provider(b"")


class Transformer:
    """What one resource's objects go through."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self._providers = tuple(providers)
        first = self._providers[0]
        self._writes_with = first.keys[0][1] if first.keys else None
        # What everything begins with that was written with the present key.
        self._head = first.prefix + (first.keys[0][0] if first.keys else b"")

    def seal(self, plain: bytes, key: str) -> bytes:
        if self._writes_with is None:
            return plain
        return self._head + self._writes_with.seal(plain, key.encode())

    def open(self, stored: bytes, key: str) -> bytes:
        """Raises `Undecryptable`. Two providers of one kind share a prefix: the first failure is not the last word."""
        failures = []
        for provider in self._providers:
            if stored.startswith(provider.prefix):
                try:
                    return provider.open(stored, key.encode())
                except Undecryptable as error:
                    failures.append(str(error))
        raise Undecryptable(_summary(failures) or _NO_PREFIX)

    def prefix_of(self, stored: bytes) -> str:
        """Which provider something was written with, as metrics call it."""
        for provider in self._providers:
            if stored.startswith(provider.prefix) and (provider.prefix or not stored.startswith(ENCRYPTED)):
                return provider.prefix.decode() or "identity"
        return "unknown"

    def is_stale(self, stored: bytes) -> bool:
        """Whether it was written otherwise than it would be now."""
        return not stored.startswith(self._head) if self._head else stored.startswith(ENCRYPTED)


UNENCRYPTED = Transformer([IDENTITY])


def _summary(failures: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(failures))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""
