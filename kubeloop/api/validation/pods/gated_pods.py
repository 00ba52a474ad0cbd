# SPDX-License-Identifier: Apache-2.0
"""Validation of updates of a pod with scheduling gates: narrower node selectors and affinity."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.api.generated.core_v1 import Affinity, NodeSelectorTerm
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid
from kubeloop.api.validation.shared.go_values import to_internal

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_selector_additions(new: Mapping[str, str], old: Mapping[str, str], path: FieldPath) -> FieldErrors:
    """Validate that a node selector only gains entries."""
    if all(new.get(key) == value for key, value in old.items()):
        return []
    return [invalid(path, new, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")]


def validate_affinity_additions(new: Affinity | None, old: Affinity | None, path: FieldPath) -> FieldErrors:
    """Validate that a required node affinity only becomes narrower."""
    before, after = _required_terms(old), _required_terms(new)
    at = path.child(_REQUIRED, "nodeSelectorTerms")
    if before and len(before) != len(after):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(at, to_internal(after), detail)]
    errors: FieldErrors = []
    for index, term in enumerate(before):
        if not _only_adds(after[index], term):
            detail = "only additions are allowed (no mutations or deletions)"
            errors.append(invalid(at.index(index), to_internal(after[index]), detail))
    return errors


def _required_terms(affinity: Affinity | None) -> tuple[NodeSelectorTerm, ...]:
    if affinity is None or affinity.node_affinity is None:
        return ()
    selector = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return (selector.node_selector_terms or ()) if selector is not None else ()


def _only_adds(new: NodeSelectorTerm, old: NodeSelectorTerm) -> bool:
    if not old.match_expressions and not old.match_fields:
        return not new.match_expressions and not new.match_fields
    if new.match_expressions[: len(old.match_expressions)] != old.match_expressions:
        return False
    return new.match_fields[: len(old.match_fields)] == old.match_fields
