# SPDX-License-Identifier: Apache-2.0
"""The public names: documented, importable without the server, and all that examples and documents import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "public-api.md"
FACADE = ("kubeloop.operator", "kubeloop.client", "kubeloop.testing", "kubeloop.scheduler.framework", "kubeloop.types")
TYPES = [f"kubeloop.types.{path.stem}" for path in sorted((ROOT / "kubeloop" / "types").glob("*_v*.py"))]
GENERATED = ROOT / "kubeloop" / "api" / "generated"
_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## .*\n\n`(kubeloop[\w.]*)`", re.MULTILINE)
_ROW = re.compile(r"^\| `(\w+)` \| \S", re.MULTILINE)


def programs() -> list[tuple[str, str]]:
    """Yield every example and every Python block of the documents, with its location."""
    examples = [(str(path.relative_to(ROOT)), path.read_text()) for path in sorted((ROOT / "examples").rglob("*.py"))]
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    blocks = [
        (f"{path.relative_to(ROOT)}:{number}", dedent(block))
        for path in documents
        for number, block in enumerate(_BLOCK.findall(path.read_text()), 1)
    ]
    return examples + blocks


def imports_of(text: str) -> list[tuple[str, str]]:
    """Modules of kubeloop that a program imports, each with the imported name; empty for the module itself."""
    found: list[tuple[str, str]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
    return [(module, name) for module, name in found if module.partition(".")[0] == "kubeloop"]


def documented_names() -> dict[str, list[str]]:
    """The names in the tables of the document, by module."""
    parts = re.split(r"^(?=## )", DOCUMENT.read_text(), flags=re.MULTILINE)
    return {match[1]: _ROW.findall(part) for part in parts if (match := _SECTION.match(part))}


@pytest.mark.parametrize(("place", "text"), [pytest.param(*one, id=one[0]) for one in programs()])
def test_examples_and_documents_import_public_names_only(place: str, text: str) -> None:
    for module, name in imports_of(text):
        assert module in (*FACADE, *TYPES), f"{place} imports {module}"
        assert not name or name in import_module(module).__all__, f"{place} imports {name} from {module}"


@pytest.mark.parametrize("program", ["02_mirror/mirror.py", "03_website/website.py"])
def test_controllers_need_the_operator_module_and_types_only(program: str) -> None:
    modules = {module for module, _ in imports_of((ROOT / "examples" / program).read_text())}
    assert {module for module in modules if not module.startswith("kubeloop.types.")} == {"kubeloop.operator"}


def test_types_of_cluster_methods_are_public() -> None:
    public = {name for module in FACADE for name in import_module(module).__all__}
    tree = ast.parse((ROOT / "kubeloop" / "testing" / "cluster.py").read_text())
    ours = {name for module, name in imports_of(ast.unparse(tree)) if module.startswith("kubeloop.")}
    (cluster,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Cluster")
    methods = [one for one in cluster.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
    used = {
        name.id
        for method in methods
        for hint in [method.returns, *(arg.annotation for arg in [*method.args.args, *method.args.kwonlyargs])]
        if hint is not None
        for name in ast.walk(hint)
        if isinstance(name, ast.Name)
    }
    assert {"Wire", "NodeShape"} <= used
    assert (used & ours) - public == set()


def test_examples_import_something() -> None:
    assert sum(bool(imports_of(text)) for _, text in programs()) > 8


@pytest.mark.parametrize("module", FACADE[:-1])
def test_documented_names_are_the_public_ones(module: str) -> None:
    assert sorted(documented_names()[module]) == sorted(import_module(module).__all__)


def test_types_are_documented() -> None:
    text = DOCUMENT.read_text()
    assert [module for module in TYPES if f"| `{module}` |" not in text] == []
    assert [name for name in import_module("kubeloop.types").__all__ if f"| `{name}` |" not in text] == []


@pytest.mark.parametrize("module", [*FACADE, *TYPES])
def test_public_names_exist(module: str) -> None:
    imported = import_module(module)
    assert [name for name in imported.__all__ if not hasattr(imported, name)] == []


def test_types_are_all_generated_structs() -> None:
    assert [module.rpartition(".")[2] for module in TYPES] == sorted(path.stem for path in GENERATED.glob("*_v*.py"))
    for module in TYPES:
        generated = ast.parse((GENERATED / f"{module.rpartition('.')[2]}.py").read_text())
        structs = [node.name for node in generated.body if isinstance(node, ast.ClassDef)]
        assert sorted(import_module(module).__all__) == sorted(structs)


@pytest.mark.parametrize(("module", "excluded"), [
    ("kubeloop.operator", ("kubeloop.apiserver", "kubeloop.store", "kubeloop.scheduler", "kubeloop.kubelet", "numpy")),
    ("kubeloop.client", ("kubeloop.apiserver", "kubeloop.store", "kubeloop.runtime", "kubeloop.types")),
    ("kubeloop.cli.main", ("kubeloop.operator", "kubeloop.types")),
])  # fmt: skip
def test_import_does_not_load(module: str, excluded: tuple[str, ...]) -> None:
    script = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()
    assert [name for name in loaded if name in excluded or name.startswith(tuple(f"{one}." for one in excluded))] == []
