# SPDX-License-Identifier: Apache-2.0
"""Every feature gate is upstream's, and is honored somewhere or has a reason why it changes nothing."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import kubeloop
from kubeloop.api.features.effects import (
    APISERVER,
    CONTROLLER_MANAGER,
    HONORED,
    KUBELET,
    NO_EFFECT,
    PARTIAL_EFFECT,
    SCHEDULER,
    ineffective_gates,
    unclassified_gates,
)
from kubeloop.api.features.gates import (
    DEFAULT_FEATURES,
    STAGES,
    InvalidFeatureGate,
    feature_states,
    parse_feature_gates,
)

FACTS = Path(__file__).parents[3] / "facts" / "feature-gates.tsv"
# Gates of client-go, which upstream's list of the components' gates leaves out.
CLIENT_GATES = (
    "AtomicFIFO ClientsAllowCARotation ClientsAllowCBOR ClientsAllowTLSCacheGC ClientsPreferCBOR InOrderInformers "
    "InOrderInformersBatchProcess InformerResourceVersion UnlockWhileProcessingFIFO WatchListClient"
)


def test_stages_defaults_and_locks_are_upstreams() -> None:
    recorded = dict(line.split("\t", 1) for line in FACTS.read_text().splitlines())
    ours = {
        name: f"{stage.name}\t{str(stage.default).lower()}\t{str(stage.lock_to_default).lower()}"
        for name, stage in STAGES.items()
    }
    assert {name: text for name, text in ours.items() if name not in CLIENT_GATES.split()} == recorded
    assert len(ours) == 252


def test_every_gate_is_honored_locked_or_has_a_reason() -> None:
    assert unclassified_gates() == frozenset()
    named = Counter(name for names in NO_EFFECT.values() for name in names.split())
    assert [name for name, times in named.items() if times > 1] == []
    honored = {name for names in HONORED.values() for name in names.split()}
    assert honored & set(named) == set()
    assert (honored | set(named)) <= set(STAGES)
    assert [name for name in honored | set(named) if STAGES[name].lock_to_default] == []
    assert {name for names in PARTIAL_EFFECT.values() for name in names.split()} <= honored


def test_what_is_said_to_be_honored_is_asked_somewhere_and_nothing_else_is() -> None:
    root = Path(kubeloop.__file__).parent
    tables = {root / "api" / "features" / name for name in ("known_features.py", "effects.py")}
    modules = [path for path in root.rglob("*.py") if path not in tables and "generated" not in path.parts]
    words = Counter(word for path in modules for word in re.findall(r"\b[A-Z]\w+\b", path.read_text()))
    honored = {name for names in HONORED.values() for name in names.split()}
    assert [name for name in honored if not words[name]] == []
    asked = {
        name
        for path in modules
        for name in re.findall(r"(?:is_enabled\(|feature_gate=|gates=\(|gate=)\"(\w+)\"", path.read_text())
    }
    assert [name for name in asked & set(STAGES) if name not in honored and not STAGES[name].lock_to_default] == []


@pytest.mark.parametrize(
    ("gates", "components", "texts"),
    [
        ("", (SCHEDULER,), []),
        ("HPAScaleToZero=true", (SCHEDULER,), []),  # its default
        ("HPAScaleToZero=false", (CONTROLLER_MANAGER,), []),
        (
            "HPAScaleToZero=false",
            (SCHEDULER,),
            ["feature gate HPAScaleToZero=false has no effect: only kube-controller-manager honors it"],
        ),
        (
            "WatchList=false",
            (APISERVER,),
            ["feature gate WatchList=false has no effect: the feature cannot be turned off"],
        ),
        (
            "EventedPLEG=true",
            (KUBELET,),
            ["feature gate EventedPLEG=true has no effect: the simulated nodes have no such part"],
        ),
        ("GenericWorkload=true,WorkloadWithJob=true", tuple(HONORED), []),
        (
            "WorkloadWithJob=true,GenericWorkload=true",
            (SCHEDULER,),
            [
                "feature gate WorkloadWithJob=true has no effect: "
                "only kube-apiserver and kube-controller-manager honors it"
            ],
        ),
        (
            "CSIVolumeHealth=true",
            (APISERVER,),
            ["feature gate CSIVolumeHealth=true has a partial effect: no node reports the health of volumes"],
        ),
        (
            "CSIVolumeHealth=true",
            (SCHEDULER,),
            [
                "feature gate CSIVolumeHealth=true has no effect: "
                "only kube-apiserver honors it, and no node reports the health of volumes"
            ],
        ),
        ("EvictionRequestAPI=true", (APISERVER,), []),
    ],
)
def test_a_gate_without_effect_is_named_with_the_reason(
    gates: str, components: tuple[str, ...], texts: list[str]
) -> None:
    assert list(ineffective_gates(parse_feature_gates([gates]), *components)) == texts


@pytest.mark.parametrize("name", [name for name, stage in STAGES.items() if stage.lock_to_default])
def test_a_locked_gate_cannot_be_changed(name: str) -> None:
    only = str(STAGES[name].default).lower()
    wanted = str(not STAGES[name].default).lower()
    assert parse_feature_gates([f"{name}={only}"]) == DEFAULT_FEATURES
    message = f"cannot set feature gate {name} to {wanted}, feature is locked to {only}"
    with pytest.raises(InvalidFeatureGate, match=f"^{message}$"):
        parse_feature_gates([f"{name}={wanted}"])


def test_metrics_show_every_gate_with_its_stage() -> None:
    states = feature_states(parse_feature_gates(["GenericWorkload=true"]))
    assert states["GenericWorkload", "BETA"] == 1
    assert states["DRADeviceTaints", ""] == 1
    assert states["EventedPLEG", "ALPHA"] == 0
    assert states["GitRepoVolumeDriver", "DEPRECATED"] == 0
    assert len(states) == len(STAGES) + 2
