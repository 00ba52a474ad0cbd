# SPDX-License-Identifier: Apache-2.0
"""Adds the licence's identifier to each source file: `python -m tools.license_headers`; `--check` only reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADER = "# SPDX-License-Identifier: Apache-2.0\n"


def sources() -> list[Path]:
    """Return all Python files of the repository, new ones too."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(ROOT / name for name in filter(None, listed.stdout.split("\0")) if (ROOT / name).exists())


def with_header(text: str) -> str:
    """Return a file's text with the header: in the first line, or in the second after a line for the shell."""
    first, separator, rest = text.partition("\n")
    if first.startswith("#!"):
        return text if rest.startswith(HEADER) else f"{first}{separator}{HEADER}{rest}"
    return text if text.startswith(HEADER) else HEADER + text


def main() -> int:
    """Add missing headers, or report them; return 1 if any was reported."""
    missing = [(path, text) for path in sources() if with_header(text := path.read_text()) != text]
    if "--check" in sys.argv[1:]:
        for path, _ in missing:
            print(f"{path.relative_to(ROOT)}: no licence header: run make format")
        return 1 if missing else 0
    for path, text in missing:
        path.write_text(with_header(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
