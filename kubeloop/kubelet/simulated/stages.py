"""A stage file: directions for the containers of many pods at once, for those who'd rather not annotate each.

    - match: {namespace: shop, labels: app=web, image: "nginx:*", container: app, node: "n1*"}
      chance: 0.1
      do: {exit-after: 30s, exit-code: "1"}

A rule is about the containers for which all that it names fits (with `*` for anything); it counts with its chance,
drawn anew for each run. What `do` says are the directions of `simulated.script`; a pod's own annotations
come before them, an earlier rule before a later one. A time may be a range, `1s..5s`, from which it is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.selectors import SelectorError, parse_labels
from kubeloop.clock import Clock
from kubeloop.kubelet.simulated.script import DIRECTIONS, Script, is_scripted, seconds_of


class StageError(ValueError):
    """A stage file that can't be used; the message is one sentence for a person."""


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which containers a rule is about."""

    namespace: str = "*"
    name: str = "*"
    node: str = "*"
    image: str = "*"
    container: str = "*"
    labels: str = ""

    def fits(self, pod: Pod, container: Container) -> bool:
        meta = pod.metadata
        return (
            fnmatchcase(meta.namespace, self.namespace)
            and fnmatchcase(meta.name, self.name)
            and fnmatchcase(pod.spec.node_name, self.node)
            and fnmatchcase(container.image, self.image)
            and fnmatchcase(container.name, self.container)
            and parse_labels(self.labels).matches(meta.labels)
        )


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Directions for some containers."""

    do: dict[str, str]
    match: Match = msgspec.field(default_factory=Match)
    chance: float = 1.0


class Stages:
    """The rules of a stage file; without any, pods' annotations are all that counts."""

    def __init__(self, rules: Sequence[Rule], clock: Clock) -> None:
        self._rules = rules
        self._clock = clock

    def script(self, pod: Pod, container: Container) -> Script | None:
        """The directions for one more run of a container; None if there are none."""
        annotations = pod.metadata.annotations
        if not self._rules:
            return Script(annotations, container.name) if annotations and is_scripted(annotations) else None
        directions: dict[str, str] = {}
        for rule in self._rules:
            if rule.match.fits(pod, container) and self._happens(rule.chance):
                directions = {**{key: self._drawn(text) for key, text in rule.do.items()}, **directions}
        if not directions and not is_scripted(annotations):
            return None
        return Script(annotations, container.name, directions)

    def _happens(self, chance: float) -> bool:
        return chance >= 1 or self._clock.random().random() < chance

    def _drawn(self, text: str) -> str:
        first, dots, last = text.partition("..")
        low, high = seconds_of(first), seconds_of(last)
        if not dots or low is None or high is None:
            return text
        return f"{self._clock.random().uniform(low, high):.3f}"


def read_rules(path: Path) -> list[Rule]:
    """The rules of a file; raises StageError or OSError."""
    import yaml  # only where there is a file to read: it takes long to import

    try:
        return rules_of(yaml.safe_load(path.read_text()))
    except (yaml.YAMLError, StageError) as error:
        raise StageError(f"{path}: {error}") from None


def rules_of(document: Any) -> list[Rule]:
    try:
        rules = msgspec.convert(_texts(document or []), list[Rule])
        for rule in rules:
            parse_labels(rule.match.labels)
    except (msgspec.ValidationError, SelectorError) as error:
        raise StageError(str(error)) from None
    for rule in rules:
        unknown = sorted(rule.do.keys() - DIRECTIONS)
        if unknown:
            raise StageError(f"there is no direction called {unknown[0]}")
    return rules


def _texts(document: Any) -> Any:
    """What `do` says as texts, however YAML reads it."""
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
