# SPDX-License-Identifier: Apache-2.0
"""volumesInUse of node statuses, as far as the API server has confirmed them.

A cached Node may be older than this agent's own last write. If a pod started because an old version lists its volume,
the attach/detach controller could already have detached it: the current version on the server must list it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

VolumesInUse = tuple[str, ...]


class ReportedVolumes:
    """Last confirmed volumesInUse of each node, by node name; `on_confirmed` is called with the node's name."""

    def __init__(self, on_confirmed: Callable[[str], None]) -> None:
        self._on_confirmed = on_confirmed
        self._lists: dict[str, VolumesInUse] = {}

    def is_reported(self, node: str, volume: str) -> bool:
        """Return True if the confirmed status of the node lists the volume."""
        return volume in self._lists.get(node, ())

    def is_current(self, node: str, in_use: VolumesInUse, shown: VolumesInUse) -> bool:
        """Return True if nothing must be written; `shown` is the list of the cached Node."""
        return in_use == shown == self._lists.get(node, ())

    @contextmanager
    def confirm_after(self, node: str, in_use: VolumesInUse) -> Iterator[None]:
        """Confirm a list once it is written; meanwhile, and if the write fails, none is confirmed."""
        self._lists.pop(node, None)
        yield
        self._lists[node] = in_use
        self._on_confirmed(node)
