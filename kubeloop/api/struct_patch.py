# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches that also yield the patched struct, so that in-process writes skip encoding and merging."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class StructPatch(ABC):
    """Strategic merge patch of one part of an object."""

    part: str
    uid: str  # of the patched object; empty for any object of the name

    @property
    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Patch as it appears on the wire."""

    @abstractmethod
    def apply_to(self, present: Any) -> Any | None:
        """Return the patched part as a struct; None if the patch requires a generic merge."""
