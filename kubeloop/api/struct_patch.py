"""Patches whose author knows what comes of them: within the process nothing is put into text, merged and read again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Overlay(ABC):
    """A strategic merge patch of one part of an object."""

    part: str
    uid: str  # of the object that it is about; empty if any of the name is meant

    @property
    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The patch as it stands on the wire."""

    @abstractmethod
    def laid_over(self, present: Any) -> Any | None:
        """What the patch makes of the present part, as a struct; None where that takes merging."""
