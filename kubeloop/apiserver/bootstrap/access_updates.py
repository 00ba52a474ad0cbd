"""RBAC reconciliation: adds what a later version or an enabled feature adds to existing default roles.

Nothing is removed: administrators' additions stay. They opt a role out by the annotation
`rbac.authorization.kubernetes.io/autoupdate: "false"`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from kubeloop.api.generated.rbac_v1 import AggregationRule, ClusterRole, ClusterRoleBinding, Role, RoleBinding
from kubeloop.apiserver.authorization.escalation import uncovered_rules

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_A = TypeVar("_A")


def reconcile_rbac(present: Any, wanted: Any) -> Any:
    """Return a role or binding with all that it should have; the same object if nothing is missing."""
    if present.metadata.annotations.get(AUTOUPDATE) == "false":
        return present
    meta = replace(
        present.metadata,
        labels={**wanted.metadata.labels, **present.metadata.labels},
        annotations={**wanted.metadata.annotations, **present.metadata.annotations},
    )
    changed = replace(_with_content(present, wanted), metadata=meta)
    return present if changed == present else changed


def _with_content(present: Any, wanted: Any) -> Any:
    if isinstance(present, ClusterRoleBinding | RoleBinding):
        return replace(present, subjects=_union(present.subjects, wanted.subjects))
    if isinstance(present, ClusterRole) and wanted.aggregation_rule is not None:
        return replace(present, aggregation_rule=_aggregation(present.aggregation_rule, wanted.aggregation_rule))
    if isinstance(present, ClusterRole | Role):
        rules = present.rules or ()
        missing = uncovered_rules(rules, wanted.rules or ())
        return replace(present, rules=(*rules, *missing)) if missing else present
    return present


def _aggregation(present: AggregationRule | None, wanted: AggregationRule) -> AggregationRule:
    if present is None:
        return wanted
    selectors = _union(present.cluster_role_selectors, wanted.cluster_role_selectors)
    return replace(present, cluster_role_selectors=selectors)


def _union(present: tuple[_A, ...], wanted: tuple[_A, ...]) -> tuple[_A, ...]:
    return (*present, *(one for one in wanted if one not in present))
