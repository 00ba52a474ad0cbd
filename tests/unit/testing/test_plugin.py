# SPDX-License-Identifier: Apache-2.0
"""Tests of the pytest plugin: the section about a failed test's clusters, seeds, and mistakes at the end of a test.

Each run is a process of its own: a run within this one would import modules a second time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
from kubeloop.testing import config_map, deployment, namespace
from tests.unit.testing.counting_controller import counting

def test_failing(make_cluster):
    cluster = make_cluster(plane=True)
    cluster.start(counting)
    cluster.add(config_map("one", {"a": "1"}, labels={"count": "yes"}), deployment("web"))
    cluster.settle()
    assert cluster.seed < 0

def test_passing(cluster):
    pass

def test_uid(cluster, make_cluster):
    print(f"given seed: {make_cluster(seed=7).seed}")
    raise AssertionError(cluster.add(namespace("a")).metadata.uid)

def test_unused_fault(cluster):
    cluster.faults.fail("create", "pods")

def test_failed_with_unused_fault(cluster):
    cluster.faults.fail("create", "pods")
    assert cluster is None

def test_broken_report(cluster, monkeypatch):
    monkeypatch.setattr(type(cluster), "report", lambda _: 1 / 0)
    assert cluster is None
"""

Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that returns the output of pytest."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "test_program.py").write_text(PROGRAM)

    def run(*flags: str) -> str:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *flags]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout

    return run


@pytest.fixture(scope="module")
def output(run: Run) -> str:
    """Return the output of all tests."""
    return run()


def part_of(output: str, test: str) -> str:
    """Return the report of one failed test."""
    return re.split(rf"^_+ {test} _+$", output, flags=re.MULTILINE)[1].partition("\n____")[0]


def uid_and_seed(output: str) -> tuple[str, str]:
    part = part_of(output, "test_uid")
    return part.partition("AssertionError: ")[2].split()[0], part.partition("--kubeloop-seed=")[2].split()[0]


def test_section_shows_reconciles_writes_and_pods(output: str) -> None:
    section = part_of(output, "test_failing").partition(" kubeloop ---")[2]
    reconciles, _, rest = section.partition("Last writes:")
    writes, _, pending = rest.partition("Pending work:")
    assert "Seed 0: rerun with --kubeloop-seed=0\n" in reconciles
    assert "counting default/one: requeue_after, wrote patch configmaps default/one → " in reconciles
    assert ", because of ConfigMap default/one ADDED" in reconciles
    assert "create deployments/default/web by test\n" in writes
    assert "by kube-controller-manager/deployment-controller (deployment-controller of default/web, because" in writes
    assert "counting: waiting: default/one for 3.6e+03 s" in pending
    assert "is not scheduled: Unschedulable: no nodes available to schedule pods" in pending
    assert len(section.splitlines()) < 70


def test_mistakes_fail_the_end_of_tests_that_pass(output: str) -> None:
    assert "4 failed, 2 passed, 1 error in" in output
    assert "no call matched the fault on create of pods" in part_of(output, "ERROR at teardown of test_unused_fault")
    assert "no call matched" not in part_of(output, "test_failed_with_unused_fault")


def test_report_that_fails_does_not_hide_the_failure(output: str) -> None:
    part = part_of(output, "test_broken_report")
    assert "assert cluster is None" in part
    assert "no report: ZeroDivisionError" in part


def test_each_cluster_has_a_section(output: str) -> None:
    assert part_of(output, "test_uid").count(" kubeloop ---") == 2
    assert "Seed 7: given by the test" in part_of(output, "test_uid")


def test_seed_repeats_a_run(run: Run, output: str) -> None:
    uid, seed = uid_and_seed(run("--kubeloop-seed=random", "-k", "test_uid"))
    assert uid != uid_and_seed(output)[0]
    assert uid_and_seed(run(f"--kubeloop-seed={seed}", "-k", "test_uid")) == (uid, seed)


def test_wrong_seed_is_a_usage_error(run: Run) -> None:
    assert run("--kubeloop-seed=x", "--collect-only") == ""
