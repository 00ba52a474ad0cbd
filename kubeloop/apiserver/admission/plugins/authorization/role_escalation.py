# SPDX-License-Identifier: Apache-2.0
"""Prevents privilege escalation: Roles and bindings may grant only permissions that their author has.

The verbs `escalate` and `bind` exempt from it. Upstream does this in the storage of the four kinds, between mutating
admission and validation: so this is the last plugin before validation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any

from kubeloop.api import errors
from kubeloop.api.generated.rbac_v1 import PolicyRule
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes
from kubeloop.apiserver.admission.plugins.gc_fields import is_only_gc_update
from kubeloop.apiserver.authorization import ADMINISTRATORS, UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.authorization.escalation import escalation_message, uncovered_rules
from kubeloop.apiserver.authorization.rbac import GROUP, RBACAuthorizer, RoleNotFound

if TYPE_CHECKING:
    from kubeloop.api.generated.rbac_v1 import RoleRef

_EVERYTHING = (
    PolicyRule(verbs=("*",), api_groups=("*",), resources=("*",)),
    PolicyRule(verbs=("*",), non_resource_urls=("*",)),
)
_PLURALS = {"Role": "roles", "ClusterRole": "clusterroles"}


class RoleEscalation(AdmissionPlugin):
    """Rejects Roles and bindings that grant more than their author has."""

    name = "RoleEscalation"
    resources = frozenset(
        f"{kind}.{GROUP}" for kind in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
    )
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, authorizer: UnionAuthorizer, rbac: RBACAuthorizer) -> None:
        self._authorizer = authorizer
        self._rbac = rbac

    def admit(self, attempt: Attributes) -> Awaitable[None] | None:
        """Check the granted rules, unless the author is an administrator or only removes ownership metadata."""
        if ADMINISTRATORS in attempt.user.groups or is_only_gc_update(attempt):
            return None
        if attempt.resource.plural.endswith("bindings"):
            return self._check_binding(attempt)
        return self._check_role(attempt)

    async def _check_role(self, attempt: Attributes) -> None:
        name = attempt.old_obj.metadata.name if attempt.old_obj is not None else ""
        asked = AuthorizationAttributes(
            attempt.user, "escalate", GROUP, "*", attempt.resource.plural, namespace=attempt.namespace, name=name
        )
        if (await self._authorizer.wait_decision(asked)).allowed:
            return
        role: Any = attempt.obj
        self._require_rules(attempt, role.rules or ())
        if _aggregates(role) or _aggregates(attempt.old_obj):
            try:
                self._require_rules(attempt, _EVERYTHING)
            except errors.Forbidden:
                raise attempt.forbidden("must have cluster-admin privileges to use the aggregationRule") from None

    async def _check_binding(self, attempt: Attributes) -> None:
        role: RoleRef = attempt.obj.role_ref  # type: ignore[union-attr]  # a write has an object
        asked = AuthorizationAttributes(
            attempt.user,
            "bind",
            role.api_group,
            "*",
            _PLURALS.get(role.kind, ""),
            namespace=attempt.namespace,
            name=role.name,
        )
        if role.kind in _PLURALS and (await self._authorizer.wait_decision(asked)).allowed:
            return
        try:
            rules = self._rbac.rules_of_role(role, attempt.namespace)
        except RoleNotFound as missing:
            # Reported as if the binding itself were missing, as upstream does.
            raise errors.not_found(GROUP, attempt.resource.plural, missing.name) from None
        self._require_rules(attempt, rules)

    def _require_rules(self, attempt: Attributes, granted: Sequence[PolicyRule]) -> None:
        owned, problems = self._rbac.rules_of(attempt.user, attempt.namespace)
        missing = uncovered_rules(owned, granted)
        if missing:
            raise attempt.forbidden(escalation_message(attempt.user, missing, problems))


def _aggregates(role: Any) -> bool:
    rule = getattr(role, "aggregation_rule", None)
    return rule is not None and bool(rule.cluster_role_selectors)
