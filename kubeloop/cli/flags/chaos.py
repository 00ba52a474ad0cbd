# SPDX-License-Identifier: Apache-2.0
"""Flag for fault injection in an API server."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # flags are read before anything else is loaded
    from kubeloop.chaos.faults.call_faults import CallFaults

log = logging.getLogger(__name__)


def add_chaos_flag(parser: argparse.ArgumentParser) -> None:
    """Add --chaos-plan."""
    about = "file with a ChaosPlan that injects errors, delays, lost responses and broken watches into client calls"
    parser.add_argument("--chaos-plan", type=Path, metavar="FILE", help=about)


def faults_of(options: argparse.Namespace) -> CallFaults | None:
    """Load the faults of the flag; raises CannotStart."""
    path: Path | None = options.chaos_plan
    if path is None:
        return None
    from kubeloop.apiserver.server import StartupError
    from kubeloop.chaos.faults.call_faults import CallFaults
    from kubeloop.chaos.plan import PlanError, load_plan

    try:
        plan = load_plan(path)
    except PlanError as error:
        raise StartupError(str(error)) from None
    if plan != plan.for_calls():
        raise StartupError(f"{path}: a server injects call faults only; for process faults use `kubeloop chaos run`")
    log.warning("injecting faults into calls, by %s", path)
    return CallFaults(plan)
