# SPDX-License-Identifier: Apache-2.0
"""Subscribers of committed events: callbacks by prefix, each called once per batch, in order.

There may be a subscriber for each of many kinds, and most commits are of one: subscribers are looked up by the
folders of a key, not by checking all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count

from kubeloop.store.base import EventCallback, StoreEvent


class Subscribers:
    """Delivers each batch to all subscribers registered before its commit, in order of registration."""

    def __init__(self) -> None:
        # By prefix. Of prefixes that are whole folders a key has few, which are looked up; the others are all tried.
        self._of_folders: dict[str, list[Subscriber]] = {}
        self._of_others: dict[str, list[Subscriber]] = {}
        self._deepest = 0  # most folders of a prefix
        self._numbers = count()

    def add(self, prefix: str, callback: EventCallback, past: Sequence[StoreEvent]) -> Subscriber:
        """Replay past events to a new subscriber, then register it."""
        registry = self._of_folders if prefix.endswith("/") else self._of_others
        self._deepest = max(self._deepest, prefix.count("/"))
        subscriber = Subscriber(registry, prefix, callback, next(self._numbers))
        registry.setdefault(prefix, []).append(subscriber)
        if past:
            callback(past)
        return subscriber

    def publish(self, events: Sequence[StoreEvent]) -> None:
        # Find all subscribers before calling any: one that subscribes meanwhile has these events replayed already.
        """Deliver a batch of events."""
        concerned: dict[Subscriber, list[StoreEvent]] = {}
        folder, found = "", list[Subscriber]()
        for event in events:
            parent = event.key.rpartition("/")[0]
            if parent != folder or not parent:  # the events of a batch are often of one folder
                folder, found = parent, self._of_parent(event.key)
            for subscriber in found:
                concerned.setdefault(subscriber, []).append(event)
            for subscriber in self._of_prefixes(event.key) if self._of_others else ():
                concerned.setdefault(subscriber, []).append(event)
        for subscriber in sorted(concerned, key=_number_of) if len(concerned) > 1 else concerned:
            if subscriber.active:
                subscriber.deliver(concerned[subscriber])

    def _of_parent(self, key: str) -> list[Subscriber]:
        """Return the subscribers of all folders of a key."""
        found: list[Subscriber] = []
        end, folders = -1, self._of_folders
        for _ in range(self._deepest):
            end = key.find("/", end + 1)
            if end < 0:
                break
            if (subscribers := folders.get(key[: end + 1])) is not None:
                found += subscribers
        return found

    def _of_prefixes(self, key: str) -> list[Subscriber]:
        """Return the subscribers of prefixes that are no folders."""
        return [one for prefix, subscribers in self._of_others.items() if key.startswith(prefix) for one in subscribers]


class Subscriber:
    """Registration of one callback."""

    def __init__(
        self, registry: dict[str, list[Subscriber]], prefix: str, callback: EventCallback, number: int
    ) -> None:  # fmt: skip
        self._registry = registry
        self._prefix = prefix
        self._callback = callback
        self.number = number
        self.active = True

    def cancel(self) -> None:
        """Remove the registration."""
        if self.active:
            self.active = False
            others = self._registry[self._prefix]
            others.remove(self)
            if not others:
                del self._registry[self._prefix]

    def deliver(self, events: Sequence[StoreEvent]) -> None:
        """Call the callback; cancel the registration if it raises."""
        try:
            self._callback(events)
        except Exception as error:
            # It has missed events now, and the commit must continue for the others.
            self.cancel()
            report = {"message": "a store subscriber failed and was cancelled", "exception": error}
            asyncio.get_running_loop().call_exception_handler(report)


def _number_of(subscriber: Subscriber) -> int:
    return subscriber.number
