# SPDX-License-Identifier: Apache-2.0
"""Authorization: calls the authorizers in order until one allows the request.

request ─▶ Attributes ─▶ system:masters? ─▶ Node ─▶ RBAC ─▶ none: Forbidden, with their reasons
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from kubeloop.api.meta.field_path import aggregate
from kubeloop.apiserver.authorization.attributes import (
    NO_OPINION,
    AuthorizationAttributes,
    AuthorizationDecision,
    EventualDecision,
    enforce,
)
from kubeloop.apiserver.request.context import User

if TYPE_CHECKING:
    from kubeloop.api.generated.rbac_v1 import PolicyRule
    from kubeloop.apiserver.admission import Lookup
    from kubeloop.apiserver.authorization.rbac import RBACAuthorizer
    from kubeloop.apiserver.registry.storage import StorageRegistry

ADMINISTRATORS = "system:masters"
DEFAULT_MODES = ("Node", "RBAC")
MODES = ("AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook")
_ALLOWED = AuthorizationDecision(True)


class AuthorizerMode(Protocol):
    """Authorizer of one mode; a decision that neither allows nor denies leaves the request to the next."""

    def decide(self, asked: AuthorizationAttributes) -> EventualDecision:
        """Return the decision about a request, awaitable only if another server has to be asked."""


@runtime_checkable
class ClosableAuthorizer(AuthorizerMode, Protocol):
    """Authorizer that has connections to another server."""

    def close(self) -> None:
        """Close the connections."""


class NamedAuthorizer(NamedTuple):
    """Authorizer with its name, which precedes its reasons."""

    name: str
    mode: AuthorizerMode


class ResolvedRules(NamedTuple):
    """Enumerated rules of a user; the problem says why they may be incomplete."""

    rules: Sequence[PolicyRule] = ()
    incomplete: bool = False
    error: str = ""


class UnionAuthorizer:
    """Union of the authorizers in order; members of system:masters are always allowed."""

    def __init__(self, authorizers: Sequence[NamedAuthorizer], rbac: RBACAuthorizer | None = None) -> None:
        self._authorizers = tuple(authorizers)
        self.rbac = rbac  # None unless it is one of them

    def decide(self, asked: AuthorizationAttributes) -> EventualDecision:
        """Return the first decision that allows or denies the request, else the collected reasons.

        The decision is awaitable only if another server has to be asked.
        """
        if ADMINISTRATORS in asked.user.groups:
            return _ALLOWED
        undecided: list[tuple[str, AuthorizationDecision]] = []
        remaining = iter(self._authorizers)
        for name, mode in remaining:
            decision = mode.decide(asked)
            if not isinstance(decision, AuthorizationDecision):
                return _decide_rest(asked, remaining, undecided, (name, decision))
            if decision.allowed or decision.denied:
                return decision
            if decision is not NO_OPINION:
                undecided.append((name, decision))
        return _summary(undecided) if undecided else NO_OPINION

    async def wait_decision(self, asked: AuthorizationAttributes) -> AuthorizationDecision:
        """Return the decision, after waiting for other servers if necessary."""
        decision = self.decide(asked)
        return decision if isinstance(decision, AuthorizationDecision) else await decision

    def require(self, asked: AuthorizationAttributes) -> Awaitable[None] | None:
        """Raise Forbidden unless the request is allowed; what is returned must be awaited, if anything."""
        decision = self.decide(asked)
        if isinstance(decision, AuthorizationDecision):
            enforce(asked, decision)
            return None
        return _enforce_eventually(asked, decision)

    def replace(self, authorizers: Sequence[NamedAuthorizer]) -> None:
        """Use other authorizers from now on; decisions that are being waited for are still made by the old ones."""
        previous, self._authorizers = self._authorizers, tuple(authorizers)
        _close(previous)

    def close(self) -> None:
        """Close the connections to other servers."""
        _close(self._authorizers)

    def rules_of(self, user: User, namespace: str) -> ResolvedRules:
        """Return the rules of a user in a namespace, for display; decisions don't use it."""
        from kubeloop.apiserver.authorization.rule_resolver import rules_of

        return rules_of([one.mode for one in self._authorizers], user, namespace)


def _close(authorizers: Sequence[NamedAuthorizer]) -> None:
    for one in authorizers:
        if isinstance(one.mode, ClosableAuthorizer):
            one.mode.close()


async def _decide_rest(
    asked: AuthorizationAttributes,
    remaining: Iterator[NamedAuthorizer],
    undecided: list[tuple[str, AuthorizationDecision]],
    pending: tuple[str, Awaitable[AuthorizationDecision]],
) -> AuthorizationDecision:
    """Wait for a pending decision; unless it allows or denies, ask the remaining authorizers."""
    name, eventual = pending
    decision = await eventual
    while not (decision.allowed or decision.denied):
        undecided.append((name, decision))
        following = next(remaining, None)
        if following is None:
            return _summary(undecided)
        name = following.name
        found = following.mode.decide(asked)
        decision = found if isinstance(found, AuthorizationDecision) else await found
    return decision


def _summary(undecided: Sequence[tuple[str, AuthorizationDecision]]) -> AuthorizationDecision:
    """Return the decision of a union in which no authorizer allowed or denied."""
    reasons = [f"{name}: {decision.reason}" for name, decision in undecided if decision.reason]
    problems = [decision.error for _, decision in undecided if decision.error]
    return AuthorizationDecision(False, "\n".join(reasons), error=aggregate(problems) if problems else "")


async def _enforce_eventually(asked: AuthorizationAttributes, pending: Awaitable[AuthorizationDecision]) -> None:
    enforce(asked, await pending)


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
    """Return the authorizer for names of MODES, except Webhook."""
    from kubeloop.apiserver.authorization.factory import AuthorizerFactory, configs_of_modes

    return AuthorizerFactory(registry, objects).union(configs_of_modes(names))
