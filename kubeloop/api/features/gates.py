# SPDX-License-Identifier: Apache-2.0
"""Feature gates: parses `--feature-gates` into the set of enabled features.

The features belong to one server and never change. It passes them to everything that asks a gate: strategies,
validation, admission plugins, bootstrap objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kubeloop.api.features.known_features import DEPENDENCIES, GATES, FeatureStage

STAGES: Final[dict[str, FeatureStage]] = {name: stage for stage, names in GATES.items() for name in names.split()}
# Settings for all gates of a stage without their own setting.
_WHOLE_STAGES: Final = {"AllAlpha": "Alpha", "AllBeta": "Beta"}
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))
_COMPONENT: Final = "kube"


class InvalidFeatureGate(ValueError):
    """Raised for a gate that is unknown, locked, or lacks its dependencies; the message is upstream's."""


class Features(msgspec.Struct, frozen=True):
    """Set of enabled features."""

    enabled: frozenset[str]

    def is_enabled(self, name: str) -> bool:
        """Return True if a feature is enabled."""
        return name in self.enabled


DEFAULT_FEATURES: Final = Features(frozenset(name for name, stage in STAGES.items() if stage.default))


def feature_states(features: Features) -> dict[tuple[str, ...], float]:
    """Return 1 or 0 for each gate, by name and stage as metrics show them: the stage of a GA feature is empty."""
    states: dict[tuple[str, ...], float] = {
        (name, "" if stage.name == "GA" else stage.name.upper()): float(features.is_enabled(name))
        for name, stage in STAGES.items()
    }
    return {("AllAlpha", "ALPHA"): 0.0, ("AllBeta", "BETA"): 0.0, **states}


def parse_feature_gates(said: Iterable[str]) -> Features:
    """Parse `Name=true` settings into the enabled features; raises InvalidFeatureGate."""
    words = dict(_word(one) for text in said for one in text.split(",") if one)
    if not words:
        return DEFAULT_FEATURES
    chosen = {name: stage.default for name, stage in STAGES.items()}
    for word, value in words.items():
        if word in _WHOLE_STAGES:
            chosen |= {name: value for name, stage in STAGES.items() if stage.name == _WHOLE_STAGES[word]}
    chosen |= {word: value for word, value in words.items() if word not in _WHOLE_STAGES}
    for name, needed in DEPENDENCIES.items():
        off = [one for one in needed.split() if not chosen[one]]
        if chosen[name] and off:
            raise InvalidFeatureGate(f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]")
    return Features(frozenset(name for name, value in chosen.items() if value))


def _word(text: str) -> tuple[str, bool]:
    component, colon, rest = text.partition(":")
    if colon and component != _COMPONENT:
        raise InvalidFeatureGate(f"component not registered: {component}")
    name, equals, value = (part.strip() for part in (rest if colon else text).partition("="))
    if not equals:
        raise InvalidFeatureGate(f"missing bool value for {name}")
    if value not in _TRUE | _FALSE:
        why = f'strconv.ParseBool: parsing "{value}": invalid syntax'
        raise InvalidFeatureGate(f"invalid value of {name}={value}, err: {why}")
    if name in _WHOLE_STAGES:
        return name, value in _TRUE
    stage = STAGES.get(name)
    if stage is None:
        raise InvalidFeatureGate(f"unrecognized feature gate: {name}")
    if stage.lock_to_default and stage.default != (value in _TRUE):
        only, wanted = str(stage.default).lower(), str(value in _TRUE).lower()
        raise InvalidFeatureGate(f"cannot set feature gate {name} to {wanted}, feature is locked to {only}")
    return name, value in _TRUE
