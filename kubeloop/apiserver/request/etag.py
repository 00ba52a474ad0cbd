"""Fingerprints of whole documents, and whether a client already holds one."""

from __future__ import annotations

import hashlib


def etag_of(body: bytes) -> str:
    """The quoted value for an ETag header."""
    return f'"{digest_of(body)}"'


def digest_of(body: bytes) -> str:
    """The fingerprint as upstream spells it, in links as well as in ETags."""
    return hashlib.sha512(body).hexdigest().upper()


def is_known(etag: str, if_none_match: str) -> bool:
    """Whether an If-None-Match header names this document, so that 304 is the answer."""
    known = [item.strip().removeprefix("W/") for item in if_none_match.split(",")]
    return etag in known or "*" in known
