# SPDX-License-Identifier: Apache-2.0
"""Difference between two structures, formatted as upstream does: a unified diff of their internal form."""

from __future__ import annotations

import difflib
import json
from typing import Any

from kubeloop.api.validation.shared.go_values import to_internal


def difference(old: Any, new: Any) -> str:
    """Return the unified diff of two structures."""
    lines = difflib.unified_diff(_lines(old), _lines(new))
    return "".join(list(lines)[2:])  # upstream leaves out the two lines that name the files


def _lines(value: Any) -> list[str]:
    return [f"{line}\n" for line in json.dumps(json.loads(bytes(to_internal(value))), indent=1).split("\n")]
