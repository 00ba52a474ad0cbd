# SPDX-License-Identifier: Apache-2.0
"""Values of flags as text, for `/flagz`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from kubeloop.api.scalars.duration import SECOND, format_duration

_NO_DURATIONS = frozenset(("goaway_chance", "kube_api_qps"))


def flag_values(options: argparse.Namespace | Mapping[str, Any]) -> dict[str, str]:
    """Return the value of each flag by its name, in the spellings of Go's flags."""
    given = options if isinstance(options, Mapping) else vars(options)
    return {name.replace("_", "-"): _text(name, value) for name, value in given.items() if name not in _INTERNAL}


_INTERNAL = frozenset(("command", "subcommand", "without_effect"))


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and name not in _NO_DURATIONS:
        return format_duration(round(value * SECOND))
    if isinstance(value, range):
        return f"{value.start}-{value.stop - 1}"
    return f"[{','.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)
