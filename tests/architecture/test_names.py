# SPDX-License-Identifier: Apache-2.0
"""Checks that names of modules and classes follow docs/glossary.md, and that folders stay small."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kubeloop"
MOST_MODULES = 16
# The controllers stand side by side in one folder, as upstream's do; types are generated, one module per API group.
LARGE_FOLDERS = {"controllers", "api/generated", "types"}
# Established terms that end like a gerund or a participle.
GERUNDS = {
    *("scheduling", "autoscaling", "scaling", "binding", "networking", "routing", "testing", "decoding", "streaming"),
    *("string", "defaulting", "pruning", "mutating", "validating", "sharding"),  # packages of upstream's API server
    *("mirroring", "approving", "signing", "warning"),  # names of controllers
    "keyring",  # a noun: credentials of registries
}
PARTICIPLES = {
    *("allocated", "embedded", "speed", "feed", "shared", "simulated", "projected", "elected", "unstructured"),
    *("restricted", "finished"),  # a level of the pod security standards, ttl-after-finished
}
# Reconciler is a role that each controller implements; Quantity is a value, and its form in API objects.
SHARED_CLASS_NAMES = {"Reconciler", "Quantity"}
# CRI names its messages, some of them as the API names its types.
NAMES_OF_OTHERS = "kubelet/cri/messages/"


def sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "generated" not in path.parts)


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sources():
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def test_modules_are_named_by_nouns() -> None:
    wrong = []
    for path in [*sources(), *(path.parent for path in sources() if path.name == "__init__.py")]:
        last = path.stem.rpartition("_")[2]
        if (last.endswith("ing") and last not in GERUNDS) or (last.endswith("ed") and last not in PARTICIPLES):
            wrong.append(str(path.relative_to(ROOT)))
    assert wrong == []


def test_public_class_names_are_unique() -> None:
    found = defaultdict(list)
    for path, tree in trees():
        for node in tree.body if NAMES_OF_OTHERS not in path else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    assert {name: paths for name, paths in found.items() if len(paths) > 1 and name not in SHARED_CLASS_NAMES} == {}


def test_folders_are_small() -> None:
    sizes = {folder: len(list(folder.glob("*.py"))) - 1 for folder in PACKAGE.rglob("*") if folder.is_dir()}
    large = {str(folder.relative_to(PACKAGE)): size for folder, size in sizes.items() if size > MOST_MODULES}
    assert {name: size for name, size in large.items() if name not in LARGE_FOLDERS} == {}
