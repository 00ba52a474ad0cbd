# SPDX-License-Identifier: Apache-2.0
"""Remove rules one by one, and report the removals that no test notices.

    python -m tools.mutate_rules SCOPE... [--only TEXT] [--seconds N]      a scope is a name of SCOPES
    python -m tools.mutate_rules --files kubeloop/api/validation/x.py --tests tests/unit/api/validation

A rule is a statement that rejects: it raises, yields or collects an error, calls a check, or ends a function early. The
tests of a scope run once while the executed lines are recorded. Then each rule is removed in a forked process, which
runs the tests that execute its line again, the fastest first, until one fails. Exit status 1 if a removal was not
noticed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, TextIO

import pytest

_ADMISSION: Final = "kubeloop/apiserver/admission/plugins"
_AUTHORIZATION: Final = "kubeloop/apiserver/authorization"
_AUTHENTICATION: Final = "kubeloop/apiserver/authentication"
_SECURITY_TESTS: Final = ("tests/unit/apiserver/authorization", "tests/unit/apiserver/admission")
# Calls that are a rule as a whole, and methods that collect errors.
_CHECK: Final = re.compile(r"_*(check|require|demand|validate|verify|ensure|raise|reject|deny|forbid)(_|$)")
_COLLECT: Final = ("append", "extend")
# Exit statuses of a child: no test failed, one failed, or the tests did not run.
_UNNOTICED: Final = 0
_NOTICED: Final = 1
_CRASHED: Final = 99
_CachedFunction: Final[Any] = type(cache(lambda: None))


@dataclass(frozen=True, slots=True)
class Scope:
    """Files with rules, and the tests that must notice their removal; in a strict scope early returns are rules too."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    strict: bool = True


