# SPDX-License-Identifier: Apache-2.0
"""ResourceVersions as numbers, which the API guarantees to be comparable since 1.35."""

from __future__ import annotations

from typing import Any


def version_number(resource_version: str) -> int:
    """Return a resourceVersion as a number; 0 if the server's versions are not numeric."""
    return int(resource_version) if resource_version.isdigit() else 0


def version_of(obj: Any) -> int:
    """Return the resourceVersion of an object as a number."""
    return version_number(obj.metadata.resource_version)
