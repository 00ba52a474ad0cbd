# SPDX-License-Identifier: Apache-2.0
"""Collaborators come through constructors: no object is completed from outside, no callback has a placeholder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Folders under `kubeloop`, with everything below them.
PACKAGES = ("dns", "kubelet", "scheduler", "cli/dns", "cli/kubelet", "cli/up", "testing")
# Objects of the standard library that take these settings by assignment only, by module.
ALLOWED = {
    "kubeloop/cli/dns/flags.py": {"parser"},
    "kubeloop/cli/kubelet/certificates.py": {"self.tls"},
    "kubeloop/cli/kubelet/config_flags.py": {"namespace"},  # of argparse, in an action
    "kubeloop/cli/kubelet/flags.py": {"parser", "namespace"},
    "kubeloop/cli/up/flags.py": {"parser"},
    "kubeloop/kubelet/cri/lifecycle/http_action.py": {"context"},  # of ssl, which is configured so
    "kubeloop/kubelet/simulated/files.py": {"folder", "entry"},
    "kubeloop/kubelet/simulated/shell.py": {"reader"},
}
_OWN = ("self", "cls")


@cache
def trees() -> dict[str, ast.Module]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / "kubeloop" / package).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def changed_objects(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each object other than the own one that has an attribute assigned or deleted, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            changed = ast.unparse(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr", "object.__setattr__"):
            changed = ast.unparse(node.args[0])
        else:
            continue
        if changed not in _OWN:
            yield changed, node.lineno


def placeholders(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of functions without a name that are an attribute's first value or a parameter's default."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            values = [*node.defaults, *node.kw_defaults]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            values = [node.value] if any(isinstance(one, ast.Attribute) for one in targets) else []
        else:
            continue
        yield from (value.lineno for value in values if isinstance(value, ast.Lambda))


def test_every_package_has_modules() -> None:
    assert all(any(name.startswith(f"kubeloop/{package}/") for name in trees()) for package in PACKAGES)


def test_no_module_assigns_attributes_of_other_objects() -> None:
    found = [
        f"{name}:{line}: {changed}"
        for name, tree in trees().items()
        for changed, line in changed_objects(tree)
        if changed not in ALLOWED.get(name, ())
    ]
    assert found == []


def test_every_exception_is_used() -> None:
    used = {name: {changed for changed, _ in changed_objects(tree)} for name, tree in trees().items()}
    assert {name: used.get(name) for name in ALLOWED} == ALLOWED


def test_no_callback_has_a_placeholder() -> None:
    assert [f"{name}:{line}" for name, tree in trees().items() for line in placeholders(tree)] == []


def test_checks_find_violations() -> None:
    source = """
class Part:
    def __init__(self, done=lambda: None):
        self.wake: Wake = lambda _: None
        self.part.wake = part.wake = self.wake
        setattr(other, "wake", done)
"""
    assert sorted(changed for changed, _ in changed_objects(ast.parse(source))) == ["other", "part", "self.part"]
    assert sorted(placeholders(ast.parse(source))) == [3, 4]
