"""User of a client certificate, parsed from DER without the cryptography package, which takes 60 ms to load.

TLS has already verified the certificate; only the subject's names are extracted here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache

from kubeloop.apiserver.request.context import AUTHENTICATED, CREDENTIAL_ID, User

_COMMON_NAME = bytes.fromhex("550403")
_ORGANIZATION = bytes.fromhex("55040a")
_UID = bytes.fromhex("2b0601040183c25302")  # 1.3.6.1.4.1.57683.2, Kubernetes' own
_VERSION_TAG = 0xA0
_UTF16_TAG = 0x1E
# Between the version and the subject: serial number, algorithm, issuer, validity.
_BEFORE_ISSUER = 2
_BEFORE_SUBJECT = 4


@lru_cache(maxsize=1024)
def user_of_certificate(der: bytes) -> User | None:
    """Return the user (common name) and groups (organizations); None for a certificate without a name."""
    names: dict[bytes, list[str]] = {}
    for kind, value in _subject(der):
        names.setdefault(kind, []).append(value)
    name = names.get(_COMMON_NAME, [""])[-1]
    uids = names.get(_UID, [""])
    if not name or len(uids) > 1:
        return None
    groups = tuple(names.get(_ORGANIZATION, ()))
    digest = hashlib.sha256(der).hexdigest()
    return User(name, (*groups, AUTHENTICATED), uids[0], ((CREDENTIAL_ID, (f"X509SHA256={digest}",)),))


def issuer_name(der: bytes) -> bytes:
    """Return the encoded issuer name."""
    return _names(der)[0]


def subject_name(der: bytes) -> bytes:
    """Return the encoded subject name."""
    return _names(der)[1]


def _names(der: bytes) -> tuple[bytes, bytes]:
    fields = list(_parts(_content(_content(der))))
    start = 1 if fields[0][0] == _VERSION_TAG else 0
    return fields[start + _BEFORE_ISSUER][1], fields[start + _BEFORE_SUBJECT][1]


def _subject(der: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield object identifier and text of each part of the subject, in order."""
    for _, relative_name in _parts(subject_name(der)):
        for _, attribute in _parts(relative_name):
            (_, identifier), (tag, value) = _parts(attribute)
            yield identifier, value.decode("utf-16-be" if tag == _UTF16_TAG else "utf-8", "replace")


def _content(der: bytes) -> bytes:
    """Return the content of the first element."""
    return next(_parts(der))[1]


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each element of a sequence."""
    position = 0
    while position < len(der):
        tag, length = der[position], der[position + 1]
        position += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(der[position : position + size])
            position += size
        yield tag, der[position : position + length]
        position += length
