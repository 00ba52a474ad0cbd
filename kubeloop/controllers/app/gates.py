"""Feature gates that a loop asks about, as `--feature-gates` says them."""

from __future__ import annotations

from collections.abc import Sequence


def is_on(gates: Sequence[str], name: str, default: bool) -> bool:
    """Whether a gate is on; the last word about it counts."""
    said = dict(gate.partition("=")[::2] for gate in gates)
    return said.get(name, str(default)).lower() == "true"
