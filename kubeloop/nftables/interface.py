# SPDX-License-Identifier: Apache-2.0
"""Interface of nftables, its errors, and the check of the installed version."""

from __future__ import annotations

import re
from typing import Final, Protocol

# Older versions of nft read the rules of all tables at each call, and fail on rules that they do not know.
MINIMUM_VERSION: Final = (1, 0, 1)
_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_LONGEST_SCRIPT: Final = 2000  # characters of a script that an error shows
_MISSING: Final = ("No such file or directory", "does not exist")


class Nftables(Protocol):
    """Runs scripts in nft's language."""

    async def run(self, script: str, *, check: bool = False) -> str:
        """Run a script as one transaction and return its output; with `check`, change nothing.

        Raises `NftablesError`; then nothing has been changed.
        """

    async def close(self) -> None:
        """Free what the interface holds."""


class NftablesError(Exception):
    """Raised if the kernel or nft's parser rejects a script."""

    def __init__(self, message: str, script: str = "") -> None:
        super().__init__(message)
        self.script = script if len(script) <= _LONGEST_SCRIPT else script[:_LONGEST_SCRIPT] + "…"


class NftablesNotFound(NftablesError):
    """Raised if a script names a table, chain, set or element that does not exist."""


class NftablesUnavailable(NftablesError):
    """Raised if nftables cannot be used on this machine: not installed, too old, or not permitted."""


def error_of(text: str, script: str) -> NftablesError:
    """Return the error for the messages that nft has printed."""
    message = " ".join(text.split()) or "nft failed without a message"
    if "Operation not permitted" in message:
        return NftablesUnavailable(f"nftables needs the capability CAP_NET_ADMIN: {message}", script)
    kind = NftablesNotFound if any(words in message for words in _MISSING) else NftablesError
    return kind(message, script)


def check_version(text: str) -> None:
    """Check a version such as `nftables v1.0.6 (Lester Gooch #5)`. Raises `NftablesUnavailable`."""
    found = _NUMBERS.search(text)
    if found is None:
        raise NftablesUnavailable(f"the version of nft is unknown: {text.strip()!r}")
    version = tuple(int(part or 0) for part in found.groups())
    if version < MINIMUM_VERSION:
        wanted = ".".join(map(str, MINIMUM_VERSION))
        raise NftablesUnavailable(f"nft {'.'.join(map(str, version))} is too old: version {wanted} or later is needed")
