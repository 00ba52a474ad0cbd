"""Which images the nodes have already, and how large they are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import ContainerImage


class Images:
    """Sizes by name and node."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._sizes: dict[str, dict[int, int]] = {}  # by name, then by row
        self.version = 0

    def change(self, row: int, before: Iterable[ContainerImage], after: Iterable[ContainerImage]) -> None:
        old, new = _sizes(before), _sizes(after)
        if old == new:
            return
        self.version += 1
        for name in old.keys() - new.keys():
            rows = self._sizes.get(name, {})
            rows.pop(row, None)
            if not rows:
                self._sizes.pop(name, None)
        for name, size in new.items():
            self._sizes.setdefault(name, {})[row] = size

    def local(self, names: Iterable[str], nodes: int) -> NDArray[np.int64]:
        """For each node how much of the images it has, each weighed by how many nodes have it."""
        total = np.zeros(self._size, np.int64)
        for name in names:
            sizes = self._sizes.get(normalized(name))
            if sizes:
                rows = np.fromiter(sizes.keys(), np.intp, len(sizes))
                amounts = np.fromiter(sizes.values(), np.float64, len(sizes))
                total[rows] += (amounts * (len(sizes) / nodes)).astype(np.int64)
        return total

    def grow(self, size: int) -> None:
        self._size = size


def normalized(name: str) -> str:
    """A name with its tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _sizes(images: Iterable[ContainerImage]) -> dict[str, int]:
    return {name: one.size_bytes for one in images for name in one.names or ()}
