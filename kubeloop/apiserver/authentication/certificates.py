# SPDX-License-Identifier: Apache-2.0
"""User of a client certificate, which TLS has already verified: only the subject's names are read here.

The cryptography package takes 60 ms to load; it is imported with the first client certificate.
"""

from __future__ import annotations

import hashlib
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kubeloop.apiserver.request.context import AUTHENTICATED, CREDENTIAL_ID, User

if TYPE_CHECKING:
    from cryptography import x509

_COMMON_NAME: Final = "2.5.4.3"
_ORGANIZATION: Final = "2.5.4.10"
_UID: Final = "1.3.6.1.4.1.57683.2"  # Kubernetes' own


@lru_cache(maxsize=1024)
def user_of_certificate(der: bytes) -> User | None:
    """Return the user (common name) and groups (organizations); None for a certificate without a name."""
    names: dict[str, list[str]] = {}
    for kind, value in _subject(der):
        names.setdefault(kind, []).append(value)
    name = names.get(_COMMON_NAME, [""])[-1]
    uids = names.get(_UID, [""])
    if not name or len(uids) > 1:
        return None
    groups = tuple(names.get(_ORGANIZATION, ()))
    digest = hashlib.sha256(der).hexdigest()
    return User(name, (*groups, AUTHENTICATED), uids[0], ((CREDENTIAL_ID, (f"X509SHA256={digest}",)),))


def load_certificate(der: bytes) -> x509.Certificate | None:
    """Parse a certificate; None if it is malformed."""
    from cryptography import x509

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # OpenSSL has accepted unusual serial numbers and algorithm parameters
        try:
            return x509.load_der_x509_certificate(der)
        except (ValueError, x509.InvalidVersion):
            return None


def _subject(der: bytes) -> list[tuple[str, str]]:
    """Return object identifier and text of each part of the subject, in order; empty if a part is malformed."""
    certificate = load_certificate(der)
    if certificate is None:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names longer than X.520 allows are usual
        try:
            parts = list(certificate.subject)
        except (ValueError, TypeError):
            return []
    return [(part.oid.dotted_string, part.value) for part in parts if isinstance(part.value, str)]
