# SPDX-License-Identifier: Apache-2.0
"""Stage file: directions for the containers of many pods, instead of annotations on each.

    - match: {namespace: shop, labels: app=web, image: "nginx:*", container: app, node: "n1*"}
      chance: 0.1
      do: {exit-after: 30s, exit-code: "1"}

A rule applies to the containers that match all its patterns (with `*` as wildcard), with its chance, drawn for each
run. `do` contains directions of `simulated.script`; a pod's annotations take precedence over rules, and earlier rules
over later ones. A time may be a range, `1s..5s`, from which it is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.selectors import SelectorError, parse_label_selector
from kubeloop.clock import Clock
from kubeloop.kubelet.simulated.script import DIRECTIONS, Script, has_directions, parse_seconds


class StageError(ValueError):
    """Raised for an invalid stage file; the message is one sentence."""


class StageMatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns that select the containers of a rule."""

    namespace: str = "*"
    name: str = "*"
    node: str = "*"
    image: str = "*"
    container: str = "*"
    labels: str = ""

    def matches(self, pod: Pod, container: Container) -> bool:
        """Return True if a container matches."""
        meta = pod.metadata
        return (
            fnmatchcase(meta.namespace, self.namespace)
            and fnmatchcase(meta.name, self.name)
            and fnmatchcase(pod.spec.node_name, self.node)
            and fnmatchcase(container.image, self.image)
            and fnmatchcase(container.name, self.container)
            and parse_label_selector(self.labels).matches(meta.labels)
        )


class StageRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Directions for the matching containers."""

    do: dict[str, str]
    match: StageMatch = msgspec.field(default_factory=StageMatch)
    chance: float = 1.0


class Stages:
    """Rules of a stage file; without any, only the pods' annotations apply."""

    def __init__(self, rules: Sequence[StageRule], clock: Clock) -> None:
        self._rules = rules
        self._clock = clock

    def script_for(self, pod: Pod, container: Container) -> Script | None:
        """Return the directions for a new run of a container; None without any."""
        annotations = pod.metadata.annotations
        if not self._rules:
            return Script(annotations, container.name) if annotations and has_directions(annotations) else None
        directions: dict[str, str] = {}
        for rule in self._rules:
            if rule.match.matches(pod, container) and self._happens(rule.chance):
                directions = {**{key: self._draw(text) for key, text in rule.do.items()}, **directions}
        if not directions and not has_directions(annotations):
            return None
        return Script(annotations, container.name, directions)

    def _happens(self, chance: float) -> bool:
        return chance >= 1 or self._clock.random().random() < chance

    def _draw(self, text: str) -> str:
        first, dots, last = text.partition("..")
        low, high = parse_seconds(first), parse_seconds(last)
        if not dots or low is None or high is None:
            return text
        return f"{self._clock.random().uniform(low, high):.3f}"


def read_rules(path: Path) -> list[StageRule]:
    """Return the rules of a file. Raises StageError or OSError."""
    import yaml  # slow to import, so it is imported only when needed

    try:
        return parse_rules(yaml.safe_load(path.read_text()))
    except (yaml.YAMLError, StageError) as error:
        raise StageError(f"{path}: {error}") from None


def parse_rules(document: Any) -> list[StageRule]:
    """Return the rules of a parsed document. Raises StageError."""
    try:
        rules = msgspec.convert(_texts(document or []), list[StageRule])
        for rule in rules:
            parse_label_selector(rule.match.labels)
    except (msgspec.ValidationError, SelectorError) as error:
        raise StageError(str(error)) from None
    for rule in rules:
        unknown = sorted(rule.do.keys() - DIRECTIONS)
        if unknown:
            raise StageError(f"unknown direction {unknown[0]}")
    return rules


def _texts(document: Any) -> Any:
    """Return the document with the values of `do` as strings, independent of YAML types."""
    if not isinstance(document, list):
        return document
    return [
        {**rule, "do": {key: _text(value) for key, value in rule["do"].items()}}
        if isinstance(rule, Mapping) and isinstance(rule.get("do"), Mapping)
        else rule
        for rule in document
    ]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
