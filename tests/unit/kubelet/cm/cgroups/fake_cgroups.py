# SPDX-License-Identifier: Apache-2.0
"""Folders that look like control groups: their files exist as soon as a group is made, as in the kernel."""

from __future__ import annotations

from pathlib import Path

from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupV1, CgroupV2

V1_FILES = {
    "cpu": {"cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"},
    "memory": {"memory.limit_in_bytes": "9223372036854771712", "memory.usage_in_bytes": "4096"},
    "cpuset": {"cpuset.cpus": "", "cpuset.mems": ""},
    "pids": {"pids.max": "max"},
    "hugetlb": {"hugetlb.2MB.limit_in_bytes": "9223372036854771712"},
}
V2_FILES = {
    "cgroup.controllers": "cpuset cpu io memory hugetlb pids",
    "cgroup.subtree_control": "",
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "memory.max": "max",
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.current": "4096",
    "pids.max": "max",
    "cpuset.cpus": "",
    "hugetlb.2MB.max": "max",
}


class FakeCgroupV1(CgroupV1):
    """Version 1 below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__({name: root / name for name in V1_FILES})
        for name, files in V1_FILES.items():
            (root / name).mkdir(parents=True)
            _fill(root / name, files)
        (root / "cpuset/cpuset.cpus").write_text("0-3")
        (root / "cpuset/cpuset.mems").write_text("0")

    def create(self, group: str) -> None:
        for name, files in V1_FILES.items():
            folder = self.root / name
            for part in Path(group.strip("/")).parts:
                folder = folder / part
                folder.mkdir(exist_ok=True)
                _fill(folder, files)
        super().create(group)

    def remove(self, group: str) -> None:
        _empty(self.folders(group))
        super().remove(group)

    def value(self, group: str, controller: str, name: str) -> str:
        """Return the content of a file."""
        return (self.root / controller / group.strip("/") / name).read_text()


class FakeCgroupV2(CgroupV2):
    """Version 2 below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(root)
        root.mkdir(parents=True, exist_ok=True)
        _fill(root, V2_FILES)

    def create(self, group: str) -> None:
        folder = self.root
        for part in Path(group.strip("/")).parts:
            folder = folder / part
            folder.mkdir(exist_ok=True)
            _fill(folder, V2_FILES)
        super().create(group)

    def remove(self, group: str) -> None:
        _empty(self.folders(group))
        super().remove(group)

    def value(self, group: str, name: str) -> str:
        """Return the content of a file."""
        return (self.root / group.strip("/") / name).read_text()


def _fill(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        if not (folder / name).exists():
            (folder / name).write_text(text)


def _empty(folders: object) -> None:
    for folder in folders:  # type: ignore[attr-defined]
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                file.unlink()
