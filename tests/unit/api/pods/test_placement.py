# SPDX-License-Identifier: Apache-2.0
"""Tests of pod placement by taints, labels and names."""

import pytest

from kubeloop.api.generated.core_v1 import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Taint,
    Toleration,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.pods.placement import (
    first_untolerated,
    node_affinity_matches,
    node_selector_matches,
    tolerates,
)

TAINT = Taint(key="disk", value="7", effect="NoSchedule")
NODE = Node(metadata=ObjectMeta(name="n1", labels={"zone": "a", "cores": "8"}))


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="disk", value="7"), True),
        (Toleration(key="disk", operator="Equal", value="8"), False),
        (Toleration(key="disk", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="cpu", operator="Exists"), False),
        (Toleration(key="disk", operator="Lt", value="8"), True),
        (Toleration(key="disk", operator="Gt", value="8"), False),
        (Toleration(key="disk", operator="Gt", value="06"), False),
        (Toleration(key="disk", operator="Near", value="7"), False),
    ],
)
def test_toleration_matches_taints(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, TAINT) is expected


def test_only_taints_of_the_given_effects_count() -> None:
    soft = Taint(key="soft", effect="PreferNoSchedule")
    assert first_untolerated((soft, TAINT), (), ("NoSchedule",)) is TAINT
    assert first_untolerated((soft, TAINT), (Toleration(operator="Exists"),), ("NoSchedule",)) is None
    assert first_untolerated((soft,), (), ("NoSchedule", "NoExecute")) is None


def one(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (NodeSelectorTerm(match_expressions=(one("zone", "In", "a", "b"),)), True),
        (NodeSelectorTerm(match_expressions=(one("zone", "NotIn", "a"),)), False),
        (NodeSelectorTerm(match_expressions=(one("rack", "NotIn", "a"), one("rack", "DoesNotExist"))), True),
        (NodeSelectorTerm(match_expressions=(one("cores", "Gt", "4"), one("cores", "Lt", "9"))), True),
        (NodeSelectorTerm(match_expressions=(one("zone", "Gt", "4"),)), False),
        (NodeSelectorTerm(match_expressions=(one("zone", "Gt", "x"),)), False),
        (NodeSelectorTerm(match_expressions=(one("zone", "Like", "a"),)), False),
        (NodeSelectorTerm(match_fields=(one("metadata.name", "In", "n1"),)), True),
        (NodeSelectorTerm(match_fields=(one("metadata.name", "NotIn", "n1"),)), False),
        (NodeSelectorTerm(match_fields=(one("metadata.name", "In", "n1", "n2"),)), False),
        (NodeSelectorTerm(), False),
    ],
)
def test_all_requirements_of_a_term_must_match(term: NodeSelectorTerm, expected: bool) -> None:
    assert node_selector_matches(NodeSelector(node_selector_terms=(term,)), NODE) is expected


def test_one_matching_term_suffices_and_no_terms_match_nothing() -> None:
    never, always = (NodeSelectorTerm(match_expressions=(one("zone", op),)) for op in ("DoesNotExist", "Exists"))
    assert node_selector_matches(NodeSelector(node_selector_terms=(never, always)), NODE)
    assert not node_selector_matches(NodeSelector(node_selector_terms=()), NODE)


def test_selector_and_affinity_both_count() -> None:
    zone_b = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(one("zone", "In", "b"),)),))
    affinity = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=zone_b))
    assert node_affinity_matches(PodSpec(), NODE)
    assert node_affinity_matches(PodSpec(node_selector={"zone": "a"}), NODE)
    assert not node_affinity_matches(PodSpec(node_selector={"zone": "b"}), NODE)
    assert not node_affinity_matches(PodSpec(affinity=affinity), NODE)
    assert node_affinity_matches(PodSpec(affinity=Affinity(node_affinity=NodeAffinity())), NODE)
