# SPDX-License-Identifier: Apache-2.0
"""Strategies of EndpointSlices and PodDisruptionBudgets."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.api.strategy.base import RESETS_SPEC, Strategy
from kubeloop.api.strategy.equality import is_semantically_equal

_HOSTNAME = "kubernetes.io/hostname"
# Distinguishes the empty selector of v1beta1 (nothing) from that of v1 (everything) in storage.
_OLD_BUDGET_LABEL = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"


def _refine_endpoint_slice(new: EndpointSlice, old: EndpointSlice | None) -> None:
    """Convert the hostname of v1beta1's topology into the node name, if it was one before."""
    if old is not None and is_semantically_equal(new.endpoints, old.endpoints):
        return
    before = old.endpoints or () if old is not None else ()
    known = {each.deprecated_topology[_HOSTNAME] for each in before if each.deprecated_topology.get(_HOSTNAME)}
    for endpoint in new.endpoints or ():
        if endpoint.deprecated_topology:
            hostname = endpoint.deprecated_topology.get(_HOSTNAME)
            if endpoint.node_name is None and hostname in known:
                force_setattr(endpoint, "node_name", hostname)
            force_setattr(endpoint, "deprecated_topology", {})


def _refine_budget(new: PodDisruptionBudget, old: PodDisruptionBudget | None) -> None:
    selector = new.spec.selector
    if selector is None or (old is not None and is_semantically_equal(selector, old.spec.selector)):
        return
    if any(each.key == _OLD_BUDGET_LABEL for each in selector.match_expressions) and not _is_translated(selector):
        kept = tuple(each for each in selector.match_expressions if each.key != _OLD_BUDGET_LABEL)
        force_setattr(selector, "match_expressions", kept)


def _is_translated(selector: LabelSelector) -> bool:
    """Return True for an empty selector that was translated on purpose, with nothing but the marker."""
    return (
        not selector.match_labels
        and len(selector.match_expressions) == 1
        and selector.match_expressions[0].operator in ("Exists", "DoesNotExist")
    )


ENDPOINT_SLICE = Strategy(
    # All fields count, and the labels, because they name the slice's service.
    generation_of=("address_type", "endpoints", "ports", "metadata.labels"),
    refine=_refine_endpoint_slice,
)
DISRUPTION_BUDGET = Strategy(
    has_status=True,
    generation_of=("spec",),
    reset_fields=RESETS_SPEC,
    allow_unconditional_update=False,
    refine=_refine_budget,
)
