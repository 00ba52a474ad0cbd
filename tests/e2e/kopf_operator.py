# SPDX-License-Identifier: Apache-2.0
"""Runs an operator of kopf in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.plane import Plane, environment


@contextmanager
def run_operator(file: Path, plane: Plane, namespace: str, folder: Path) -> Iterator[Path]:
    """Run the operator in a file for one namespace; yields its log."""
    log = folder / "kopf.log"
    with log.open("wb") as output:
        running = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", namespace, str(file)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment(), "KUBECONFIG": str(plane.kubeconfig), "HOME": str(folder)},
        )
    try:
        yield log
    finally:
        running.terminate()
        try:
            running.wait(GIVE_UP_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
