# SPDX-License-Identifier: Apache-2.0
"""Verification of client certificates against one of several sets of authorities.

TLS verifies a certificate against the authorities of users and of front proxies together. This module finds out for
which of them a chain exists, over the intermediate certificates that the client sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kubeloop.apiserver.authentication.certificates import load_certificate

if TYPE_CHECKING:
    from cryptography import x509

# Longest chain, and the number of signatures that are checked to find one.
_MAX_DEPTH: Final = 8
_MAX_SIGNATURES: Final = 100


class _Validity(NamedTuple):
    """Time during which all certificates of a chain are valid."""

    begin: datetime
    end: datetime


class CertificateVerifier:
    """Verifies that a chain leads from a certificate to an authority; chains are found once per certificate."""

    def __init__(self, authorities: Sequence[Path], now: Callable[[], datetime]) -> None:
        self._authorities = tuple(authorities)
        self._now = now
        self._chain_of = lru_cache(maxsize=256)(self._find_chain)

    def verify(self, certificate: bytes, intermediates: tuple[bytes, ...] = ()) -> bool:
        """Return True if a chain that is valid now leads from a certificate to an authority."""
        now = self._now()
        for begin, end in self._chain_of(certificate, intermediates):  # noqa: SIM110  # of each request
            if begin <= now <= end:
                return True
        return False

    def _find_chain(self, certificate: bytes, intermediates: tuple[bytes, ...]) -> tuple[_Validity, ...]:
        """Return the validity of each chain."""
        leaf = load_certificate(certificate)
        if leaf is None or not self._authorities:
            return ()
        from cryptography import x509

        anchors = [one for path in self._authorities for one in x509.load_pem_x509_certificates(path.read_bytes())]
        loaded = (load_certificate(one) for one in intermediates)
        return tuple(_ChainSearch(anchors, [one for one in loaded if one is not None and _is_authority(one)]).run(leaf))


class _ChainSearch:
    """Depth-first search for chains from a certificate to an anchor."""

    def __init__(self, anchors: list[x509.Certificate], intermediates: list[x509.Certificate]) -> None:
        self._anchors = anchors
        self._intermediates = intermediates
        self._signatures_left = _MAX_SIGNATURES

    def run(self, leaf: x509.Certificate) -> list[_Validity]:
        return self._extend([leaf])

    def _extend(self, chain: list[x509.Certificate]) -> list[_Validity]:
        last, below = chain[-1], len(chain) - 1  # number of intermediates below the next issuer
        found = [
            _validity_of([*chain, anchor])
            for anchor in self._anchors
            if anchor == last or (_allows_path(anchor, below) and self._is_issued_by(last, anchor))
        ]
        if found or len(chain) >= _MAX_DEPTH:
            return found
        for issuer in self._intermediates:
            if issuer not in chain and _allows_path(issuer, below) and self._is_issued_by(last, issuer):
                found += self._extend([*chain, issuer])
        return found

    def _is_issued_by(self, certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
        from cryptography.exceptions import InvalidSignature

        if certificate.issuer != issuer.subject or self._signatures_left <= 0:
            return False
        self._signatures_left -= 1
        try:
            certificate.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def _validity_of(chain: list[x509.Certificate]) -> _Validity:
    return _Validity(
        max(certificate.not_valid_before_utc for certificate in chain),
        min(certificate.not_valid_after_utc for certificate in chain),
    )


def _is_authority(certificate: x509.Certificate) -> bool:
    """Return True if an intermediate certificate may sign others."""
    from cryptography import x509

    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound as missing:
        return missing.oid == x509.KeyUsage.oid  # without it, every use is allowed
    except ValueError:
        return False


def _allows_path(issuer: x509.Certificate, intermediates: int) -> bool:
    """Return True if an issuer's path length permits this many intermediates below it."""
    from cryptography import x509

    try:
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, ValueError):
        return True  # an old root has none
    return constraints.path_length is None or intermediates <= constraints.path_length
