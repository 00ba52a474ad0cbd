# SPDX-License-Identifier: Apache-2.0
"""Validation answers with errors, whatever an object looks like, and never fails itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.strategy import strategy_of
from kubeloop.api.validation import RULES, ObjectValidator
from tests.unit.api.random_objects import ValueGenerator
from tests.unit.api.validation.manifests import RESOURCES

VALIDATOR = ObjectValidator(DEFAULT_FEATURES)

GROUPS = (
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "autoscaling",
    "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io",
    "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
)  # fmt: skip
OURS = [name for name, resource in RESOURCES.items() if resource.group in GROUPS and resource.is_stored]


def decoded(qualified: str, plain: dict[str, Any]) -> Any:
    obj = codec.from_plain({**plain, "metadata": {"name": "x", "resourceVersion": "1"}}, RESOURCES[qualified].type)
    apply_defaults(obj)
    return obj


@pytest.mark.parametrize("qualified", OURS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_validation_never_raises(qualified: str, seed: int) -> None:
    shape: Any = msgspec.inspect.type_info(RESOURCES[qualified].type)
    imagination = ValueGenerator(seed)
    new, old = (decoded(qualified, imagination.struct(shape, 8)) for _ in range(2))
    for subresource in ("", "status", "approval"):
        assert isinstance(VALIDATOR.validate_update(new, old, subresource), list)
    strategy_of(RESOURCES[qualified]).prepare_create(new, DEFAULT_FEATURES)
    for error in VALIDATOR.validate_create(new):
        assert error.message()


def test_every_kind_of_these_groups_has_rules() -> None:
    ruled = {key.rpartition(".")[2] for key in RULES}
    assert [name for name in OURS if RESOURCES[name].kind not in ruled] == []
