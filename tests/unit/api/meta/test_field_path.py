# SPDX-License-Identifier: Apache-2.0
"""Field paths and field errors read exactly as upstream's."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldError, FieldPath

SPEC = FieldPath("spec")


def test_path_has_fields_indexes_and_keys() -> None:
    path = SPEC.child("template", "spec").child("containers").index(0).child("limits").key("cpu")
    assert str(path) == "spec.template.spec.containers[0].limits[cpu]"


def test_empty_step_is_rendered_as_brackets() -> None:
    assert str(FieldPath("")) == "[]"
    assert str(SPEC.key("")) == "spec[]"


def test_child_paths_do_not_change_their_parents() -> None:
    SPEC.child("a")
    assert str(SPEC) == "spec"
    assert SPEC.child("a") == FieldPath("spec").child("a")


class Inner(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    host_ports: tuple[int, ...] = ()
    labels: dict[str, str] = {}
    name: str = ""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (field_path.required(SPEC), "spec: Required value"),
        (field_path.required(SPEC, "pick one"), "spec: Required value: pick one"),
        (field_path.invalid(SPEC, "a\nb", "no"), 'spec: Invalid value: "a\\nb": no'),
        (field_path.invalid(SPEC, -1, "no"), "spec: Invalid value: -1: no"),
        (field_path.invalid(SPEC, True, "no"), "spec: Invalid value: true: no"),
        (field_path.invalid(SPEC, 1.5, "no"), "spec: Invalid value: 1.5: no"),
        (field_path.invalid(SPEC, 2.0, "no"), "spec: Invalid value: 2: no"),
        (field_path.invalid(SPEC, field_path.OMITTED, "no"), "spec: Invalid value: no"),
        (field_path.invalid(SPEC, None, "no"), "spec: Invalid value: null: no"),
        (
            field_path.invalid(SPEC, {"b": "<", "a": [1, "é"]}, "no"),
            'spec: Invalid value: {"a":[1,"é"],"b":"\\u003c"}: no',
        ),
        (
            field_path.invalid(SPEC, Inner((80,), {"z": "1", "a": "2"}, "n"), "no"),
            'spec: Invalid value: {"hostPorts":[80],"labels":{"a":"2","z":"1"},"name":"n"}: no',
        ),
        (field_path.type_invalid(SPEC, "x", "must be an integer"), 'spec: Invalid value: "x": must be an integer'),
        (field_path.duplicate(SPEC, "x"), 'spec: Duplicate value: "x"'),
        (field_path.not_found(SPEC, "x"), 'spec: Not found: "x"'),
        (field_path.forbidden(SPEC, "not now"), "spec: Forbidden: not now"),
        (field_path.internal(SPEC, "oh"), "spec: Internal error: oh"),
        (field_path.too_long(SPEC, 253), "spec: Too long: may not be more than 253 bytes"),
        (field_path.too_long(SPEC, 1), "spec: Too long: may not be more than 1 byte"),
        (field_path.too_long(SPEC, -1), "spec: Too long: value is too long"),
        (field_path.too_long_characters(SPEC, 5), "spec: Too long: may not be more than 5 characters"),
        (field_path.too_short(SPEC, 1), "spec: Too short: must be at least 1 character"),
        (field_path.too_many(SPEC, 17, 16), "spec: Too many: 17: must have at most 16 items"),
        (field_path.too_many(SPEC, -1, -1), "spec: Too many: has too many items"),
        (field_path.too_few(SPEC, 0, 1), "spec: Too few: 0: must have at least 1 item"),
        (field_path.required(None), "<nil>: Required value"),
    ],
)
def test_each_error_has_upstreams_message(error: FieldError, message: str) -> None:
    assert error.message() == message


def test_supported_values_keep_a_lists_order_and_sort_a_set() -> None:
    listed = field_path.not_supported(SPEC, "x", ["b", "<empty>", "a"])
    assert listed.body() == 'Unsupported value: "x": supported values: "b", "<empty>", "a"'
    assert (
        field_path.not_supported(SPEC, "x", {"b", "a"}).body() == 'Unsupported value: "x": supported values: "a", "b"'
    )
    assert field_path.not_supported(SPEC, "x", ()).body() == 'Unsupported value: "x"'


def test_messages_aggregate_once_each_and_in_brackets_when_several() -> None:
    assert field_path.aggregate(["a", "a"]) == "a"
    assert field_path.aggregate(["a", "b", "a"]) == "[a, b]"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain é 日", '"plain é 日"'),
        ('"\\', '"\\"\\\\"'),
        ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("\x80\u2028\U000e0001", '"\\u0080\\u2028\\U000e0001"'),
        ("\ud800", '"\\ufffd"'),
    ],
)
def test_text_is_quoted_with_gos_escapes(text: str, quoted: str) -> None:
    assert field_path.quote(text) == quoted


@given(st.text())
def test_quoted_text_is_always_printable(text: str) -> None:
    assert field_path.quote(text).isprintable()
