# SPDX-License-Identifier: Apache-2.0
"""Pytest plugin of `tools.explore`: shuffles tests, stops in time, reports failing cases as `@example` lines."""

from __future__ import annotations

import ast
import json
import random
import re
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

_CASE = re.compile(r"(Failing test case|Failing explicit example|Falsifying example): (?P<call>.*)", re.DOTALL)
_TIME_IS_UP = "time limit reached"
_BLOB = "@reproduce_failure"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options by which the tool steers a round."""
    group = parser.getgroup("explore")
    group.addoption("--explore-until", type=float, help="wall clock time after which no further test starts")
    group.addoption("--explore-report", type=Path, help="file that gets a JSON line for each violation")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the tests by the round's seed, so that a short search reaches each of them in turn."""
    random.Random(config.getoption("--hypothesis-seed")).shuffle(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the round after the test during which the time ran out."""
    result = yield
    if time.time() > item.config.getoption("--explore-until"):
        item.session.shouldstop = _TIME_IS_UP
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Count a round that ended early as a whole one."""
    if session.shouldstop == _TIME_IS_UP:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if session.testsfailed else pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write each failure of a test to the report."""
    report = yield
    if report.failed:
        error = call.excinfo.value if call.excinfo else None
        cases = list(_cases_of(error, item))
        case = "\n".join([one for one in cases if one.startswith("@example")] or cases) or report.longreprtext[-2000:]
        with item.config.getoption("--explore-report").open("a") as file:
            file.write(json.dumps({"test": item.nodeid, "case": case}) + "\n")
    return report


def _cases_of(error: BaseException | None, item: pytest.Item) -> Iterator[str]:
    """Return the failing cases that Hypothesis attached to an error: an `@example` line where there can be one."""
    if error is None:
        return
    for note in getattr(error, "__notes__", ()):
        if case := _CASE.search(note):
            yield _example_line(case["call"].strip(), item)
        elif _BLOB in note:
            yield note.strip()
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _cases_of(part, item)


def _example_line(source: str, item: pytest.Item) -> str:
    """Turn Hypothesis' call of the test into an `@example` decorator without fixtures and parameters."""
    try:
        call = ast.parse(source, mode="eval").body
    except SyntaxError:  # a state machine, or a value whose representation is not Python
        return source
    if not isinstance(call, ast.Call):
        return source
    fixtures = getattr(item, "fixturenames", ())
    arguments = ", ".join(ast.unparse(one) for one in call.keywords if one.arg not in fixtures)
    return f"@example({arguments})"
