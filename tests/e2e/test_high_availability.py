# SPDX-License-Identifier: Apache-2.0
"""Three members of etcd, three API servers, two managers, two schedulers, any of which dies or stands still."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.kubectl import Kubectl
from tests.e2e.plane import GIVE_UP_SECONDS, PROGRAM, SOURCE_ROOT, environment, eventually

pytestmark = pytest.mark.chaos

PLAN = """
apiVersion: kubeloop.dev/v1alpha1
kind: ChaosPlan
seed: 65
duration: 10s
load: {clients: 6, watchers: 2, keys: 10, operations: 400}
faults:
  - {fault: kill, targets: [etcd], every: 3s, for: 1s}
  - {fault: kill, targets: [apiserver], every: 3s, for: 500ms}
  - {fault: kill, targets: [controller-manager, scheduler], every: 4s, for: 500ms}
  - {fault: pause, targets: [apiserver, etcd, controller-manager], every: 4s, for: 1s}
"""


def test_process_faults_lose_nothing_and_a_standby_takes_over_in_time(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    run = subprocess.run(
        [*PROGRAM, "chaos", "run", str(tmp_path / "plan.yaml"), "--folder", str(tmp_path / "plane"), "-o", "json"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=GIVE_UP_SECONDS,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads(run.stdout)
    assert report["problems"] == []
    assert len(report["disturbances"]) >= 8
    assert report["operations"]["ok"] > 100
    assert report["events"] > 100
    assert report["promised"] > 100
    assert report["takeovers"] > 0, "nobody who led has died"


def test_one_command_starts_a_highly_available_plane(tmp_path: Path, kubectl_home: Path) -> None:
    command = [sys.executable, "examples/ha/up.py", "--folder", str(tmp_path)]
    example = subprocess.Popen(command, cwd=SOURCE_ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    output = example.stdout
    assert output is not None
    pids: dict[str, int] = {}

    def follow_restarts() -> None:
        """Note the process of a leader that has lost its lease, as on a busy machine, and was restarted."""
        for line in output:
            pids[line.split()[0]] = int(line.split()[-1])

    def kill(name: str) -> bool:
        try:
            os.kill(pids[name], signal.SIGKILL)
        except ProcessLookupError:  # it has exited; its restart is announced within seconds
            return False
        return True

    follower = threading.Thread(target=follow_restarts)
    try:
        for line in output:
            if line.startswith("the plane is ready"):
                break
            pids[line.split()[0]] = int(line.split()[2].rstrip(","))
        follower.start()
        kubectl = Kubectl(tmp_path / "admin.conf", "default", kubectl_home)

        def pods() -> int:
            return len(kubectl.run("get", "pods", "-o", "name").out.split())

        eventually(lambda: kubectl.run("create", "deployment", "web", "--image=web").code == 0)
        eventually(lambda: pods() == 1)
        for name in ("apiserver-0", "etcd-1", "controller-manager-0", "scheduler-0"):
            eventually(partial(kill, name))
        eventually(lambda: kubectl.run("scale", "deployment", "web", "--replicas=3").code == 0)
        eventually(lambda: pods() == 3)
    finally:
        example.send_signal(signal.SIGTERM)
        example.wait(GIVE_UP_SECONDS)
        if follower.is_alive():
            follower.join()
        output.close()
