"""Who may do what: the question, and the authorizers that it is put to until one says yes.

request ─▶ Attributes ─▶ system:masters? ─▶ Node ─▶ RBAC ─▶ nobody: Forbidden, with the reasons that they gave
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kubeloop.apiserver.authorization.attributes import NO_OPINION, Attributes, Decision, refusal
from kubeloop.apiserver.request.context import User

if TYPE_CHECKING:
    from kubeloop.api.generated.rbac_v1 import PolicyRule
    from kubeloop.apiserver.admission import Lookup
    from kubeloop.apiserver.authorization.rbac import Rbac
    from kubeloop.apiserver.registry.storage import Registry

ADMINISTRATORS = "system:masters"
DEFAULT_MODES = ("Node", "RBAC")
MODES = ("AlwaysAllow", "AlwaysDeny", "Node", "RBAC")
_ALLOWED = Decision(True)


class Mode(Protocol):
    """One way to decide; a `no` leaves the question to the next."""

    def decide(self, asked: Attributes) -> Decision: ...


class KnownRules(NamedTuple):
    """What somebody may do, as far as it can be listed; the problem says why it might be more."""

    rules: Sequence[PolicyRule] = ()
    incomplete: bool = False
    problem: str = ""


class Authorizer:
    """The modes in their order, behind the group that may do everything."""

    def __init__(self, modes: Sequence[Mode], rbac: Rbac | None = None) -> None:
        self._modes = tuple(modes)
        self.rbac = rbac  # None unless it is one of the modes

    def decide(self, asked: Attributes) -> Decision:
        if ADMINISTRATORS in asked.user.groups:
            return _ALLOWED
        reasons = []
        for mode in self._modes:
            decision = mode.decide(asked)
            if decision.allowed:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return Decision(False, "\n".join(reasons)) if reasons else NO_OPINION

    def demand(self, asked: Attributes) -> Decision:
        """The permission; raises Forbidden where there is none."""
        decision = self.decide(asked)
        if not decision.allowed:
            raise refusal(asked, decision.reason)
        return decision

    def rules_of(self, user: User, namespace: str) -> KnownRules:
        """What somebody may do in a namespace, for them to look at; decisions never come from here."""
        from kubeloop.apiserver.authorization.listing import rules_of

        return rules_of(self._modes, user, namespace)


class AlwaysAllow:
    """Everybody may do everything."""

    def decide(self, asked: Attributes) -> Decision:
        return _ALLOWED


class AlwaysDeny:
    """Nobody may do anything."""

    def decide(self, asked: Attributes) -> Decision:
        return Decision(False, "Everything is forbidden.")


def authorizer_of(names: Sequence[str], registry: Registry, objects: Lookup) -> Authorizer:
    """The authorizer for names out of MODES."""
    from kubeloop.apiserver.authorization.node import NodeAuthorizer
    from kubeloop.apiserver.authorization.rbac import Rbac

    rbac = Rbac(registry, objects)
    made: dict[str, Mode] = {
        "AlwaysAllow": AlwaysAllow(),
        "AlwaysDeny": AlwaysDeny(),
        "Node": NodeAuthorizer(registry, objects),
        "RBAC": rbac,
    }
    return Authorizer([made[name] for name in names], rbac if "RBAC" in names else None)
