# SPDX-License-Identifier: Apache-2.0
"""Checks that everything public has a docstring that begins with a verb or a noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kubeloop"
OPENINGS = re.compile(r"(What|Which|Who|Whom|Whose|Whether|Where|Why|How|Whoever|Somebody|Nobody|Those|That)\b")

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "generated" not in path.parts)


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sources():
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def documented(tree: ast.Module) -> Iterator[tuple[str, Documented]]:
    """Yield everything that may have a docstring, by name."""
    yield "", tree
    todo: list[tuple[str, Documented]] = [("", tree)]
    while todo:
        prefix, parent = todo.pop()
        for node in parent.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + node.name, node
                if isinstance(node, ast.ClassDef):
                    todo.append((f"{prefix}{node.name}.", node))


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def test_everything_public_has_a_docstring() -> None:
    missing = [
        f"{path}::{name}"
        for path, tree in trees()
        for name, node in documented(tree)
        if is_public(name) and ast.get_docstring(node) is None
    ]
    assert missing == []


@pytest.mark.parametrize("path", [str(path.relative_to(ROOT)) for path in sources()])
def test_docstrings_start_with_verb_or_noun(path: str) -> None:
    tree = ast.parse((ROOT / path).read_text())
    opened = {name: (ast.get_docstring(node) or "").split("\n")[0] for name, node in documented(tree)}
    assert {name: line for name, line in opened.items() if OPENINGS.match(line) or "TODO" in line} == {}


def test_package_docstrings_name_existing_members() -> None:
    wrong = []
    for init in sorted(PACKAGE.rglob("__init__.py")):
        text = ast.get_docstring(ast.parse(init.read_text())) or ""
        for module, name in re.findall(r"\b([a-z_]+)\.([A-Z]\w+|[a-z]+_[a-z_]+)\b", text):
            source = init.parent / f"{module}.py"
            if source.exists() and not re.search(rf"\b{name}\b", source.read_text()):
                wrong.append(f"{init.relative_to(ROOT)}: {module}.{name}")
        folders = (init.parent, init.parent.parent)
        named = re.findall(r"\b([a-z_]+\.py)\b", text)
        missing = [module for module in named if not any((folder / module).exists() for folder in folders)]
        wrong += [f"{init.relative_to(ROOT)}: {module}" for module in missing]
    assert wrong == []
