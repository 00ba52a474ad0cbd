"""Feature gates: those enabled by `--feature-gates`, and those in effect for strategies and validation.

Strategies and validation are pure functions of objects, without a parameter for the server they run in. So a server
sets its features before it calls them, and servers with different features can alternate in one process.
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

    on: frozenset[str]

    def is_on(self, name: str) -> bool:
        """Return True if a feature is enabled."""
        return name in self.on


DEFAULT_FEATURES: Final = Features(frozenset(name for name, stage in STAGES.items() if stage.on))
_in_force = DEFAULT_FEATURES


def parse_feature_gates(said: Iterable[str]) -> Features:
    """Parse `Name=true` settings into the enabled features; raises UnusableGate."""
    words = dict(_word(one) for text in said for one in text.split(",") if one)
    if not words:
        return DEFAULT_FEATURES
    chosen = {name: stage.on for name, stage in STAGES.items()}
    for word, value in words.items():
        if word in _WHOLE_STAGES:
            chosen |= {name: value for name, stage in STAGES.items() if stage.name == _WHOLE_STAGES[word]}
    chosen |= {word: value for word, value in words.items() if word not in _WHOLE_STAGES}
    for name, needed in DEPENDENCIES.items():
        off = [one for one in needed.split() if not chosen[one]]
        if chosen[name] and off:
            raise InvalidFeatureGate(f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]")
    return Features(frozenset(name for name, value in chosen.items() if value))


def set_process_features(features: Features) -> None:
    """Set the features that strategies and validation use from now on (process-wide)."""
    global _in_force
    _in_force = features


def is_enabled(name: str) -> bool:
    """Return True if a feature is currently in effect."""
    return name in _in_force.on


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
    if stage.locked and stage.on != (value in _TRUE):
        only, wanted = str(stage.on).lower(), str(value in _TRUE).lower()
        raise InvalidFeatureGate(f"cannot set feature gate {name} to {wanted}, feature is locked to {only}")
    return name, value in _TRUE
