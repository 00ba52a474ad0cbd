# SPDX-License-Identifier: Apache-2.0
"""Line that a program prints when it is ready; a program within `kubeloop up` prints none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Announce: TypeAlias = Callable[[str], None]


def print_line(line: str) -> None:
    """Print a line at once, also if the output is a file."""
    print(line, flush=True)
