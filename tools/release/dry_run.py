# SPDX-License-Identifier: Apache-2.0
"""Checks that a release can be made, and prints its notes and its commands: `python -m tools.release.dry_run`.

Nothing is tagged, pushed or uploaded. Run `make dist` first.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from kubeloop import __version__

ROOT = Path(__file__).parents[2]
_SECTION = re.compile(r"^## \[(?P<version>[^\]]+)\].*$", re.MULTILINE)


def notes(changelog: str, version: str) -> str:
    """Return the changelog's section of a version, else that of Unreleased, without its heading."""
    sections = list(_SECTION.finditer(changelog))
    ends = [*(section.start() for section in sections[1:]), len(changelog)]
    found = {section["version"]: changelog[section.end() : end] for section, end in zip(sections, ends, strict=False)}
    return found.get(version, found.get("Unreleased", "")).strip()


def problems(version: str, changelog: str) -> list[str]:
    """Return what forbids a release of this version."""
    found = []
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if declared != version:
        found.append(f"pyproject.toml has version {declared}, kubeloop.__version__ is {version}")
    if not notes(changelog, version):
        found.append("CHANGELOG.md has nothing to release")
    missing = [name for name in artifacts(version) if not (ROOT / "dist" / name).exists()]
    if missing:
        found.append(f"run make dist first: {', '.join(missing)} missing")
    return found


def artifacts(version: str) -> tuple[str, ...]:
    """Return the names of a version's files."""
    return (f"kubeloop-{version}-py3-none-any.whl", f"kubeloop-{version}.tar.gz", "SHA256SUMS")


def warnings(version: str, changelog: str) -> list[str]:
    """Return what has to be done before the release, but not before a dry run."""
    found = []
    status = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    if status.stdout.strip():
        found.append("the work tree has changes that are not committed")
    if f"## [{version}]" not in changelog:
        found.append(f"CHANGELOG.md has no section [{version}]: rename Unreleased and add the date")
    return found


def main() -> int:
    """Print notes, remaining steps and commands; return 1 if a release is impossible."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    forbidden = problems(__version__, changelog)
    for problem in forbidden:
        print(f"error: {problem}")
    if forbidden:
        return 1
    for warning in warnings(__version__, changelog):
        print(f"to do: {warning}")
    print(f"\n== notes of {__version__}\n\n{notes(changelog, __version__)}\n")
    print("== commands (not run)")
    print(f"git tag --sign v{__version__} --message 'kubeloop {__version__}'")
    print(f"git push origin v{__version__}")
    print(f"twine upload {' '.join(f'dist/{name}' for name in artifacts(__version__)[:2])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
