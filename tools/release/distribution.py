# SPDX-License-Identifier: Apache-2.0
"""Builds wheel and sdist into dist/, reproducibly: `python -m tools.release.distribution`.

Both are built twice, in two folders; the bytes must be the same. Times in the archives are the time of the last commit,
or SOURCE_DATE_EPOCH if it is set.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "dist"


def build(folder: Path, epoch: str) -> dict[str, str]:
    """Build wheel and sdist into a folder; return the digest of each file."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def source_date_epoch() -> str:
    """Return the time that archives are given, in seconds: a variable, or the time of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    asked = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    return asked.stdout.strip()


def main() -> int:
    """Build twice, compare, and keep the first build; return 1 if the builds differ."""
    epoch = source_date_epoch()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        digests = build(Path(first), epoch)
        if digests != build(Path(second), epoch):
            print("two builds of the same commit differ")
            return 1
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(first, TARGET)
    (TARGET / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    for name in digests:
        print(f"dist/{name}: {(TARGET / name).stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
