"""Authorization: asks the authorizers in order until one allows the request.

request ─▶ Attributes ─▶ system:masters? ─▶ Node ─▶ RBAC ─▶ none: Forbidden, with their reasons
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kubeloop.apiserver.authorization.attributes import (
    NO_OPINION,
    AuthorizationAttributes,
    AuthorizationDecision,
    forbidden_error,
)
from kubeloop.apiserver.request.context import User

if TYPE_CHECKING:
    from kubeloop.api.generated.rbac_v1 import PolicyRule
    from kubeloop.apiserver.admission import Lookup
    from kubeloop.apiserver.authorization.rbac import RBACAuthorizer
    from kubeloop.apiserver.registry.storage import StorageRegistry

ADMINISTRATORS = "system:masters"
DEFAULT_MODES = ("Node", "RBAC")
MODES = ("AlwaysAllow", "AlwaysDeny", "Node", "RBAC")
_ALLOWED = AuthorizationDecision(True)


class AuthorizerMode(Protocol):
    """Authorizer of one mode; a decision that does not allow leaves the request to the next."""

    def decide(self, asked: AuthorizationAttributes) -> AuthorizationDecision:
        """Return the decision about a request."""


class ResolvedRules(NamedTuple):
    """Enumerated rules of a user; the problem says why they may be incomplete."""

    rules: Sequence[PolicyRule] = ()
    incomplete: bool = False
    problem: str = ""


class UnionAuthorizer:
    """Union of the modes in order; members of system:masters are always allowed."""

    def __init__(self, modes: Sequence[AuthorizerMode], rbac: RBACAuthorizer | None = None) -> None:
        self._modes = tuple(modes)
        self.rbac = rbac  # None unless it is one of the modes

    def decide(self, asked: AuthorizationAttributes) -> AuthorizationDecision:
        """Return the decision of the first mode that allows the request, else the collected reasons."""
        if ADMINISTRATORS in asked.user.groups:
            return _ALLOWED
        reasons = []
        for mode in self._modes:
            decision = mode.decide(asked)
            if decision.allowed:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return AuthorizationDecision(False, "\n".join(reasons)) if reasons else NO_OPINION

    def demand(self, asked: AuthorizationAttributes) -> AuthorizationDecision:
        """Return the decision; raises Forbidden unless it allows."""
        decision = self.decide(asked)
        if not decision.allowed:
            raise forbidden_error(asked, decision.reason)
        return decision

    def rules_of(self, user: User, namespace: str) -> ResolvedRules:
        """Return the rules of a user in a namespace, for display; decisions don't use it."""
        from kubeloop.apiserver.authorization.listing import rules_of

        return rules_of(self._modes, user, namespace)


class AlwaysAllow:
    """Mode that allows every request."""

    def decide(self, asked: AuthorizationAttributes) -> AuthorizationDecision:
        """Allow the request."""
        return _ALLOWED


class AlwaysDeny:
    """Mode that denies every request."""

    def decide(self, asked: AuthorizationAttributes) -> AuthorizationDecision:
        """Deny the request."""
        return AuthorizationDecision(False, "Everything is forbidden.")


def authorizer_of(names: Sequence[str], registry: StorageRegistry, objects: Lookup) -> UnionAuthorizer:
    """Return the authorizer for names of MODES."""
    from kubeloop.apiserver.authorization.node import NodeAuthorizer
    from kubeloop.apiserver.authorization.rbac import RBACAuthorizer

    rbac = RBACAuthorizer(registry, objects)
    made: dict[str, AuthorizerMode] = {
        "AlwaysAllow": AlwaysAllow(),
        "AlwaysDeny": AlwaysDeny(),
        "Node": NodeAuthorizer(registry, objects),
        "RBAC": rbac,
    }
    return UnionAuthorizer([made[name] for name in names], rbac if "RBAC" in names else None)
