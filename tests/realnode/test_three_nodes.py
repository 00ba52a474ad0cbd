# SPDX-License-Identifier: Apache-2.0
"""The example of three nodes: a guestbook across network namespaces, and nothing of it afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.skips import NEEDS_LINUX, NEEDS_ROOT

pytestmark = pytest.mark.realnode
SCRIPT = Path(__file__).parents[2] / "examples" / "three-nodes" / "three_nodes.py"
NAMES = "three-nodes-"


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a short path: those of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="kl-") as found:
        yield Path(found)


@pytest.mark.parametrize("backend", ["vxlan", "bgp"])
def test_guestbook_works_across_three_nodes(backend: str, short_folder: Path) -> None:
    if sys.platform != "linux":
        pytest.skip(NEEDS_LINUX)
    if os.geteuid() != 0:
        pytest.skip(NEEDS_ROOT)
    code, output = run_example(backend, short_folder)
    assert code == 0, output
    lines = output.splitlines()
    assert json.loads(lines[-1]) == {"backend": backend, "nodes": 3, "guestbook": "works"}
    assert len([line for line in lines if line.endswith("the guestbook has 3 entries")]) == 3
    assert leftovers() == []
    assert list(short_folder.iterdir()) == []


def run_example(backend: str, folder: Path) -> tuple[int, str]:
    """Run the example and return its exit code and output; it also cleans up if it takes too long."""
    command = [sys.executable, str(SCRIPT), "--backend", backend]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            output, _ = process.communicate(timeout=5 * GIVE_UP_SECONDS)
        finally:
            process.terminate()  # it cleans up
        return process.returncode, output


def leftovers() -> list[str]:
    """Return namespaces, control groups and mounts of the example."""
    found = [*Path("/run/netns").glob(f"{NAMES}*"), *Path("/sys/fs/cgroup").glob(f"*/{NAMES}*")]
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [*map(str, found), *(one for one in mounts if NAMES in one)]
