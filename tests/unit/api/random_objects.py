# SPDX-License-Identifier: Apache-2.0
"""Random objects generated from the types of their fields; deterministic by seed."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from kubeloop.api.scalars import wire

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


class ValueGenerator:
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
