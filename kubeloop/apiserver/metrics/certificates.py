# SPDX-License-Identifier: Apache-2.0
"""Counts issued certificates of CertificateSigningRequests that asked for a duration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kubeloop.metrics import MetricRegistry
from kubeloop.store import Store, StoreEvent

_PREFIX: Final = "/registry/certificatesigningrequests/"
_METRICS: Final = "apiserver_certificates_registry_"
_MOST_DEVIATION_SECONDS: Final = 300


class _Spec(msgspec.Struct):
    signer: str = msgspec.field(default="", name="signerName")
    seconds: int | None = msgspec.field(default=None, name="expirationSeconds")


class _Status(msgspec.Struct):
    certificate: bytes = b""


class _Request(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class CertificateMetrics:
    """Counts, when a request gets its certificate, if a duration was requested and if the signer honored it."""

    def __init__(self, registry: MetricRegistry, store: Store) -> None:
        self._requested = registry.counter(f"{_METRICS}csr_requested_duration_total", "signerName")
        self._honored = registry.counter(f"{_METRICS}csr_honored_duration_total", "signerName")
        self._decoder = msgspec.json.Decoder(_Request)
        self._subscription = store.subscribe(_PREFIX, store.revision, self._on_events)

    def close(self) -> None:
        """Cancel the subscription."""
        self._subscription.cancel()

    def _on_events(self, events: Sequence[StoreEvent]) -> None:
        for event in events:
            if event.record is None or event.previous is None:
                continue
            now = self._decoder.decode(event.record.value)
            if now.spec.seconds is None or not now.status.certificate:
                continue
            if self._decoder.decode(event.previous.value).status.certificate:
                continue
            signer = now.spec.signer if now.spec.signer.startswith("kubernetes.io/") else "other"
            self._requested.with_labels(signer).value += 1
            if abs(_lifetime(now.status.certificate) - now.spec.seconds) <= _MOST_DEVIATION_SECONDS:
                self._honored.with_labels(signer).value += 1


def _lifetime(pem: bytes) -> float:
    """Return the seconds from the beginning to the end of a certificate's validity; 0 if it is malformed."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(pem)
    except ValueError:
        return 0.0
    return (found.not_valid_after_utc - found.not_valid_before_utc).total_seconds()
