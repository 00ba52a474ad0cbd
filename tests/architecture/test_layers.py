# SPDX-License-Identifier: Apache-2.0
"""Checks the import layers, and what pure code may not use."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.bounds import GIVE_UP_SECONDS
from tools.license_headers import HEADER

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kubeloop"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "generated" not in path.parts)
# Modules that would make a pure function depend on the time, the machine or the network.
_IMPURE = {"asyncio", "os", "random", "selectors", "socket", "sqlite3", "ssl", "subprocess", "threading", "time"}
# The calls by which time and chance would come in unseen, and the one module that may make them.
_HIDDEN_INPUTS = {"time.time", "time.monotonic", "time.sleep", "datetime.now", "datetime.utcnow", "date.today"}
_MAY_HIDE = re.compile(r"\b(time|datetime|date|random)\.")  # text that holds none of them need not be taken apart
_SENTENCE = re.compile(r'"""\S')
_CLOCK = PACKAGE / "clock.py"


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported_by(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_layers_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program], cwd=ROOT, capture_output=True, text=True, timeout=GIVE_UP_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_api_types_do_not_depend_on_time_or_machine() -> None:
    pure = [path for path in MODULES if path.is_relative_to(PACKAGE / "api")]
    assert {name_of(path): bad for path in pure if (bad := _IMPURE.intersection(imported_by(path)))} == {}


def test_time_and_randomness_come_from_the_clock_module() -> None:
    others = [path for path in MODULES if path != _CLOCK]
    assert {name_of(path): bad for path in others if (bad := hidden_inputs_of(path))} == {}


def hidden_inputs_of(path: Path) -> set[str]:
    if not _MAY_HIDE.search(path.read_text()):
        return set()
    tree = tree_of(path)
    calls = {dotted(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and not is_seeded(node)}
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    chance = {call for call in calls if call.startswith("random.")} if "random" in modules else set()
    return calls & _HIDDEN_INPUTS | chance


def is_seeded(call: ast.Call) -> bool:
    return dotted(call.func) == "random.Random" and bool(call.args)


def dotted(called: ast.expr) -> str:
    """`time.sleep` as it is written; empty for what is no name."""
    if isinstance(called, ast.Attribute):
        return f"{dotted(called.value)}.{called.attr}"
    return called.id if isinstance(called, ast.Name) else ""


def test_module_has_a_summary_docstring() -> None:
    assert [name_of(path) for path in MODULES if not _SENTENCE.match(path.read_text().removeprefix(HEADER))] == []


def test_module_names_are_specific() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [name_of(path) for path in MODULES if path.stem in vague] == []
