# SPDX-License-Identifier: Apache-2.0
"""State of a process: servers in one process share nothing that can change, except what is listed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.test_layers import MODULES, ROOT, tree_of

# Module-level objects that change after the import, by `module:name`, each with the reason why they may be shared.
MUTABLE_STATE = {
    "kubeloop.api.apply.fields.fieldset:LEAF": "constant: the empty tree, which no function changes",
    "kubeloop.api.apply.shape:FREE_FORM": "its plans are pure functions of field names, and bounded in number and size",
    "kubeloop.api.errors:ApiError.by_reason": "filled when the subclasses are defined",
    "kubeloop.api.validation.pods.spec:_NO_VOLUMES": "constant: an empty mapping",
    "kubeloop.runtime.informer.equivalence_groups:_NONE": "constant: an empty mapping",
    "kubeloop.api.apply.shape:_SHAPES": "weak keys: the compiled form of a schema node lives as long as the node",
    "kubeloop.apiserver.decoding.fast_check:_tables": "one table for each built-in type; types contain themselves",
}
# Unbounded caches of functions with parameters, with the reason why their size is limited.
_TYPES = "one entry for each struct class"
_DEFINITIONS = "one entry for each built-in type; an unknown name raises"
_RESOURCES = "one entry for each built-in resource"
UNBOUNDED_CACHES = {
    "kubeloop.api.codec:decoder_of": _TYPES,
    "kubeloop.api.defaults:_defaulter_of": _TYPES,
    "kubeloop.api.expressions.access:_environment": "three names of variables",
    "kubeloop.api.expressions.admission:_base": "three booleans",
    "kubeloop.api.protobuf.table:_read": "two files of the package",
    "kubeloop.api.protobuf.table:message_of": _DEFINITIONS,
    "kubeloop.api.responses:object_decoder": "one entry for each kind that a client of the process uses",
    "kubeloop.api.schema:_read": "two files of the package",
    "kubeloop.api.schema:node_of": _DEFINITIONS,
    "kubeloop.api.strategy:_load": "one entry for each line of a literal table",
    "kubeloop.api.validation.shared.go_values:_attributes": _TYPES,
    "kubeloop.api.validation.shared.internal_form:_attributes": _TYPES,
    "kubeloop.api.validation.shared.tags:_attributes": _TYPES,
    "kubeloop.api.warnings:_warnings_of": _TYPES,
    "kubeloop.apiserver.admission.plugins.pod_security.evaluation:_checks": "levels times known minor versions",
    "kubeloop.apiserver.bootstrap.policy_notation:parse_rule": "one entry for each line of a literal table",
    "kubeloop.apiserver.decoding.go_shapes:shape_of": _DEFINITIONS,
    "kubeloop.apiserver.handlers.partial_patch:_has_only_parts": _TYPES,
    "kubeloop.apiserver.registry.field_manager:_all_fields_except": "one entry for each strategy",
    "kubeloop.apiserver.registry.field_manager:_has_fixed_schema": _RESOURCES,
    "kubeloop.apiserver.registry.field_manager:_only_fields": "one entry for each strategy",
    "kubeloop.apiserver.registry.serializer:stored_type_of": _RESOURCES,
    "kubeloop.apiserver.registry.versions:_conversion_under": _RESOURCES,
    "kubeloop.client.discovery.rest_mapper:find_built_in": "one entry for each kind that a client of the process uses",
    "kubeloop.grpc.message:_fields_of": "one entry for each class of messages",
    "kubeloop.scheduler.queue.cluster_event:_resource_label": "one entry for each resource that plugins name",
    "kubeloop.testing.plane:bootstrap_objects": "one entry for each configuration of a test run",
    "kubeloop.testing.plane:config_of": "one entry for each configuration of a test run",
}

_LITERALS = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set, ast.SetComp)
_CONTAINERS = {
    "bytearray", "count", "Counter", "defaultdict", "deque", "dict", "list", "OrderedDict", "Queue", "set",
    "SimpleQueue", "WeakKeyDictionary", "WeakSet", "WeakValueDictionary",
}  # fmt: skip
_EMPTY = {"defaultdict"}  # even with arguments
_MUTATORS = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
    "setdefault", "update",
}  # fmt: skip


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def called_name(node: ast.AST | None) -> str:
    """The last part of the name of a called function; empty for anything but a call."""
    if not isinstance(node, ast.Call):
        return ""
    called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def is_container(value: ast.AST | None) -> bool:
    return isinstance(value, _LITERALS) or called_name(value) in _CONTAINERS


def is_empty_container(value: ast.AST | None) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    return isinstance(value, ast.Call) and is_container(value) and (not value.args or called_name(value) in _EMPTY)


def assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                yield target.id, node.value


def changed_names(tree: ast.Module) -> set[str]:
    """Names of objects that functions of a module change in place; not their parameters."""
    inside = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    changed: set[str] = set()
    parameters: set[str] = set()
    for node in (node for part in inside for node in ast.walk(part)):
        if isinstance(node, ast.arg):
            parameters.add(node.arg)
        elif name := changed_by(node):
            changed.add(name)
    return changed - parameters


def changed_by(node: ast.AST) -> str:
    owner: ast.AST | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
        owner = node.func.value
    elif called_name(node) == "next" and isinstance(node, ast.Call) and node.args:
        owner = node.args[0]
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        owner = node.value
    return owner.id if isinstance(owner, ast.Name) else ""


def test_no_function_rebinds_a_global() -> None:
    assert [
        f"{module_of(path)}:{node.lineno}"
        for path in MODULES
        if "global " in path.read_text()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Global)
    ] == []


@cache
def stateful_classes() -> frozenset[str]:
    """Return classes whose instances hold containers that start empty: caches, queues, registries."""
    return frozenset(
        node.name
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Assign | ast.AnnAssign) and is_empty_container(inner.value)
        for target in (inner.targets if isinstance(inner, ast.Assign) else [inner.target])
        if isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self"
    )


def is_field(node: ast.stmt, owner: ast.ClassDef) -> bool:
    """True for the default of a field of a struct, which each instance gets a copy of."""
    return isinstance(node, ast.AnnAssign) and bool(owner.bases) and "ClassVar" not in ast.unparse(node.annotation)


def mutable_state_of(tree: ast.Module) -> Iterator[str]:
    found = dict(assignments(tree.body))
    yield from (name for name, value in found.items() if is_empty_container(value) or is_stateful(value))
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            shared = [one for one in node.body if not is_field(one, node)]
            yield from (f"{node.name}.{name}" for name, value in assignments(shared) if is_empty_container(value))
    shared_names = {name for name, value in found.items() if is_container(value)} | set(imported_constants(tree))
    if shared_names:
        yield from shared_names & changed_names(tree)


def is_stateful(value: ast.expr) -> bool:
    return called_name(value) in stateful_classes()


def imported_constants(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kubeloop"):
            yield from (alias.name for alias in node.names if alias.name.isupper())


def test_mutable_module_state_is_listed() -> None:
    found = {f"{module_of(path)}:{name}" for path in MODULES for name in mutable_state_of(tree_of(path))}
    assert found == set(MUTABLE_STATE)


def unbounded_caches_of(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.args.args and any(map(is_unbounded, node.decorator_list)):
            yield node.name
    for name, value in assignments(tree.body):
        if isinstance(value, ast.Call) and is_unbounded(value.func):
            yield name


def is_unbounded(decorator: ast.expr) -> bool:
    """True for `cache` and `lru_cache(None)`."""
    if isinstance(decorator, ast.Call):
        sizes = [*decorator.args, *(keyword.value for keyword in decorator.keywords if keyword.arg == "maxsize")]
        return called_name(decorator) == "lru_cache" and any(getattr(one, "value", 0) is None for one in sizes)
    return (decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")) == "cache"


def test_unbounded_caches_are_listed() -> None:
    found = {f"{module_of(path)}:{name}" for path in MODULES for name in unbounded_caches_of(tree_of(path))}
    assert found == set(UNBOUNDED_CACHES)


@pytest.mark.parametrize(
    "source",
    [
        "KNOWN = {}",
        "KNOWN: dict[str, int] = {}",
        "KNOWN = WeakKeyDictionary()",
        "KNOWN = defaultdict(list)",
        "NUMBERS = count()",
        "KNOWN = {'a': 1}\ndef f():\n    KNOWN['b'] = 2",
        "KNOWN = ['a']\ndef f():\n    KNOWN.append('b')",
        "CACHE = PodCreateCache(None)",
        "class Cache:\n    known = {}",
        "class Cache(Base):\n    known: ClassVar[dict[str, str]] = {}",
        "from kubeloop.api.strategy import STRATEGIES\ndef f():\n    STRATEGIES.pop('a')",
    ],
)
def test_each_form_of_state_is_found(source: str) -> None:
    assert list(mutable_state_of(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ["TABLE = {'a': 1}", "NAMES = set('ab')", "def f(TABLE):\n    TABLE['b'] = 2", "TABLE = {}.get"],
)
def test_constants_are_not_reported_as_state(source: str) -> None:
    assert list(mutable_state_of(ast.parse(source))) == []


@pytest.mark.parametrize("decorator", ["cache", "functools.cache", "lru_cache(None)", "lru_cache(maxsize=None)"])
def test_each_form_of_unbounded_cache_is_found(decorator: str) -> None:
    assert list(unbounded_caches_of(ast.parse(f"@{decorator}\ndef f(text): ..."))) == ["f"]
