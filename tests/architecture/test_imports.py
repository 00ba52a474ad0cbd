# SPDX-License-Identifier: Apache-2.0
"""Checks that every module can be imported without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Runs in a separate process: modules that the tests have imported would not warn again.
_IMPORT_ALL = """
import importlib, pkgutil, sys
for top in sys.argv[1:]:
    package = importlib.import_module(top)
    for module in pkgutil.walk_packages(package.__path__, f"{top}."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
"""


def test_every_module_is_imported_without_a_warning() -> None:
    command = [sys.executable, "-W", "error", "-c", _IMPORT_ALL, "kubeloop", "bench", "tools"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