SCOPES: Final = {
    "node-restriction": Scope((f"{_ADMISSION}/node",), _SECURITY_TESTS),
    "node-authorizer": Scope((f"{_AUTHORIZATION}/node.py", f"{_AUTHORIZATION}/node_graph.py"), _SECURITY_TESTS[:1]),
    "rbac-escalation": Scope(
        (
            f"{_ADMISSION}/authorization/role_escalation.py",
            f"{_ADMISSION}/gc_fields.py",
            f"{_AUTHORIZATION}/escalation.py",
        ),
        _SECURITY_TESTS[:1],
    ),
    "references": Scope(
        (
            f"{_ADMISSION}/authorization/policy_param_authorization.py",
            f"{_ADMISSION}/authorization/resource_claim_authorization.py",
        ),
        ("tests/unit/apiserver/authorization/test_policy_params.py", "tests/scheduler/test_device_permissions.py"),
    ),
    "pod-security": Scope((f"{_ADMISSION}/pod_security",), _SECURITY_TESTS[1:]),
    "tokens": Scope(
        (
            f"{_AUTHENTICATION}/bootstrap_tokens.py",
            f"{_AUTHENTICATION}/legacy_service_account_tokens.py",
            f"{_AUTHENTICATION}/service_account_tokens.py",
            f"{_AUTHENTICATION}/__init__.py",
            "kubeloop/api/signed_tokens.py",
        ),
        ("tests/unit/apiserver/authentication", "tests/unit/api/test_signed_tokens.py"),
    ),
    "plugins": Scope((_ADMISSION,), _SECURITY_TESTS, strict=False),
    "validation": Scope(("kubeloop/api/validation",), ("tests/unit/api/validation",), strict=False),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Statement that rejects: file, line, text, its number in the walk of its file, and what replaces it."""

    path: Path
    line: int
    text: str
    number: int
    replacement: ast.stmt

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"

    def mutant(self) -> ast.Module:
        """Return the syntax tree of the file without the rule."""
        tree = ast.parse(self.path.read_text())
        target = next(node for number, node in enumerate(ast.walk(tree)) if number == self.number)
        _Replace(target, self.replacement).visit(tree)
        return ast.fix_missing_locations(tree)


def find_rules(path: Path, *, strict: bool) -> Iterator[Rule]:
    """Yield the rules of a file in order."""
    tree = ast.parse(path.read_text())
    inner = set(_statements_in_functions(tree))
    statements = [(number, node) for number, node in enumerate(ast.walk(tree)) if node in inner]
    for number, node in sorted(statements, key=lambda pair: pair[1].lineno):
        for replacement in _replacements(node, strict):
            yield Rule(path, node.lineno, _text(node, replacement), number, replacement)


def _statements_in_functions(tree: ast.Module) -> Iterator[ast.stmt]:
    for parent in ast.walk(tree):
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (node for node in ast.walk(parent) if isinstance(node, ast.stmt) and node is not parent)


def _text(node: ast.stmt, replacement: ast.stmt) -> str:
    text = " ".join(ast.unparse(node).split())
    if not isinstance(replacement, ast.Pass):
        text += f"  ->  {' '.join(ast.unparse(replacement).split())}"
    return text[:160]


def _replacements(node: ast.stmt, strict: bool) -> Iterator[ast.stmt]:
    """Yield what may stand in place of a rule: nothing, or a result without it; nothing for other statements."""
    match node:
        case ast.Raise(exc=ast.Call() | ast.Attribute()):
            yield ast.Pass()
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            # The function stays a generator, asynchronous or not.
            yield ast.If(ast.Constant(False), [ast.Expr(ast.Yield())], [])
        case ast.Expr(value=ast.Call() as call) if _name_of(call) in _COLLECT or _CHECK.match(_name_of(call)):
            yield ast.Pass()
        case ast.Expr(value=ast.Await(value=ast.Call() as call)) if _CHECK.match(_name_of(call)):
            yield ast.Pass()
        case ast.AugAssign(op=ast.Add(), value=ast.Call() | ast.List() | ast.ListComp()):
            yield ast.Pass()
        case ast.Return(value=ast.List(elts=[_, *_])):
            yield ast.Return(ast.List([], ast.Load()))
        case ast.Return(value=ast.Call() as call) if strict and _CHECK.match(_name_of(call)):
            yield ast.Return(ast.Constant(None))
        case ast.Return(value=ast.Call(func=ast.Name(id=name))) if strict and name[:1].isupper():
            yield ast.Return(ast.Constant(None))
        case ast.Return(value=ast.IfExp(orelse=ast.Constant(value=None))) if strict:
            yield ast.Return(ast.Constant(None))
        case ast.If(body=[ast.Return() | ast.Continue()], orelse=[]) if strict:
            yield ast.Pass()
        case ast.Return(value=ast.BoolOp(op=ast.And(), values=values)) if strict:
            for index in range(len(values)):
                rest = values[:index] + values[index + 1 :]
                yield ast.Return(rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest))


def _name_of(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


class _Replace(ast.NodeTransformer):
    """Replaces one statement."""

    def __init__(self, target: ast.AST, replacement: ast.stmt) -> None:
        self._target = target
        self._replacement = replacement

    def visit(self, node: ast.AST) -> Any:
        """Return the replacement of the target, and every other node as it is."""
        if node is self._target:
            return ast.copy_location(copy.deepcopy(self._replacement), node)
        return self.generic_visit(node)


class LineRecorder:
    """pytest plugin that records which tests execute which lines of some files, and how long tests take.

    Invariant: `items` and `seconds` have every test that has run while `is_recording`.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = {str(path.resolve()) for path in files}
        self.is_recording = True
        self.items: dict[str, pytest.Item] = {}
        self._test = ""
        self._modules = 0
        self._cached: list[Any] = []
        self.tests: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace one test with its fixtures."""
        if not self.is_recording:
            yield
            return
        # With the whole path, because names are relative to a folder that pytest chooses.
        self._test, started = f"{item.path}::{item.nodeid.partition('::')[2]}", time.perf_counter()
        self._clear_caches()
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(None)
            self.seconds[self._test] = time.perf_counter() - started
            self.items[self._test] = item

    def _clear_caches(self) -> None:
        """Forget cached results, so that each test executes the lines that it depends on."""
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            functions = (one for one in tracked_objects() if isinstance(one, _CachedFunction))
            self._cached = [one for one in functions if one.__wrapped__.__code__.co_filename in self._files]
        for one in self._cached:
            one.cache_clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember tests that fail."""
        if report.failed:
            self.failed.append(report.nodeid)

    def _on_call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return self._on_line if frame.f_code.co_filename in self._files else None

    def _on_line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.tests[frame.f_code.co_filename, frame.f_lineno].add(self._test)
        return self._on_line

    def tests_of(self, rule: Rule) -> list[pytest.Item]:
        """Return the tests that execute a rule, the fastest first."""
        found = self.tests.get((str(rule.path.resolve()), rule.line), set())
        return [self.items[test] for test in sorted(found, key=lambda test: (self.seconds[test], test))]


class RuleRemover:
    """pytest plugin that removes rules one by one once all tests have run, and collects the unnoticed removals."""

    def __init__(self, recorder: LineRecorder, rules: Iterable[Rule], seconds: float, output: TextIO) -> None:
        self._recorder = recorder
        self._rules = rules
        self._seconds = seconds
        self._output = output
        self.total = 0
        self.missed: list[str] = []
        self.crashed: list[str] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self) -> Iterator[None]:
        """Run the tests, then remove the rules while the session can still run tests."""
        yield
        self._recorder.is_recording = False
        if not self._recorder.failed:
            for rule in self._rules:
                self._remove(rule)

    def _remove(self, rule: Rule) -> None:
        self.total += 1
        tests = self._recorder.tests_of(rule)
        status = self._status_without(rule, tests) if tests else _UNNOTICED
        if status == _CRASHED:
            self.crashed.append(str(rule))
        if status == _UNNOTICED:
            self.missed.append(f"{rule}  ({len(tests)} tests)")
            print(self.missed[-1], file=self._output, flush=True)

    def _status_without(self, rule: Rule, tests: list[pytest.Item]) -> int:
        """Return the exit status of a process that runs tests without a rule; a test that never ends is stopped."""
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            status = _CRASHED
            with suppress(BaseException):
                # A mutant that cannot be applied counts as unnoticed, so that nobody takes it for tested.
                status = _NOTICED if apply_mutant(rule) and self._fails(tests) else _UNNOTICED
            os._exit(status)
        return _wait(child, self._seconds)

    def _fails(self, tests: list[pytest.Item]) -> bool:
        """Return True as soon as a test fails."""
        for item in tests:
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
            if self._recorder.failed:
                return True
        return False


