"""Who is told about committed events: callbacks by prefix, each told once, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kubeloop.store.base import Event, EventCallback


class Subscribers:
    """Delivers each batch to everyone who was there before it was committed."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def add(self, prefix: str, callback: EventCallback, past: Sequence[Event]) -> Subscriber:
        """Replay the past to a newcomer, then keep it."""
        subscriber = Subscriber(self._subscribers, prefix, callback)
        self._subscribers.append(subscriber)
        if past:
            callback(past)
        return subscriber

    def publish(self, events: Sequence[Event]) -> None:
        # A copy: whoever subscribes meanwhile has these events replayed already.
        for subscriber in tuple(self._subscribers):
            if subscriber.active:
                subscriber.deliver(events)


class Subscriber:
    """One callback's registration."""

    def __init__(self, registry: list[Subscriber], prefix: str, callback: EventCallback) -> None:
        self._registry = registry
        self._prefix = prefix
        self._callback = callback
        self.active = True

    def cancel(self) -> None:
        if self.active:
            self.active = False
            self._registry.remove(self)

    def deliver(self, events: Sequence[Event]) -> None:
        if self._prefix:
            events = [event for event in events if event.key.startswith(self._prefix)]
        if not events:
            return
        try:
            self._callback(events)
        except Exception as error:
            # It has missed something now, and the commit of everybody else must go on.
            self.cancel()
            report = {"message": "a store subscriber failed and was cancelled", "exception": error}
            asyncio.get_running_loop().call_exception_handler(report)
