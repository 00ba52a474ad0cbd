# SPDX-License-Identifier: Apache-2.0
"""Tests of the fields that a request may set: exclusion and inclusion."""

from __future__ import annotations

from kubeloop.api.apply.field_filters import exclude_fields, include_fields

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


def test_exclude_removes_children() -> None:
    left = exclude_fields(("status",), ("spec", "containers"))(POD)
    assert left == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:nodeName": {}}}


def test_include_keeps_parents_and_children() -> None:
    left = include_fields(("spec", "containers", "*", "resources"))(POD)
    item = {".": {}, "f:resources": {".": {}, "f:limits": {"f:cpu": {}}}}
    assert left == {"f:spec": {"f:containers": {".": {}, 'k:{"name":"c"}': item}}}


def test_include_without_match_is_empty() -> None:
    assert include_fields(("data",))(POD) == {}
    assert include_fields(("spec", "ephemeralContainers"))(POD) == {}
