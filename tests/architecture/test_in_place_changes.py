# SPDX-License-Identifier: Apache-2.0
"""Frozen structs are changed in place only by the code that completes them before they are published (ADR 1)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.test_layers import MODULES, ROOT, tree_of

_BYPASS = "force_setattr"
# Packages whose modules may all modify an object, and single modules, each with the object that it owns.
COMPLETES = {
    # what a request brings, from decoding to the write
    "kubeloop.api.defaults": "the decoded object",
    "kubeloop.api.meta.object_meta": "the object to be written: its system fields",
    "kubeloop.api.scalars.wire": "the struct that is being decoded, in `__post_init__`",
    "kubeloop.api.strategy": "the object to be written; never the old one",
    "kubeloop.apiserver.admission": "the object to be written",
    "kubeloop.apiserver.apiextensions.storage": "the custom object to be written",
    "kubeloop.apiserver.decoding": "the decoded object",
    "kubeloop.apiserver.handlers.apply": "the object that results from an apply, just decoded",
    "kubeloop.apiserver.handlers.partial_patch": "the patched object: a struct of its own around parts of the old one",
    "kubeloop.apiserver.handlers.write": "the decoded object",
    "kubeloop.apiserver.registry.allocation": "the Service to be written",
    "kubeloop.apiserver.registry.create_signature": "the object to be written, restored at once",
    "kubeloop.apiserver.registry.field_manager": "the object to be written",
    "kubeloop.apiserver.registry.store": "the object to be written",
    # copies that the server decodes for itself
    "kubeloop.apiserver.apiextensions.conversion.serializer": "the object that it has just converted",
    "kubeloop.apiserver.apiextensions.definitions": "a copy of a definition, to be written",
    "kubeloop.apiserver.apiextensions.serializer": "the object that it has just decoded",
    "kubeloop.apiserver.bootstrap.writer": "its copy of a bootstrap object",
    "kubeloop.apiserver.handlers.delete": "a copy of the object, to be marked as deleted",
    "kubeloop.apiserver.registry.existing_object": "its own decoded copy of the record",
    "kubeloop.apiserver.registry.serializer": "the object that it has just decoded, or that is to be written",
    "kubeloop.apiserver.registry.storage": "the pod to be written; the written object, when it is published",
    # requests that are answered, not stored
    "kubeloop.apiserver.handlers.subresources.reviews.access_reviews": "the review of the request",
    "kubeloop.apiserver.handlers.subresources.disruption": "its caller's copy of the budget, to be written",
    "kubeloop.apiserver.handlers.subresources.eviction": "a copy of the pod, to be deleted",
    "kubeloop.apiserver.handlers.subresources.reviews.identity_reviews": "the review of the request",
    "kubeloop.apiserver.handlers.subresources.scale": "a copy of the scaled object, to be written",
    "kubeloop.apiserver.handlers.subresources.token": "the request",
    # received answers, before the caller gets them
    "kubeloop.api.responses": "the decoded object",
    "kubeloop.client.interner": "the decoded object",
    "kubeloop.api.codec": "defines the function",
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def changes_in_place(tree: ast.Module) -> bool:
    """True if a module uses the bypass by any name: called, passed on, or imported under another name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == _BYPASS:
            return True
        if isinstance(node, ast.ImportFrom) and any(alias.name == _BYPASS for alias in node.names):
            return True
    return False


def entry_of(module: str) -> str:
    """The entry of the list for a module: its own, or that of the nearest package."""
    while module and module not in COMPLETES:
        module = module.rpartition(".")[0]
    return module


def changing_modules() -> list[str]:
    return [module_of(path) for path in MODULES if _BYPASS in path.read_text() and changes_in_place(tree_of(path))]


def test_only_listed_modules_change_structs_in_place() -> None:
    assert [module for module in changing_modules() if not entry_of(module)] == []


def test_every_entry_of_the_list_is_needed() -> None:
    assert {entry_of(module) for module in changing_modules()} == set(COMPLETES)


@pytest.mark.parametrize(
    "source",
    [
        "from kubeloop.api.codec import force_setattr",
        "from msgspec.structs import force_setattr as change",
        "codec.force_setattr(obj, 'spec', None)",
        "change = msgspec.structs.force_setattr",
    ],
)
def test_each_form_of_use_is_found(source: str) -> None:
    assert changes_in_place(ast.parse(source))
