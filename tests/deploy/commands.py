# SPDX-License-Identifier: Apache-2.0
"""Checks command lines in manifests and units against the program's own parsers."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.cli.main import parse_command


def check_arguments(arguments: Sequence[str]) -> None:
    """Fail if the program would refuse these arguments."""
    given = [str(one) for one in arguments]
    try:
        parse_command(given)
    except SystemExit as ended:
        raise AssertionError(f"kubeloop refuses {given}") from ended