def run_tests(tests: Iterable[str], *plugins: object) -> int:
    """Run tests in this process, silently, until one fails; returns pytest's exit status."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "--no-header"]
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        return int(pytest.main([*options, *tests], plugins=list(plugins)))


def tracked_objects() -> list[Any]:
    """Return all objects that the garbage collector tracks, with those that tests/conftest.py exempts from it."""
    gc.unfreeze()
    return gc.get_objects()


def apply_mutant(rule: Rule) -> int:
    """Give all functions of a file the mutant's code; returns how many functions changed."""
    name = str(rule.path.resolve())
    mutated = dict(_functions(compile(rule.mutant(), name, "exec")))
    original = dict(_functions(compile(rule.path.read_text(), name, "exec")))
    changed = 0
    for function in tracked_objects():
        if isinstance(function, _CachedFunction):
            function.cache_clear()  # it may hold results of the original
        if not isinstance(function, FunctionType) or function.__code__.co_filename != name:
            continue
        key = (function.__code__.co_qualname, function.__code__.co_firstlineno)
        new = mutated.get(key)
        if new is not None and new != original[key]:
            if new.co_freevars != function.__code__.co_freevars:
                new = new.replace(co_freevars=function.__code__.co_freevars)
            function.__code__ = new
            changed += 1
    return changed


def _functions(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield (inner.co_qualname, inner.co_firstlineno), inner
            yield from _functions(inner)


def _wait(child: int, seconds: float) -> int:
    """Wait for a process and return its exit status; ends it and its group after the limit."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def python_files(names: Iterable[str]) -> list[Path]:
    """Return the files of folders and single files, sorted."""
    found = [file for name in names for file in (Path(name).rglob("*.py") if Path(name).is_dir() else (Path(name),))]
    return sorted(set(found))


def unnoticed(scope: Scope, only: str, seconds: float) -> tuple[int, list[str]]:
    """Remove the rules of a scope one by one; returns their number and those that no test notices."""
    files = python_files(scope.files)
    recorder = LineRecorder(files)
    rules = [rule for path in files for rule in find_rules(path, strict=scope.strict) if only in str(rule)]
    # pytest captures the standard output itself, but not its copy.
    with os.fdopen(os.dup(1), "w") as output:
        remover = RuleRemover(recorder, rules, seconds, output)
        status = run_tests(scope.tests, recorder, remover)
    if status != 0:
        raise SystemExit(f"the tests fail without any mutation: {', '.join(recorder.failed) or status}")
    if remover.crashed:
        raise SystemExit(f"the tests cannot run without {', '.join(remover.crashed)}")
    return remover.total, remover.missed


def main(arguments: list[str]) -> int:
    """Run the given scopes; returns the exit status."""
    parser = argparse.ArgumentParser(description="Remove rules one by one, and report removals that no test notices.")
    parser.add_argument("scopes", nargs="*", metavar="SCOPE", help=f"one of {', '.join(SCOPES)}")
    parser.add_argument("--files", nargs="+", default=[], help="files or folders with rules, instead of a scope")
    parser.add_argument("--tests", nargs="+", default=[], help="tests of these files")
    parser.add_argument("--lenient", action="store_true", help="early returns in these files are no rules")
    parser.add_argument("--only", default="", metavar="TEXT", help="rules whose place or text contains this")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for the tests of one rule (default: 60)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.scopes if name not in SCOPES]
    if unknown or bool(options.files) != bool(options.tests) or bool(options.scopes) == bool(options.files):
        parser.error(f"unknown scope {unknown[0]}" if unknown else "give scopes, or --files and --tests")
    if len(options.scopes) > 1:
        # One process for each, because tests leave traces in theirs.
        more = ["--only", options.only, "--seconds", str(options.seconds)]
        commands = ([sys.executable, "-m", "tools.mutate_rules", name, *more] for name in options.scopes)
        return max(subprocess.run(command, check=False).returncode for command in commands)
    name = options.scopes[0] if options.scopes else "files"
    scope = SCOPES.get(name) or Scope(tuple(options.files), tuple(options.tests), not options.lenient)
    total, missed = unnoticed(scope, options.only, options.seconds)
    noticed = 100 * (total - len(missed)) / total if total else 100.0
    print(f"{name}: {total} rules, {len(missed)} removals unnoticed, {noticed:.1f} % noticed", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
