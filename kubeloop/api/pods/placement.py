# SPDX-License-Identifier: Apache-2.0
"""Matching of nodes against a pod's tolerations, node selector and required node affinity. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final

from kubeloop.api.generated.core_v1 import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Taint,
    Toleration,
)
from kubeloop.api.selectors import NOTHING, LabelSelector, Operator, SelectorError, new_requirement

_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}
_DECIMAL: Final = re.compile("0|-?[1-9][0-9]{0,18}")


# Taints.


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return True if a toleration tolerates this taint; an empty effect or key matches all of them."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt":
            return _compares(toleration.operator, toleration.value, taint.value)
        case _:
            return False


def _compares(operator: str, bound: str, value: str) -> bool:
    if not _DECIMAL.fullmatch(bound) or not _DECIMAL.fullmatch(value):
        return False
    return int(value) < int(bound) if operator == "Lt" else int(value) > int(bound)


def first_untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str]
) -> Taint | None:
    """Return the first taint with one of these effects that no toleration tolerates."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


# Labels and fields of a node.


def node_affinity_matches(spec: PodSpec, node: Node) -> bool:
    """Return True if a node satisfies the pod's node selector and its required node affinity."""
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return not required or node_selector_matches(required, node)


def node_selector_matches(selector: NodeSelector, node: Node) -> bool:
    """Return True if one of the terms matches; without terms, no node matches."""
    return any(term_matches(term, node) for term in selector.node_selector_terms or ())


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Return True if a node satisfies a term; an empty or malformed term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    if not _label_selector(term.match_expressions).matches(node.metadata.labels):
        return False
    return all(_field_matches(one, node) for one in term.match_fields)


def _field_matches(one: NodeSelectorRequirement, node: Node) -> bool:
    values = one.values or ()
    if len(values) != 1 or one.operator not in ("In", "NotIn"):
        return False
    value = node.metadata.name if one.key == "metadata.name" else ""
    return (value == values[0]) is (one.operator == "In")


@lru_cache(maxsize=1024)
def _label_selector(expressions: tuple[NodeSelectorRequirement, ...]) -> LabelSelector:
    try:
        return LabelSelector(
            new_requirement(one.key, _OPERATORS[one.operator], one.values or ()) for one in expressions
        )
    except (SelectorError, KeyError):
        return NOTHING
