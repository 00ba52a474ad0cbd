# SPDX-License-Identifier: Apache-2.0
"""Subscription that starts its consumer with the first object of its kinds, so that an unused part is never loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from kubeloop.store import Record, Store, StoreEvent, Subscription


class StoreConsumer(Protocol):
    """Part of the server that follows objects in the store."""

    def load(self) -> None:
        """Take in the objects that exist."""

    def on_events(self, events: Sequence[StoreEvent]) -> None:
        """Handle changes."""

    def close(self) -> None:
        """Release everything."""


Consumer = TypeVar("Consumer", bound=StoreConsumer)


class LazySubscription(Generic[Consumer]):
    """Subscription to the keys under some prefixes, from the server's start to its end.

    `make` builds the consumer, and may import its modules. `needs_consumer` tells the records that require one; by
    default all do.
    """

    def __init__(
        self,
        store: Store,
        prefixes: Sequence[str],
        make: Callable[[], Consumer],
        needs_consumer: Callable[[Record], bool] | None = None,
    ) -> None:
        self._store = store
        self._prefixes = prefixes
        self._make = make
        self._needs_consumer = needs_consumer
        self._subscriptions: list[Subscription] = []
        self.consumer: Consumer | None = None

    def start(self) -> None:
        """Subscribe; start the consumer if there is an object that requires it."""
        if any(map(self._has_object, self._prefixes)):
            self._started().load()
        revision = self._store.revision
        self._subscriptions = [self._store.subscribe(one, revision, self._on_events) for one in self._prefixes]

    def close(self) -> None:
        """Cancel the subscriptions, and close the consumer if it was started."""
        for subscription in self._subscriptions:
            subscription.cancel()
        if self.consumer is not None:
            self.consumer.close()

    def _has_object(self, prefix: str) -> bool:
        if self._needs_consumer is None:
            return bool(self._store.range(prefix, limit=1).records)
        return any(map(self._needs_consumer, self._store.range(prefix).records))

    def _on_events(self, events: Sequence[StoreEvent]) -> None:
        needs = self._needs_consumer
        if self.consumer is not None or needs is None:
            self._started().on_events(events)
        elif any(event.record is not None and needs(event.record) for event in events):
            self._started().load()  # it has missed the events that did not require it

    def _started(self) -> Consumer:
        if self.consumer is None:
            self.consumer = self._make()
        return self.consumer
