# SPDX-License-Identifier: Apache-2.0
"""Image states: sizes of the images present on nodes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import ContainerImage


class ImageStates:
    """Image sizes by name and node."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._sizes: dict[str, dict[int, int]] = {}  # by name, then by row
        self.version = 0

    def update_row(self, row: int, before: Iterable[ContainerImage], after: Iterable[ContainerImage]) -> None:
        """Replace the images of a row."""
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

    def scaled_sizes(self, names: Iterable[str], nodes: int) -> NDArray[np.int64]:
        """Return by node the size of the given images present, each scaled by the share of nodes that have it."""
        total = np.zeros(self._size, np.int64)
        for name in names:
            sizes = self._sizes.get(normalize_image_name(name))
            if sizes:
                rows = np.fromiter(sizes.keys(), np.intp, len(sizes))
                amounts = np.fromiter(sizes.values(), np.float64, len(sizes))
                total[rows] += (amounts * (len(sizes) / nodes)).astype(np.int64)
        return total

    def grow(self, size: int) -> None:
        """Set the number of rows."""
        self._size = size


def normalize_image_name(name: str) -> str:
    """Return an image name with its tag, `:latest` by default."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _sizes(images: Iterable[ContainerImage]) -> dict[str, int]:
    return {name: one.size_bytes for one in images for name in one.names or ()}
