"""Validation answers with errors, whatever an object looks like, and never fails itself."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec, wire
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.strategy import strategy_of
from kubeloop.api.validation import RULES, validate_create, validate_update
from tests.unit.api.validation.manifests import RESOURCES

GROUPS = (
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "autoscaling",
    "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io",
    "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
)  # fmt: skip
OURS = [name for name, resource in RESOURCES.items() if resource.group in GROUPS and resource.is_stored]
TEXTS = ("", "a", "a.b", "A_b", "x/y", "10.0.0.1", "10.0.0.0/8", "*", "/", "-1", "5%", "v1", "\u00e9", "a" * 300)
PLAIN: dict[type, tuple[Any, ...]] = {
    msgspec.inspect.StrType: TEXTS,
    msgspec.inspect.IntType: (-1, 0, 1, 80, 2**31 - 1),
    msgspec.inspect.FloatType: (0.5, 1.0),
    msgspec.inspect.BoolType: (True, False),
    msgspec.inspect.NoneType: (None,),
    msgspec.inspect.BytesType: ("", "AAAA"),
    msgspec.inspect.RawType: ({}, {"a": 1}, [1], "x"),
}
SPECIAL: dict[type, tuple[str, ...]] = {
    wire.Quantity: ("0", "-1", "1", "500m", "1Gi"),
    wire.Time: ("2026-01-31T09:30:00Z",),
    wire.MicroTime: ("2026-01-31T09:30:00.000000Z",),
}


class Imagination:
    """Makes up plain values that decode as a type; deep down, fields are left out."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def value(self, kind: Any, depth: int) -> Any:
        if isinstance(kind, msgspec.inspect.StructType):
            return self.struct(kind, depth)
        if isinstance(kind, msgspec.inspect.UnionType):
            return self.value(self.random.choice(kind.types), depth)
        if isinstance(kind, msgspec.inspect.VarTupleType):
            return [self.value(kind.item_type, depth - 1) for _ in range(self.size(depth))]
        if isinstance(kind, msgspec.inspect.DictType):
            return {self.random.choice(TEXTS): self.value(kind.value_type, depth - 1) for _ in range(self.size(depth))}
        if isinstance(kind, msgspec.inspect.CustomType):
            return self.random.choice(SPECIAL[kind.cls])
        return self.random.choice(PLAIN[type(kind)])

    def size(self, depth: int) -> int:
        return self.random.randrange(3) if depth > 0 else 0

    def struct(self, kind: msgspec.inspect.StructType, depth: int) -> dict[str, Any]:
        if depth <= 0:
            return {}
        skipped = ("kind", "apiVersion", "metadata", "managedFields")
        fields = [one for one in kind.fields if one.encode_name not in skipped and self.random.random() < 0.7]
        return {one.encode_name: self.value(one.type, depth - 1) for one in fields}


def decoded(qualified: str, plain: dict[str, Any]) -> Any:
    obj = codec.from_plain({**plain, "metadata": {"name": "x", "resourceVersion": "1"}}, RESOURCES[qualified].type)
    apply_defaults(obj)
    return obj


@pytest.mark.parametrize("qualified", OURS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_validation_never_raises(qualified: str, seed: int) -> None:
    shape: Any = msgspec.inspect.type_info(RESOURCES[qualified].type)
    imagination = Imagination(seed)
    new, old = (decoded(qualified, imagination.struct(shape, 8)) for _ in range(2))
    for subresource in ("", "status", "approval"):
        assert isinstance(validate_update(new, old, subresource), list)
    strategy_of(RESOURCES[qualified]).prepare_create(new)
    for error in validate_create(new):
        assert error.message()


def test_every_kind_of_these_groups_has_rules() -> None:
    ruled = {key.rpartition(".")[2] for key in RULES}
    assert [name for name in OURS if RESOURCES[name].kind not in ruled] == []
