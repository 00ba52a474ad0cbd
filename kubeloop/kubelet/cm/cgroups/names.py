# SPDX-License-Identifier: Apache-2.0
"""Names of control groups, and their forms for the drivers cgroupfs and systemd. Pure."""

from __future__ import annotations

from typing import Literal, NewType

CgroupDriver = Literal["cgroupfs", "systemd"]
# Parts from the root: ("kubepods", "burstable", "pod1234-abcd").
CgroupName = NewType("CgroupName", tuple[str, ...])

ROOT = CgroupName(())
KUBEPODS = "kubepods"
SLICE = ".slice"
POD_PREFIX = "pod"


def child(base: CgroupName, *parts: str) -> CgroupName:
    """Return the name of a group below another. Raises ValueError for parts that systemd names cannot express."""
    for part in parts:
        if "/" in part or "_" in part:
            raise ValueError(f"invalid character in component [{part!r}] of CgroupName")
    return CgroupName((*base, *parts))


def parse_path(path: str) -> CgroupName:
    """Parse a path such as /kubepods/burstable."""
    return CgroupName(tuple(part for part in path.strip("/").split("/") if part))


def format_path(name: CgroupName, driver: CgroupDriver) -> str:
    """Return the path of a group below the mount point of a controller."""
    if driver == "cgroupfs" or not name:
        return "/" + "/".join(name)
    escaped = [part.replace("-", "_") for part in name]
    return "".join(f"/{'-'.join(escaped[: count + 1])}{SLICE}" for count in range(len(escaped)))


def parse_driver_path(path: str, driver: CgroupDriver) -> CgroupName:
    """Return the name of the group at a path that a driver has formed."""
    if driver == "cgroupfs":
        return parse_path(path)
    unit = path.rstrip("/").rpartition("/")[2].removesuffix(SLICE)
    return CgroupName(tuple(part.replace("_", "-") for part in unit.split("-") if part))


def pod_uid_of(name: CgroupName) -> str:
    """Return the UID of the pod that a group belongs to; empty for other groups."""
    last = name[-1] if name else ""
    return last.removeprefix(POD_PREFIX) if last.startswith(POD_PREFIX) else ""
