# SPDX-License-Identifier: Apache-2.0
"""Filling in defaults a second time fills in nothing, whatever an object of whichever kind looks like."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec, kinds
from kubeloop.api.defaults import DEFAULTERS, apply_defaults
from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES
from kubeloop.api.kinds import Resource
from tests.unit.api.random_objects import ValueGenerator

# Of the optional kinds, those whose defaults differ from those of another version.
NEW = {name for name, where in DEFAULTERS.items() if where.startswith(("offered:", "pod_groups:"))}
OWN = [one for one in OPTIONAL_RESOURCES if "{}_{}.{}".format(*one.definition.split(".")[-3:]) in NEW]
KINDS = {f"{one.group_version} {one.kind}": one for one in (*kinds.RESOURCES, *OWN) if one.is_stored}


@pytest.mark.parametrize("resource", KINDS.values(), ids=KINDS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_defaulting_is_idempotent(resource: Resource, seed: int) -> None:
    shape: Any = msgspec.inspect.type_info(resource.type)
    obj = codec.from_plain(ValueGenerator(seed).struct(shape, 8), resource.type)
    apply_defaults(obj)
    once = codec.encode(obj)
    again = codec.decode(once, resource.type)
    apply_defaults(again)
    assert codec.encode(again) == once
