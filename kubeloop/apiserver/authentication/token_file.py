"""Static bearer tokens: upstream's token auth file."""

from __future__ import annotations

import csv
from pathlib import Path

from kubeloop.apiserver.request.context import AUTHENTICATED, User


def read_token_file(path: Path) -> dict[str, User]:
    """Read lines of `token,user,uid,"group1,group2"`."""
    tokens: dict[str, User] = {}
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.reader(lines), 1):
            if not row or row[0].startswith("#"):
                continue
            if len(row) < 3 or not row[0].strip():
                raise ValueError(f"{path}: line {number} needs token, user and uid")
            token, name, uid, *rest = (cell.strip() for cell in row)
            groups = tuple(filter(None, (group.strip() for group in rest[0].split(",")))) if rest else ()
            tokens[token] = User(name, (*groups, AUTHENTICATED), uid)
    return tokens
