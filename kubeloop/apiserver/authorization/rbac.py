# SPDX-License-Identifier: Apache-2.0
"""RBAC authorizer: decides from stored roles and bindings, which are read once per change.

bindings ─ with the user as subject ─▶ role ─▶ rules ─▶ RuleSet (cached per user until any of the four kinds changes)

Differs from upstream: an aggregated cluster role whose rules are not filled in yet counts as the union of the roles
that it selects at the time of the request. Upstream leaves it empty until the aggregation controller has written the
union; without one, `admin`, `edit` and `view` would grant nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kubeloop.api.meta.field_path import aggregate, quote
from kubeloop.api.selectors import label_selector_as_selector
from kubeloop.apiserver.admission import Lookup
from kubeloop.apiserver.authorization.attributes import NO_OPINION, AuthorizationAttributes, AuthorizationDecision
from kubeloop.apiserver.authorization.rules import RuleSet
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.context import User
from kubeloop.store import StoreEvent

if TYPE_CHECKING:
    from kubeloop.api.generated.rbac_v1 import PolicyRule, RoleRef, Subject

GROUP = "rbac.authorization.k8s.io"
_KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
# Maximum number of cached rule sets (user and namespace), and of cached decisions.
_MAX_CACHED = 4096


class RoleNotFound(Exception):
    """Error for a binding that refers to a missing role."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind.lower()}.{GROUP} {quote(name)} not found")
        self.name = name


class RBACAuthorizer:
    """RBAC authorizer of one server's store."""

    def __init__(self, registry: StorageRegistry, objects: Lookup) -> None:
        self._registry = registry
        self._find = objects.get_object
        self._every = objects.list_objects
        self._rule_sets: dict[tuple[str, tuple[str, ...], str], RuleSet] = {}
        # Decisions that don't depend on the object's name.
        self._decisions: dict[tuple[object, ...], AuthorizationDecision] = {}
        self._following = False

    def decide(self, asked: AuthorizationAttributes) -> AuthorizationDecision:
        """Return the decision about a request, cached if it does not depend on the object's name."""
        user, namespace, verb, resource = asked.user, asked.namespace, asked.verb, asked.resource
        key = (user.name, user.groups, namespace, verb, asked.group, resource, asked.subresource, asked.path)
        known = self._decisions.get(key)
        if known is not None:
            return known
        everywhere = self._rule_set(user, "")
        here = self._rule_set(user, namespace) if namespace else everywhere
        decision = _decision(asked, everywhere, here)
        if not (everywhere.depends_on_name(asked) or here.depends_on_name(asked)):
            if len(self._decisions) >= _MAX_CACHED:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    def rules_of(self, user: User, namespace: str) -> tuple[list[PolicyRule], tuple[str, ...]]:
        """Return all rules of a user in a namespace and cluster-wide, and the resolution errors."""
        everywhere = self._rule_set(user, "")
        if not namespace:
            return everywhere.rules, everywhere.problems
        here = self._rule_set(user, namespace)
        return everywhere.rules + here.rules, everywhere.problems + here.problems

    def rules_of_role(self, role: RoleRef, namespace: str) -> Sequence[PolicyRule]:
        """Return the rules of a role that a binding refers to; raises RoleNotFound."""
        if role.kind == "Role":
            found = self._find("roles", namespace, role.name, GROUP)
        elif role.kind == "ClusterRole":
            found = self._find("clusterroles", "", role.name, GROUP)
        else:
            return ()
        if found is None:
            raise RoleNotFound(role.kind, role.name)
        return self._effective_rules(found)

    def _effective_rules(self, role: Any, above: tuple[str, ...] = ()) -> Sequence[PolicyRule]:
        """Return a role's rules, or those of its aggregated roles; `above` guards against cycles."""
        if role.rules or role.kind == "Role" or role.aggregation_rule is None:
            return role.rules or ()
        selectors = [label_selector_as_selector(one) for one in role.aggregation_rule.cluster_role_selectors]
        above = (*above, role.metadata.name)
        gathered: dict[PolicyRule, None] = {}
        for other in self._every("clusterroles", "", GROUP):
            if other.metadata.name not in above and any(one.matches(other.metadata.labels) for one in selectors):
                gathered.update(dict.fromkeys(self._effective_rules(other, above)))
        return list(gathered)

    def _rule_set(self, user: User, namespace: str) -> RuleSet:
        key = (user.name, user.groups, namespace)
        known = self._rule_sets.get(key)
        if known is None:
            self._subscribe_once()
            if len(self._rule_sets) >= _MAX_CACHED:
                self._rule_sets.clear()
            known = self._rule_sets[key] = self._prepare(user, namespace)
        return known

    def _prepare(self, user: User, namespace: str) -> RuleSet:
        plural, kind = ("rolebindings", "RoleBinding") if namespace else ("clusterrolebindings", "ClusterRoleBinding")
        sourced: list[tuple[str, Sequence[PolicyRule]]] = []
        problems: list[str] = []
        for binding, subject in self._bindings_of(user, plural, namespace):
            role = binding.role_ref
            name = f"{binding.metadata.name}/{namespace}" if namespace else binding.metadata.name
            source = f"{kind} {quote(name)} of {role.kind} {quote(role.name)} to {_described(subject, namespace)}"
            try:
                sourced.append((source, self.rules_of_role(role, namespace)))
            except RoleNotFound as problem:
                problems.append(str(problem))
        return RuleSet(sourced, tuple(problems))

    def _bindings_of(self, user: User, plural: str, namespace: str) -> Iterator[tuple[Any, Subject]]:
        for binding in self._every(plural, namespace, GROUP):
            for subject in binding.subjects:
                if _matches_subject(user, subject, namespace):
                    yield binding, subject
                    break

    def _subscribe_once(self) -> None:
        """Subscribe once, on the first request, and clear the caches on any change of roles or bindings."""
        if self._following:
            return
        self._following = True

        def forget(events: Sequence[StoreEvent]) -> None:
            self._rule_sets.clear()
            self._decisions.clear()

        for plural in _KINDS:
            storage = self._registry.storage_named(GROUP, "v1", plural)
            storage.store.subscribe(storage.prefix(""), storage.store.revision, forget)


def _decision(asked: AuthorizationAttributes, everywhere: RuleSet, here: RuleSet) -> AuthorizationDecision:
    source = everywhere.find_source(asked)
    if source is None and here is not everywhere:
        source = here.find_source(asked)
    if source is not None:
        return AuthorizationDecision(True, f"RBAC: allowed by {source}")
    problems = everywhere.problems if here is everywhere else everywhere.problems + here.problems
    return AuthorizationDecision(False, f"RBAC: {aggregate(problems)}") if problems else NO_OPINION


def _matches_subject(user: User, subject: Subject, namespace: str) -> bool:
    if subject.kind == "User":
        return user.name == subject.name
    if subject.kind == "Group":
        return subject.name in user.groups
    if subject.kind == "ServiceAccount":
        home = subject.namespace or namespace
        return bool(home) and user.name == f"system:serviceaccount:{home}:{subject.name}"
    return False


def _described(subject: Subject, namespace: str) -> str:
    if subject.kind == "ServiceAccount":
        return f"{subject.kind} {quote(f'{subject.name}/{subject.namespace or namespace}')}"
    return f"{subject.kind} {quote(subject.name)}"
