# SPDX-License-Identifier: Apache-2.0
"""Whatever a client sends, validation answers with errors and never fails itself."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeloop.api import codec, kinds
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.meta.field_path import FieldError
from kubeloop.api.scalars import wire
from kubeloop.api.validation import RULES, ObjectValidator

VALIDATOR = ObjectValidator(DEFAULT_FEATURES)

GROUPS = ("core_v1", "apps_v1", "batch_v1")
SUBRESOURCES = ("", "status", "finalize", "ephemeralcontainers", "resize", "nothing")
WORDS = st.sampled_from(
    ["", "a", "A b", "..", "/a", "a/b/c", "10.0.0.1", "::1", "10.0.0.0/8", "None", "5%", "-", "é", "x" * 300, "1-2,3",
     "Always", "Never", "Exists", "In", "v1", "Indexed", "LoadBalancer", "RollingUpdate", "Localhost", "TZ=0",
     "* * * * *"]
)  # fmt: skip
NUMBERS = st.sampled_from([-1, 0, 1, 2, 80, 70000, 2**31 - 1])
AMOUNTS = st.sampled_from(["-1", "0", "1", "500m", "1Gi", "3e3"])
NAMES = st.sampled_from(["cpu", "memory", "storage", "hugepages-2Mi", "hugepages-x", "a.b/c", "pods", "", "a b"])


def types_of_rules() -> list[Any]:
    modules = {f"{one.definition.split('.')[-3]}_{one.version}.{one.kind}": one for one in kinds.RESOURCES}
    return [modules[key].type for key in RULES if key.partition(".")[0] in GROUPS]


@cache
def values_of(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    """Plain values that decode into a type, with rare and odd ones among them."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is wire.Quantity:
        return AMOUNTS
    if kind in (wire.Time, wire.MicroTime):
        return st.just("2026-01-01T00:00:00.000000Z" if kind is wire.MicroTime else "2026-01-01T00:00:00Z")
    if kind in (str, bool, int, bytes, msgspec.Raw):
        odd = {str: WORDS, bool: st.booleans(), int: NUMBERS, bytes: st.just("e30="), msgspec.Raw: st.just({"a": 1})}
        return odd[kind]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return struct_of(kind, depth - 1) if depth > 0 else st.just({})
    if origin is tuple:
        return st.lists(values_of(args[0], depth), max_size=2)
    if len(args) == 2 and args[0] is str and origin is not None and "Mapping" in str(origin):
        return st.dictionaries(NAMES, values_of(args[1], depth), max_size=2)
    if args:
        real = [one for one in args if one is not type(None) and not isinstance(one, msgspec.Meta)]
        return st.one_of([values_of(one, depth) for one in real])
    return st.none()


@cache
def struct_of(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    fields = {one.encode_name: values_of(hints[one.name], depth) for one in msgspec.structs.fields(kind)}
    return st.fixed_dictionaries({}, optional=fields)


@pytest.mark.parametrize("kind", types_of_rules(), ids=lambda kind: str(kind.__name__))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_decoded_object_is_validated(kind: Any, data: st.DataObject) -> None:
    depth = 6
    pair: list[Any] = []
    for _ in range(2):
        obj = codec.from_plain(data.draw(struct_of(kind, depth)), kind)
        apply_defaults(obj)
        pair.append(obj)
    new, old = pair
    answers = [VALIDATOR.validate_create(new), *(VALIDATOR.validate_update(new, old, name) for name in SUBRESOURCES)]
    for errors in answers:
        assert all(isinstance(error, FieldError) and error.message() for error in errors)
