# SPDX-License-Identifier: Apache-2.0
"""Plans that are carried out on real processes, and promises that are kept all the same."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kubeloop.chaos.plan import load_plan
from tests.e2e.plane import GIVE_UP_SECONDS, PROGRAM, SOURCE_ROOT, environment
from tests.skips import NEEDS_ROOT, NEEDS_TOOL

pytestmark = pytest.mark.chaos

LOAD = {"clients": 6, "watchers": 2, "keys": 10, "operations": 400}
HEAD = {"apiVersion": "kubeloop.dev/v1alpha1", "kind": "ChaosPlan", "load": LOAD}
# All members of etcd: one loses its data, one is paused.
MEMBERS = {
    "seed": 2,
    "duration": "7s",
    "plane": {"apiServers": 2, "controllerManagers": 0, "schedulers": 0},
    "faults": [
        {"fault": "kill", "targets": ["etcd"], "count": 3, "every": "4s", "for": "500ms"},
        {"fault": "lose-data", "every": "5s", "for": "200ms"},
        {"fault": "pause", "targets": ["etcd"], "every": "3s", "for": "1s"},
    ],
}
# A minority without a way to the others, be it etcd's leader, an API server or a leader of the loops.
PARTITIONS = {
    "seed": 4,
    "duration": "8500ms",
    "plane": {"apiServers": 2, "controllerManagers": 2, "schedulers": 0},
    "faults": [
        {"fault": "partition", "targets": ["etcd"], "every": "3s", "for": "2s"},
        {"fault": "partition", "targets": ["apiserver"], "every": "4s", "for": "2s"},
        {"fault": "partition", "targets": ["controller-manager"], "every": "4s", "for": "3s"},
    ],
}
# Clock skew of up to twenty minutes, while both managers die, so far apart that the leader is
# followed by the other.
CLOCKS = {
    "seed": 44,
    "duration": "9s",
    "plane": {"etcd": 1, "apiServers": 2, "controllerManagers": 2, "schedulers": 0},
    "faults": [
        {"fault": "clock-jump", "by": "10m", "every": "3s", "for": "1500ms"},
        {"fault": "clock-jump", "by": "-10m", "every": "3s", "for": "1500ms"},
        {"fault": "kill", "targets": ["controller-manager"], "every": "5s", "for": "500ms"},
    ],
}
# One SQLite file: no room for more, the end of its server, changed bytes, while calls fail and watches break.
DISK = {
    "seed": 28,
    "duration": "6s",
    "plane": {"etcd": 0, "apiServers": 1, "controllerManagers": 0, "schedulers": 0},
    "faults": [
        {"fault": "disk-full", "every": "3s", "for": "1s"},
        {"fault": "kill", "targets": ["apiserver"], "every": "5s", "for": "200ms"},
        {"fault": "corrupt-store", "every": "5s", "for": "0s"},
        {"fault": "errors", "chance": 0.03, "code": 503},
        {"fault": "conflicts", "chance": 0.05},
        {"fault": "lost-answers", "chance": 0.03},
        {"fault": "slow", "chance": 0.05, "by": "200ms"},
        {"fault": "cut-watches", "every": "1s"},
    ],
}


def carry_out(plan: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "plan.yaml").write_text(json.dumps({**HEAD, **plan}))
    command = [*PROGRAM, "chaos", "run", str(folder / "plan.yaml"), "--folder", str(folder / "plane"), "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=3 * GIVE_UP_SECONDS)


def kept(run: subprocess.CompletedProcess[str], *, disturbances: int) -> dict[str, Any]:
    """The report of a run that kept every promise, and in which enough has happened to prove something."""
    assert run.returncode == 0, run.stdout + run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    assert report["problems"] == []
    assert len(report["disturbances"]) >= disturbances
    assert report["operations"]["ok"] > 100
    assert report["events"] > 100
    assert report["promised"] > 100
    return report


def test_etcd_faults_lose_no_acknowledged_write(tmp_path: Path) -> None:
    report = kept(carry_out(MEMBERS, tmp_path), disturbances=6)
    assert any("losedata" in line for line in report["disturbances"])
    assert report["promised"] < sum(report["operations"].values()), "the quorum was never gone"


def test_partitions_cause_no_outage_and_no_duplicate_events(tmp_path: Path) -> None:
    run = carry_out(PARTITIONS, tmp_path)
    if os.geteuid() != 0:
        assert run.returncode == 2
        assert "network" in run.stderr
        pytest.skip(NEEDS_ROOT)
    kept(run, disturbances=4)


def test_killed_leaders_and_clock_jumps_fail_over_within_the_lease_duration(tmp_path: Path) -> None:
    run = carry_out(CLOCKS, tmp_path)
    if run.returncode == 2 and "libfaketime" in run.stderr:
        pytest.skip(f"{NEEDS_TOOL}libfaketime")
    report = kept(run, disturbances=3)
    assert report["takeovers"] > 0, "nobody who led has died"
    assert report["longest_without_leader"] > 4, "the next one has not waited for the lease to end"


def test_full_disk_and_corrupt_file_lose_no_acknowledged_write(tmp_path: Path) -> None:
    kept(carry_out(DISK, tmp_path), disturbances=3)
    assert "could not write" in (tmp_path / "plane" / "attempts.jsonl").read_text(), "no write has met the full disk"
    assert (
        "is corrupt: file is not a database; restore a snapshot" in (tmp_path / "plane" / "apiserver-0.log").read_text()
    )


@pytest.mark.parametrize("path", sorted((SOURCE_ROOT / "examples").glob("*/*.yaml")), ids=lambda path: path.name)
def test_example_plans_can_be_executed(path: Path) -> None:
    if "ChaosPlan" in path.read_text():
        assert load_plan(path).faults
