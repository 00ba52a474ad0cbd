# SPDX-License-Identifier: Apache-2.0
"""The example of three nodes: a guestbook across network namespaces, and nothing of it afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.skips import NEEDS_LINUX, NEEDS_ROOT

pytestmark = pytest.mark.realnode
SCRIPT = Path(__file__).parents[2] / "examples" / "three-nodes" / "three_nodes.py"
NAMES = "three-nodes-"


@pytest.mark.parametrize("backend", ["vxlan", "bgp"])
def test_guestbook_works_across_three_nodes(backend: str, tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip(NEEDS_LINUX)
    if os.geteuid() != 0:
        pytest.skip(NEEDS_ROOT)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--backend", backend],
        capture_output=True,
        text=True,
        timeout=5 * GIVE_UP_SECONDS,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    lines = done.stdout.splitlines()
    assert json.loads(lines[-1]) == {"backend": backend, "nodes": 3, "guestbook": "works"}
    assert [line for line in lines if line.endswith("the guestbook has 3 entries")] != []
    assert leftovers() == []
    assert list(tmp_path.iterdir()) == []


def leftovers() -> list[str]:
    """Return namespaces, control groups, mounts and sockets of the example."""
    found = [*Path("/run/netns").glob(f"{NAMES}*"), *Path("/run/kubeloop-network").glob("*")]
    found += Path("/sys/fs/cgroup").glob(f"*/{NAMES}*")
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [*map(str, found), *(one for one in mounts if NAMES in one)]
