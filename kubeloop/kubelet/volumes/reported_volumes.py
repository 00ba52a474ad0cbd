"""The volumes that node statuses list as in use, as far as the API server has confirmed it.

A cached Node may be older than this agent's own last write. If a pod began because an old version lists its volume, the
attach/detach controller could already have detached it: it has to be sure that the server lists it now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

InUse = tuple[str, ...]


class ReportedVolumes:
    """The last confirmed list of each node, by the node's name."""

    def __init__(self) -> None:
        self._lists: dict[str, InUse] = {}
        self.on_confirmed: Callable[[str], None] = lambda _: None

    def has(self, node: str, volume: str) -> bool:
        return volume in self._lists.get(node, ())

    def is_current(self, node: str, in_use: InUse, shown: InUse) -> bool:
        """Return whether nothing is to be written. `shown` is the list of the cached Node."""
        return in_use == shown == self._lists.get(node, ())

    @contextmanager
    def writing(self, node: str, in_use: InUse) -> Iterator[None]:
        """Confirm a list once it is written; meanwhile, and if the write fails, none is confirmed."""
        self._lists.pop(node, None)
        yield
        self._lists[node] = in_use
        self.on_confirmed(node)
