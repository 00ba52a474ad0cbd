# SPDX-License-Identifier: Apache-2.0
"""Help texts of metrics by name, read from `help_texts.tsv` when metrics are first collected.

Each text begins with the metric's stability level, as upstream's do.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


def help_text(name: str) -> str:
    """Return the help text of a metric, empty if it has none."""
    return _texts().get(name, "")


@cache
def _texts() -> dict[str, str]:
    text = Path(__file__).with_name("help_texts.tsv").read_text()
    return dict(line.split("\t", 1) for line in text.splitlines())
