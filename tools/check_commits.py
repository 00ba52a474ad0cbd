# SPDX-License-Identifier: Apache-2.0
"""Check the messages of all commits since the rules for them were introduced.

    python -m tools.check_commits

A subject is `area: imperative summary` in at most 72 characters, followed by an empty line if there is a body.
"""

from __future__ import annotations

import re
import subprocess
import sys

# The last commit before the rules.
_BEFORE = "40e4904"
_LONGEST_SUBJECT = 72
_SUBJECT = re.compile(r"(Revert \"|Merge |[a-z0-9][\w./, -]*: \S)")


def problems_of(message: str) -> list[str]:
    """Return the rules that a commit message breaks."""
    subject, _, rest = message.partition("\n")
    problems = []
    if not _SUBJECT.match(subject):
        problems.append("the subject is not `area: summary`")
    if len(subject) > _LONGEST_SUBJECT:
        problems.append(f"the subject has {len(subject)} characters, {_LONGEST_SUBJECT} are allowed")
    if subject.endswith("."):
        problems.append("the subject ends with a period")
    if rest.strip() and not rest.startswith("\n"):
        problems.append("no empty line between subject and body")
    return problems


def main() -> int:
    """Print what is wrong with each commit; return 1 if anything is."""
    known = subprocess.run(["git", "cat-file", "-e", _BEFORE], capture_output=True).returncode == 0
    commits = f"{_BEFORE}..HEAD" if known else "HEAD"
    listed = subprocess.run(["git", "log", "-z", "--format=%h %B", commits], capture_output=True, text=True, check=True)
    wrong = 0
    for entry in filter(None, listed.stdout.split("\0")):
        commit, _, message = entry.partition(" ")
        for problem in problems_of(message.rstrip("\n")):
            print(f"{commit}: {problem}: {message.splitlines()[0]}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
