"""Which features are on, and what can't be said about them."""

from __future__ import annotations

import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES, STAGES, InvalidFeatureGate, parse_feature_gates
from kubeloop.api.features.known_features import DEPENDENCIES


def test_nothing_said_is_the_usual() -> None:
    assert parse_feature_gates([]) is parse_feature_gates(["", ","]) is DEFAULT_FEATURES
    assert DEFAULT_FEATURES.is_on("DynamicResourceAllocation")
    assert not DEFAULT_FEATURES.is_on("GenericWorkload")


@pytest.mark.parametrize(
    "said",
    [
        ["GenericWorkload=true", "DRAResourcePoolStatus=1"],
        ["GenericWorkload=T,DRAResourcePoolStatus=True"],
        ["kube:GenericWorkload=true,kube:DRAResourcePoolStatus=true"],
        ["GenericWorkload=false", " GenericWorkload = true ,DRAResourcePoolStatus=TRUE"],
    ],
)
def test_gates_are_opened_in_any_spelling_and_the_last_word_counts(said: list[str]) -> None:
    assert parse_feature_gates(said).on - DEFAULT_FEATURES.on == {"GenericWorkload", "DRAResourcePoolStatus"}


def test_a_stage_is_opened_but_for_what_else_is_said() -> None:
    found = parse_feature_gates(
        ["AllAlpha=true,AllBeta=true,DRAResourcePoolStatus=false,DRAPartitionableDevicesType=false"]
    )
    assert found.is_on("CompositePodGroup")
    assert not found.is_on("DRAResourcePoolStatus")


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
def test_what_cannot_be_said_is_refused_in_upstreams_words(said: str, message: str) -> None:
    with pytest.raises(InvalidFeatureGate) as refused:
        parse_feature_gates([said])
    assert str(refused.value) == message


def test_the_usual_lacks_nothing_that_it_needs() -> None:
    for name, needed in DEPENDENCIES.items():
        assert name in STAGES
        assert set(needed.split()) <= STAGES.keys()
        assert name not in DEFAULT_FEATURES.on or set(needed.split()) <= DEFAULT_FEATURES.on
