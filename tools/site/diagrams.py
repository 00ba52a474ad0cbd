# SPDX-License-Identifier: Apache-2.0
"""Draws docs/diagrams/*.dot as SVG with Graphviz: `python -m tools.site.diagrams`.

Each picture names the digest of its source, so that a test can tell without Graphviz if it is out of date.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "diagrams"
_PROLOGUE = re.compile(r"\A.*?(?=<svg)", re.DOTALL)
_SIZE = re.compile(r'<svg width="[^"]*" height="[^"]*"')


def digest(source: Path) -> str:
    """Return a short digest of a source."""
    return hashlib.sha256(source.read_bytes()).hexdigest()[:16]


def draw(source: Path) -> str:
    """Return the picture of a source, with its digest in a comment and without the version of Graphviz."""
    done = subprocess.run(["dot", "-Tsvg", str(source)], capture_output=True, text=True, check=True)
    body = _SIZE.sub("<svg", _PROLOGUE.sub("", done.stdout, count=1), count=1)
    return f"<!-- drawn by make pictures from {source.name} {digest(source)} -->\n{body}"


def main() -> int:
    """Draw all sources."""
    for source in sorted(FOLDER.glob("*.dot")):
        source.with_suffix(".svg").write_text(draw(source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
