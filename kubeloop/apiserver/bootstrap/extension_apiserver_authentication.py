# SPDX-License-Identifier: Apache-2.0
"""Maintains the ConfigMap extension-apiserver-authentication, by which extension API servers authenticate requests.

Several servers may share it, each with its own authorities, so that foreign entries stay until they expire.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.registry.internal_status import write_change
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.store import StoreEvent, Subscription

SYNC_SECONDS: Final = 60.0
NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL)
_AUTHORITIES: Final = ("client-ca-file", "requestheader-client-ca-file")


class AuthenticationConfigMap:
    """Reconciles the ConfigMap when it is created or deleted, and every minute."""

    def __init__(self, registry: StorageRegistry, own: BootstrapWriter, wanted: Any, clock: Clock) -> None:
        self._storage = registry.storage_named("", "v1", "configmaps")
        self._bootstrap_writer = own
        self._wanted = wanted
        self._clock = clock
        store = registry.store
        self._subscription: Subscription = store.subscribe(
            self._storage.key(NAMESPACE, NAME), store.revision, self._on_events
        )

    def close(self) -> None:
        """Cancel the subscription."""
        self._subscription.cancel()

    def set_wanted(self, wanted: Any) -> None:
        """Publish other data, such as changed authorities."""
        self._wanted = wanted
        self.sync()

    def sync(self) -> None:
        """Create or complete the ConfigMap; the next run makes up for a failed write."""
        record = self._storage.peek(NAMESPACE, NAME)
        if record is None:
            write = self._bootstrap_writer.write(self._storage.resource, self._wanted)
            if write is not None:
                write.add_done_callback(lambda done: done.cancelled() or done.exception())
            return
        now = self._clock.now()
        complete = self._wanted.data
        write_change(
            self._storage,
            record,
            lambda one: replace(one, data=merge_authentication_info(one.data, complete, now)),
            self._clock,
        )

    def _on_events(self, events: Sequence[StoreEvent]) -> None:
        if any(event.record is None or event.previous is None for event in events):
            self.sync()


def merge_authentication_info(present: Mapping[str, str], wanted: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Merge existing and desired data: union of lists and certificates, without expired ones."""
    data: dict[str, str] = {}
    for key in sorted({*present, *wanted} & {*wanted, *_AUTHORITIES}):
        if key in _AUTHORITIES:
            found = _authorities(present.get(key, ""), wanted.get(key, ""), now)
        else:
            found = _names(present.get(key, ""), wanted.get(key, ""))
        if found:
            data[key] = found
    return data


def _names(present: str, wanted: str) -> str:
    names = dict.fromkeys((*_listed(present), *_listed(wanted)))
    return msgspec.json.encode(list(names)).decode()


def _listed(text: str) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        return []  # not a usable certificate


def _authorities(present: str, wanted: str, now: datetime) -> str:
    own = _CERTIFICATE.findall(wanted)
    others = [one for one in _CERTIFICATE.findall(present) if one not in own]
    if not others:
        return wanted
    return "".join(f"{one}\n" for one in (*(one for one in others if not _has_expired(one, now)), *own))


def _has_expired(certificate: str, now: datetime) -> bool:
    from cryptography import x509  # imported only if there are other certificates

    with suppress(ValueError):
        return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc < now
    return True
