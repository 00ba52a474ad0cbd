# SPDX-License-Identifier: Apache-2.0
"""The removal of rules: finds them, runs the tests that execute them, and reports those that no test notices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutate_rules import SCOPES, find_rules, python_files

RULES = """
from functools import cache

def limits(value):
    errors = []
    if value < 0:
        errors.append("must not be negative")
    if value > 9:
        errors.append("must be less than 10")
    return errors

def require(value):
    if value is None:
        raise ValueError("required")
    return value

@cache
def steps(value):
    return tuple(_steps(value))

def _steps(value):
    if value == 1:
        yield "one"
    yield from _more(value)

def _more(value):
    return ["more"] if value else []

def forward(value):
    return require(value)

def is_small_and_even(value):
    if value is None:
        return False
    return value < 10 and value % 2 == 0

class Outer:
    def validate(self, value):
        def check(limit):
            if value > limit:
                raise ValueError(f"{value} > {limit}")
        check(100)
"""
TESTS = """
import pytest
from rules import Outer, forward, is_small_and_even, limits, require, steps

def test_negative():
    assert limits(-1) == ["must not be negative"]

def test_large():
    assert limits(10)

def test_required():
    with pytest.raises(ValueError):
        require(None)
    assert require(1) == forward(1) == 1

def test_steps():
    assert steps(1) == ("one", "more")

def test_even():
    assert is_small_and_even(2) and not is_small_and_even(3)
    assert not is_small_and_even(None)

def test_nested():
    with pytest.raises(ValueError):
        Outer().validate(101)
"""
# As in tests/conftest.py: the functions to change are not among the objects that the collector looks at.
FREEZE = """
import gc

def pytest_collection_finish():
    gc.freeze()
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.py"
    path.write_text(RULES)
    (tmp_path / "test_rules.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (tmp_path / "conftest.py").write_text(FREEZE)
    return path


def _run(rules: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.mutate_rules", "--files", str(rules), "--tests", str(rules.parent)]
    return subprocess.run([*command, *options], capture_output=True, text=True)


def test_statements_that_reject_are_rules(rules: Path) -> None:
    found = [rule.text for rule in find_rules(rules, strict=False)]
    assert found == [
        "errors.append('must not be negative')",
        "errors.append('must be less than 10')",
        "raise ValueError('required')",
        "yield 'one'  ->  if False: yield",
        "yield from _more(value)  ->  if False: yield",
        "raise ValueError(f'{value} > {limit}')",
        "check(100)",
    ]


def test_in_a_strict_scope_conditions_of_results_are_rules_too(rules: Path) -> None:
    found = {rule.text for rule in find_rules(rules, strict=True)} - {
        rule.text for rule in find_rules(rules, strict=False)
    }
    assert found == {
        "return require(value)  ->  return None",
        "if value is None: return False",
        "return value < 10 and value % 2 == 0  ->  return value % 2 == 0",
        "return value < 10 and value % 2 == 0  ->  return value < 10",
    }


def test_a_removal_that_no_test_notices_is_reported(rules: Path) -> None:
    done = _run(rules)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "files: 11 rules, 1 removals unnoticed, 90.9 % noticed"
    assert lines[:-1] == [f"{rules}:35: return value < 10 and value % 2 == 0  ->  return value % 2 == 0  (1 tests)"]


def test_a_rule_that_no_test_executes_is_reported(rules: Path) -> None:
    tests = rules.parent / "test_rules.py"
    tests.write_text(TESTS.replace("limits(10)", "not limits(9)"))
    done = _run(rules, "--only", "less than")
    assert done.stdout == (
        f"{rules}:9: errors.append('must be less than 10')  (0 tests)\n"
        "files: 1 rules, 1 removals unnoticed, 0.0 % noticed\n"
    )


def test_nothing_is_concluded_from_tests_that_fail_anyway(rules: Path) -> None:
    (rules.parent / "test_rules.py").write_text("def test_broken():\n    assert False\n")
    done = _run(rules)
    assert done.returncode == 1
    assert "the tests fail without any mutation" in done.stderr


def test_a_test_that_never_ends_counts_as_noticing(rules: Path) -> None:
    rules.write_text("def until(value):\n    while True:\n        if value:\n            raise StopIteration()\n")
    (rules.parent / "test_rules.py").write_text(
        "import pytest\nfrom rules import until\n\n"
        "def test_end():\n    with pytest.raises(StopIteration):\n        until(1)\n"
    )
    done = _run(rules, "--seconds", "2")
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_arguments_are_refused() -> None:
    for arguments in ([], ["nothing"], ["--files", "a.py"]):
        done = subprocess.run([sys.executable, "-m", "tools.mutate_rules", *arguments], capture_output=True, text=True)
        assert done.returncode == 2


@pytest.mark.parametrize("name", SCOPES)
def test_every_scope_has_rules_and_tests(name: str) -> None:
    scope = SCOPES[name]
    assert all(map(Path.exists, python_files(scope.files)))
    assert all(Path(one).exists() for one in scope.tests)
    assert any(True for path in python_files(scope.files) for _ in find_rules(path, strict=scope.strict))
