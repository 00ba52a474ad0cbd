# SPDX-License-Identifier: Apache-2.0
"""Swap of the machine: its size, and whether the kernel can limit that of control groups."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path("/")
_KIBI = 1024


def read_swap_capacity(root: Path = _ROOT) -> int:
    """Return the swap of the machine in bytes."""
    lines = (root / "proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) * _KIBI for line in lines if line.startswith("SwapTotal:")), 0)


def has_swap_controller(cgroup_version: int, root: Path = _ROOT) -> bool:
    """Return True if control groups can limit swap; for version 2 the group of this process tells."""
    groups = root / "sys/fs/cgroup"
    if cgroup_version != 2:
        return (groups / "memory/memory.memsw.limit_in_bytes").exists()
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return False
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")
    return bool(own) and (groups / own.lstrip("/") / "memory.swap.max").exists()
