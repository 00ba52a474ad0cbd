# SPDX-License-Identifier: Apache-2.0
"""Tests of the search for violations with new seeds: found, printed, and repeatable."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

PROPERTIES = """
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

@pytest.mark.parametrize("size", [2])
@given(steps=st.lists(st.sampled_from(["a", "#b"]), max_size=9), seed=st.integers(0, 9))
def test_violated(size, steps, seed):
    assert len(steps) < size

@given(st.integers())
def test_kept(number):
    assert number == number
"""
# A file outside the repository: the settings of its tests have to be named.
SETTINGS = ["-c", "pyproject.toml", "-p", "tests.conftest"]


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "test_properties.py"
    path.write_text(PROPERTIES)
    return path


def explore(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.explore", "--jobs", "1", *SETTINGS, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_violation_is_printed_as_an_example_with_a_repeat_command(properties: Path) -> None:
    done = explore("--rounds", "1", "--seed", "7", str(properties))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "\n  @example(steps=['a', 'a'], seed=0)\n" in done.stdout
    assert "1 tests violated" in done.stdout
    (repeat,) = [line.partition("repeat: ")[2] for line in done.stdout.splitlines() if "repeat: " in line]
    variable, command, test, *words = shlex.split(repeat)
    assert command == "pytest"
    name, _, value = variable.partition("=")
    again = subprocess.run(
        [sys.executable, "-m", "pytest", *SETTINGS, f"{properties}{test}", *words],
        capture_output=True,
        text=True,
        env={**os.environ, name: value},
    )
    assert again.returncode == 1
    assert "steps=['a', 'a']" in again.stdout


def test_holding_properties_are_searched_until_the_time_limit(properties: Path) -> None:
    done = explore("--minutes", "0.001", f"{properties}::test_kept")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 tests violated" in done.stdout


def test_tests_that_cannot_run_are_an_error(properties: Path) -> None:
    properties.write_text("import missing_module")
    assert explore("--rounds", "1", str(properties)).returncode == 2


def test_runs_generate_the_same_examples() -> None:
    assert settings.default is not None
    if settings.get_current_profile_name() != "explore":
        assert settings.default.derandomize
    assert len(providers._get_local_constants()) == 0
