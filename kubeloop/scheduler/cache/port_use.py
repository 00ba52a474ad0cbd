# SPDX-License-Identifier: Apache-2.0
"""Host ports in use on nodes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.counts import RowCounts
from kubeloop.scheduler.cache.pod_info import ANY_ADDRESS, HostPort


class HostPortInfo:
    """Number of pods by address, protocol and port; 0.0.0.0 conflicts with every address."""

    def __init__(self, size: int) -> None:
        self._counts = RowCounts(size)
        self._addresses: dict[tuple[str, int], set[str]] = {}

    def add(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        """Add or subtract the ports of a pod in a row."""
        for port in ports:
            address, protocol, number = port
            self._counts.add(port, row, sign)
            known = self._addresses.setdefault((protocol, number), set())
            if self._counts.get(port) is not None:
                known.add(address)
            else:
                known.discard(address)

    def conflicts(self, port: HostPort, rows: slice | NDArray[np.intp]) -> NDArray[np.bool_] | None:
        """Return a mask of the rows where the port is in use; None if it is free everywhere."""
        address, protocol, number = port
        known = self._addresses.get((protocol, number), ())
        taken: NDArray[np.bool_] | None = None
        for other in known:
            if ANY_ADDRESS in (address, other) or address == other:
                counts = self._counts.get((other, protocol, number))
                if counts is not None:
                    here = counts[rows] > 0
                    taken = here if taken is None else taken | here
        return taken

    def grow(self, size: int) -> None:
        """Set the number of rows."""
        self._counts.grow(size)
