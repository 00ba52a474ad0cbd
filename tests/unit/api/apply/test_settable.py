"""Which fields a request may set: all but some, or nothing but some."""

from __future__ import annotations

from kubeloop.api.apply.settable import exclude_fields, include_fields

POD = {
    "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
    "f:spec": {
        "f:containers": {
            ".": {},
            'k:{"name":"c"}': {".": {}, "f:image": {}, "f:resources": {".": {}, "f:limits": {"f:cpu": {}}}},
        },
        "f:nodeName": {},
    },
    "f:status": {"f:phase": {}},
}


def test_all_but_some_leaves_out_what_is_below_them() -> None:
    left = exclude_fields(("status",), ("spec", "containers"))(POD)
    assert left == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:nodeName": {}}}


def test_nothing_but_some_keeps_the_way_to_them_and_all_below() -> None:
    left = include_fields(("spec", "containers", "*", "resources"))(POD)
    item = {".": {}, "f:resources": {".": {}, "f:limits": {"f:cpu": {}}}}
    assert left == {"f:spec": {"f:containers": {".": {}, 'k:{"name":"c"}': item}}}


def test_nothing_is_left_where_nothing_fits() -> None:
    assert include_fields(("data",))(POD) == {}
    assert include_fields(("spec", "ephemeralContainers"))(POD) == {}
