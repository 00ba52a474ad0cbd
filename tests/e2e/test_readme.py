# SPDX-License-Identifier: Apache-2.0
"""Checks that the commands of the README work and print what it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from tests.e2e.conftest import MakePlane
from tests.e2e.kubectl import Kubectl
from tests.e2e.plane import GIVE_UP_SECONDS

ROOT = Path(__file__).parents[2]
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def kubectl_lines() -> list[tuple[str, str]]:
    """Yield each kubectl command of the README with the output below it."""
    found = []
    for block in _CONSOLE.findall((ROOT / "README.md").read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            if command.startswith("kubectl "):
                found.append((command, shown))
    return found


def test_one_minute_run_with_kubectl(make_plane: MakePlane, kubectl_home: Path) -> None:
    plane = make_plane("--ephemeral", "--nodes", "3")
    plane.start()
    kubectl = Kubectl(plane.kubeconfig, "default", kubectl_home)
    lines = kubectl_lines()
    assert len(lines) > 3
    for command, shown in lines:
        done = subprocess.run(
            shlex.split(command),
            cwd=ROOT,
            env=kubectl.environment(),
            capture_output=True,
            text=True,
            timeout=GIVE_UP_SECONDS,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert done.stdout.startswith(shown), command
