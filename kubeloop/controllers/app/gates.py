"""Reads single feature gates from `--feature-gates`."""

from __future__ import annotations

from collections.abc import Sequence


def is_on(gates: Sequence[str], name: str, default: bool) -> bool:
    """Return True if the gate is enabled; the last entry for a gate wins."""
    said = dict(gate.partition("=")[::2] for gate in gates)
    return said.get(name, str(default)).lower() == "true"
