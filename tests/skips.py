# SPDX-License-Identifier: Apache-2.0
"""Reasons for which a test may be skipped; a skip for any other reason is a failure.

`make test` installs the tools that the tests drive. Where it can (root, apt-get), a test that is skipped for a missing
tool fails, so that no machine silently proves less than another.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache

import pytest

NEEDS_LINUX = "needs Linux"
NEEDS_ROOT = "needs root"
NEEDS_TOOL = "needs a tool that only root can install: "
NEEDS_NEWER_KUBECTL = "needs a newer kubectl than the one installed: "  # Debian 12 has 1.20 alone


def _can_install_tools() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


# Each reason with the condition under which it holds.
_REASONS: dict[str, Callable[[], bool]] = {
    NEEDS_LINUX: lambda: sys.platform != "linux",
    NEEDS_ROOT: lambda: os.geteuid() != 0,
    NEEDS_TOOL: lambda: not _can_install_tools(),
    NEEDS_NEWER_KUBECTL: lambda: (0, 0) < kubectl_version() < (1, 31),
}


def is_allowed(reason: str) -> bool:
    """Return True if a test may be skipped on this machine for this reason."""
    return any(reason.startswith(start) and holds() for start, holds in _REASONS.items())


@cache
def kubectl_version() -> tuple[int, int]:
    """Return (1, 32) for kubectl 1.32, (0, 0) if there is none."""
    if shutil.which("kubectl") is None:
        return 0, 0
    done = subprocess.run(["kubectl", "version", "--client", "-o", "json"], capture_output=True, check=True)
    found = json.loads(done.stdout)["clientVersion"]
    return int(found["major"]), int(found["minor"].rstrip("+"))


def needs_kubectl(major: int = 0, minor: int = 1) -> pytest.MarkDecorator:
    """Skip a test where kubectl is missing, or older than the given version."""
    found = kubectl_version()
    if found == (0, 0):
        return pytest.mark.skipif(True, reason=f"{NEEDS_TOOL}kubectl")
    return pytest.mark.skipif(found < (major, minor), reason=f"{NEEDS_NEWER_KUBECTL}{major}.{minor}")


def skip_without_kubectl() -> None:
    """Skip the running test if there is no kubectl."""
    if kubectl_version() == (0, 0):
        pytest.skip(f"{NEEDS_TOOL}kubectl")
