# SPDX-License-Identifier: Apache-2.0
"""Tests of signatures: equal for objects that differ in their identity only."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.apiserver.registry.create_signature import create_signature
from tests.unit.api.random_objects import ValueGenerator

POD = msgspec.inspect.type_info(Pod)


def _pod(seed: int, **meta: Any) -> Pod:
    assert isinstance(POD, msgspec.inspect.StructType)
    return codec.from_plain({**ValueGenerator(seed).struct(POD, 6), "metadata": meta}, Pod)


@given(st.integers(0, 1 << 32))
def test_identity_is_not_part_of_the_signature(seed: int) -> None:
    one = _pod(seed, name="a", uid="1", creationTimestamp="2030-01-01T00:00:00Z")
    before = codec.encode(one)
    assert create_signature(one) == create_signature(_pod(seed, name="b", uid="2"))
    assert codec.encode(one) == before


@given(st.integers(0, 1 << 32), st.integers(0, 1 << 32))
def test_pods_with_one_signature_are_equal_except_for_their_identity(seed: int, other: int) -> None:
    one, two = _pod(seed), _pod(other)
    assert (create_signature(one) == create_signature(two)) == (codec.encode(one) == codec.encode(two))


@pytest.mark.parametrize(
    "meta",
    [
        {"generateName": "a-"},
        {"namespace": "shop"},
        {"labels": {"a": "b"}},
        {"annotations": {"a": "b"}},
        {"finalizers": ["example.com/keep"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]},
        {"resourceVersion": "7"},
        {"generation": 3},
    ],
)
def test_all_other_metadata_is_part_of_the_signature(meta: dict[str, Any]) -> None:
    assert create_signature(_pod(1)) != create_signature(_pod(1, **meta))
