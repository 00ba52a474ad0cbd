# SPDX-License-Identifier: Apache-2.0
"""Object of every kind: in a namespace, with its dependencies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

IN_A_NAMESPACE = Path(__file__).with_name("all_kinds.yaml")
AROUND = Path(__file__).with_name("all_kinds_dependencies.yaml")


def objects_in(namespace: str) -> list[dict[str, Any]]:
    """All kinds that live in a namespace."""
    found = _documents(IN_A_NAMESPACE)
    for one in found:
        one["metadata"]["namespace"] = namespace
    return found


def objects_around() -> list[dict[str, Any]]:
    """Return the objects that those refer to, and others that controllers need."""
    return _documents(AROUND)


def _documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]
