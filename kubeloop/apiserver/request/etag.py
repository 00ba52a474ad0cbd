# SPDX-License-Identifier: Apache-2.0
"""ETags of documents, and evaluation of If-None-Match."""

from __future__ import annotations

import hashlib


def etag_of(body: bytes) -> str:
    """Return the quoted value of a document's ETag header."""
    return f'"{digest_of(body)}"'


def digest_of(body: bytes) -> str:
    """Return a document's SHA-512 in upper-case hex, as upstream writes it in links and ETags."""
    return hashlib.sha512(body).hexdigest().upper()


def is_not_modified(etag: str, if_none_match: str) -> bool:
    """Return True if an If-None-Match header names this ETag, so that the response is 304."""
    known = [item.strip().removeprefix("W/") for item in if_none_match.split(",")]
    return etag in known or "*" in known
