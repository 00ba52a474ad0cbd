# SPDX-License-Identifier: Apache-2.0
"""Tests of feature gates and rejected settings."""

from __future__ import annotations

import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES, STAGES, InvalidFeatureGate, parse_feature_gates
from kubeloop.api.features.known_features import DEPENDENCIES


def test_no_flags_give_the_defaults() -> None:
    assert parse_feature_gates([]) is parse_feature_gates(["", ","]) is DEFAULT_FEATURES
    assert DEFAULT_FEATURES.is_enabled("DynamicResourceAllocation")
    assert not DEFAULT_FEATURES.is_enabled("GenericWorkload")


@pytest.mark.parametrize(
    "said",
    [
        ["GenericWorkload=true", "DRAResourcePoolStatus=1"],
        ["GenericWorkload=T,DRAResourcePoolStatus=True"],
        ["kube:GenericWorkload=true,kube:DRAResourcePoolStatus=true"],
        ["GenericWorkload=false", " GenericWorkload = true ,DRAResourcePoolStatus=TRUE"],
    ],
)
def test_gates_accept_any_boolean_form_and_the_last_one_wins(said: list[str]) -> None:
    assert parse_feature_gates(said).enabled - DEFAULT_FEATURES.enabled == {"GenericWorkload", "DRAResourcePoolStatus"}


def test_stage_is_enabled_except_for_explicit_gates() -> None:
    found = parse_feature_gates(
        ["AllAlpha=true,AllBeta=true,DRAResourcePoolStatus=false,DRAPartitionableDevicesType=false"]
    )
    assert found.is_enabled("CompositePodGroup")
    assert not found.is_enabled("DRAResourcePoolStatus")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("NoSuchGate=true", "unrecognized feature gate: NoSuchGate"),
        ("GenericWorkload", "missing bool value for GenericWorkload"),
        (
            "GenericWorkload=yes",
            'invalid value of GenericWorkload=yes, err: strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        (
            "DynamicResourceAllocation=false",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
        (
            "WorkloadWithJob=true",
            "WorkloadWithJob is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        ("other:GenericWorkload=true", "component not registered: other"),
    ],
)
def test_invalid_gates_report_upstreams_message(said: str, message: str) -> None:
    with pytest.raises(InvalidFeatureGate) as refused:
        parse_feature_gates([said])
    assert str(refused.value) == message


def test_default_gates_satisfy_their_dependencies() -> None:
    for name, needed in DEPENDENCIES.items():
        assert name in STAGES
        assert set(needed.split()) <= STAGES.keys()
        assert name not in DEFAULT_FEATURES.enabled or set(needed.split()) <= DEFAULT_FEATURES.enabled
