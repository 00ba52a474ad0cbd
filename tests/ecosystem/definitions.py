# SPDX-License-Identifier: Apache-2.0
"""Definitions in the shape of those that clusters in the wild have: many versions, deep schemas, rules in CEL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
FILES = ("errands", "gates", "sealing", "tides", "watchtower")


def definitions() -> list[dict[str, Any]]:
    return [document for name in FILES for document in _documents(name)]


def samples() -> dict[str, dict[str, Any]]:
    """A good object of each kind, by its kind."""
    return {document["kind"]: document for document in _documents("samples")}


def _documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()))
