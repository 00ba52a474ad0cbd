# SPDX-License-Identifier: Apache-2.0
"""Maintains the ConfigMap kube-apiserver-legacy-service-account-token-tracking: since when tokens are tracked.

A deleted one comes back, at most every thirty minutes; a date that cannot be read is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from kubeloop.api.codec import decode
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.times import format_time
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.registry.internal_status import write_change
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.store import StoreError, StoreEvent

NAMESPACE, NAME = "kube-system", "kube-apiserver-legacy-service-account-token-tracking"
CREATION_SECONDS: Final = 1800.0
_SINCE: Final = "since"
_DATE: Final = "%Y-%m-%d"


class LegacyTokenTracker:
    """Reconciles the ConfigMap when it changes."""

    def __init__(self, registry: StorageRegistry, writer: BootstrapWriter, clock: Clock) -> None:
        self._storage = registry.storage_named("", "v1", "configmaps")
        self._writer = writer
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._last_created = self._clock.monotonic()  # by the start
        self._timer: asyncio.TimerHandle | None = None
        store = registry.store
        key = self._storage.key(NAMESPACE, NAME)
        self._subscription = store.subscribe(key, store.revision, self._on_events)

    def close(self) -> None:
        """Cancel the subscription and the timer."""
        self._subscription.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def reconcile(self) -> None:
        """Create the ConfigMap, now or when the interval has passed, or correct its date."""
        record = self._storage.peek(NAMESPACE, NAME)
        if record is None:
            self._create()
        elif not _is_date(decode(record.value, ConfigMap).data.get(_SINCE, "")):
            write_change(
                self._storage,
                record,
                lambda one: replace(one, data={**one.data, _SINCE: self._today()}),
                self._clock,
            )

    def _on_events(self, events: Sequence[StoreEvent]) -> None:
        self.reconcile()

    def _create(self) -> None:
        elapsed = self._clock.monotonic() - self._last_created
        if elapsed < CREATION_SECONDS:
            if self._timer is None:
                self._timer = self._loop.call_later(CREATION_SECONDS - elapsed, self._on_timer)
            return
        wanted = ConfigMap(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), data={_SINCE: self._today()})
        with suppress(StoreError):
            if (write := self._writer.write(self._storage.resource, wanted)) is not None:
                self._last_created = self._clock.monotonic()
                write.add_done_callback(_consume_result)

    def _on_timer(self) -> None:
        self._timer = None
        self.reconcile()

    def _today(self) -> str:
        return format_time(self._clock.now())[: len("2026-01-31")]


def _is_date(text: str) -> bool:
    try:
        datetime.strptime(text, _DATE)
    except ValueError:
        return False
    return True


def _consume_result(write: asyncio.Future[StoreEvent]) -> None:
    if not write.cancelled():
        write.exception()
