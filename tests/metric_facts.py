# SPDX-License-Identifier: Apache-2.0
"""Upstream's metrics as recorded in tests/facts, and the comparison of a registry with them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kubeloop.metrics import Histogram, MetricRegistry
from kubeloop.metrics.help_texts import help_text


class MetricFact(NamedTuple):
    """A metric of an upstream component: type, sorted labels, upper bounds of its buckets (empty: Go's default)."""

    kind: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]


def facts_of(component: str) -> dict[str, MetricFact]:
    """Return the recorded metrics of a component by name."""
    found = {}
    for line in (Path(__file__).parent / "facts" / f"metrics-{component}.tsv").read_text().splitlines():
        name, kind, labels, bounds = (*line.split("\t"), "", "")[:4]
        found[name] = MetricFact(kind, _split(labels), tuple(map(float, _split(bounds))))
    return found


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def differences(registry: MetricRegistry, facts: dict[str, MetricFact]) -> list[str]:
    """Return what is wrong with registered metrics that upstream has, too: type, labels, bounds, help text."""
    found = []
    for name, family in sorted(registry.families().items()):
        fact = facts.get(name)
        if fact is None:
            continue
        kind, labels = family.desc.kind, tuple(sorted(family.desc.labels))
        if (kind, labels) != (fact.kind, fact.labels):
            found.append(f"{name} is a {kind} with {labels}, upstream's a {fact.kind} with {fact.labels}")
        child = family._make()
        if isinstance(child, Histogram) and fact.bounds and not _are_close(child.bounds, fact.bounds):
            found.append(f"{name} has the bounds {child.bounds}, upstream's {fact.bounds}")
        if not help_text(name):
            found.append(f"{name} has no help text")
    return found


def _are_close(one: object, other: tuple[float, ...]) -> bool:
    bounds = tuple(one)  # type: ignore[call-overload]  # any sequence of numbers
    return len(bounds) == len(other) and all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(bounds, other, strict=True))


def missing(registry: MetricRegistry, facts: dict[str, MetricFact]) -> set[str]:
    """Return the names that upstream registers and we do not."""
    return set(facts) - registry.names
