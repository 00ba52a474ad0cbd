# SPDX-License-Identifier: Apache-2.0
"""The paths of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.apiserver.apiextensions.json_path import JsonPathError, find, parse

DOCUMENT: dict[str, Any] = {
    "metadata": {"labels": {"a.b/c": "lab"}},
    "spec": {"l": ["p", "q", "r"], "c": [{"type": "Ready", "n": 1}, {"type": "Old", "n": 5}], "o": {"k": {"n": 7}}},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.l[0]", ["p"]),
        (".spec.l[-1]", ["r"]),
        (".spec.l[9]", []),
        (".spec.l[*]", ["p", "q", "r"]),
        (".spec.l[1:]", ["q", "r"]),
        (".metadata.labels.a\\.b/c", ["lab"]),
        (".metadata.labels['a.b/c']", ["lab"]),
        ('.spec.c[?(@.type=="Ready")].n', [1]),
        (".spec.c[?(@.type!='Ready')].n", [5]),
        (".spec.c[?(@.n>2)].type", ["Old"]),
        (".spec.c[?(@.missing)].type", []),
        ("..n", [1, 5, 7]),
        (".spec.o.*", [{"n": 7}]),
        (".nothing.here", []),
        (".spec.l.name", []),
    ],
)
def test_path_finds_values(path: str, found: list[Any]) -> None:
    assert find(DOCUMENT, path) == found


@pytest.mark.parametrize("path", ["spec", ".spec[", ".spec[?(", ".a]["])
def test_invalid_path_is_reported(path: str) -> None:
    with pytest.raises(JsonPathError):
        parse(path)
