# SPDX-License-Identifier: Apache-2.0
"""Choice of the default class among several: the newest that is marked, by name among equals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def default_class(classes: Iterable[Any], annotations: Sequence[str]) -> Any | None:
    """Return the default class; any of the annotations may mark it. None if no class is marked."""
    marked = [
        candidate
        for candidate in classes
        if any(candidate.metadata.annotations.get(annotation) == "true" for annotation in annotations)
    ]
    if not marked:
        return None
    newest = max(candidate.metadata.creation_timestamp or "" for candidate in marked)
    return min(
        (candidate for candidate in marked if (candidate.metadata.creation_timestamp or "") == newest),
        key=lambda candidate: str(candidate.metadata.name),
    )
