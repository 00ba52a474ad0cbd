# SPDX-License-Identifier: Apache-2.0
"""Rules and selectors of webhooks, policies and bindings: decide if they match a write.

Rules depend only on the kind of write, so their results are cached; selectors are evaluated on labels. Pure except
for the lookup of a namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.api.selectors import EVERYTHING, LabelSelector, label_selector_as_selector
from kubeloop.apiserver.admission import Attributes, Lookup

_MAX_CACHED: Final = 4096
# Webhooks on these could lock out all users: from repairing the configuration, or from all that needs permissions.
_CONFIGURATION: Final = frozenset(
    f"{plural}.admissionregistration.k8s.io"
    for plural in (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    )
)
_REVIEWS: Final = frozenset(
    (
        "localsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectreviews.authentication.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "tokenreviews.authentication.k8s.io",
    )
)
EXEMPT_FROM_WEBHOOKS: Final = _CONFIGURATION | _REVIEWS
EXEMPT_FROM_POLICIES: Final = (
    frozenset(name for name in _CONFIGURATION if "policies." in name or "bindings." in name) | _REVIEWS
)


class RuleObject(Protocol):
    """Rule as in API objects (RuleWithOperations)."""

    @property
    def operations(self) -> Sequence[str]:
        """Operations that match; `*` means all."""

    @property
    def api_groups(self) -> Sequence[str]:
        """API groups that match; `*` means all."""

    @property
    def api_versions(self) -> Sequence[str]:
        """API versions that match; `*` means all."""

    @property
    def resources(self) -> Sequence[str]:
        """Resources and subresources that match, such as `pods/*`."""

    @property
    def scope(self) -> str | None:
        """Scope that matches: Cluster, Namespaced or `*`."""


class MatchAttributes(NamedTuple):
    """Attributes of a write that rules match. A Namespace counts as being in itself."""

    operation: str
    resource: Resource
    subresource: str
    in_namespace: bool
    name: str


def namespace_of(attempt: Attributes) -> str:
    """Return the namespace of a write; that of a Namespace is its own name."""
    return attempt.name if is_namespace(attempt.resource) else attempt.namespace


def is_namespace(resource: Resource) -> bool:
    """Return True if the resource is `namespaces`."""
    return resource.plural == "namespaces" and not resource.group


def match_attributes_of(attempt: Attributes) -> MatchAttributes:
    """Return the attributes of a write for matching."""
    inside = bool(namespace_of(attempt))
    return MatchAttributes(attempt.operation, attempt.resource, attempt.subresource, inside, attempt.name)


def rule_matches(rule: RuleObject, write: MatchAttributes) -> bool:
    """Return True if a rule matches a write by operation, group, version, resource and scope."""
    resource = write.resource
    return (
        _in_scope(rule.scope, write)
        and _matches_any(rule.operations, write.operation)
        and _matches_any(rule.api_groups, resource.group)
        and _matches_any(rule.api_versions, resource.version)
        and any(_matches_pattern(pattern, resource.plural, write.subresource) for pattern in rule.resources)
    )


def _matches_any(items: Sequence[str], wanted: str) -> bool:
    return wanted in items or "*" in items


def _matches_pattern(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, part = pattern.partition("/")
    return resource in ("*", plural) and part in ("*", subresource)


def _in_scope(scope: str | None, write: MatchAttributes) -> bool:
    if scope in (None, "*"):
        return True
    namespaced = write.in_namespace and not is_namespace(write.resource)
    return namespaced if scope == "Namespaced" else not namespaced and scope == "Cluster"


Equivalents = Callable[[Resource], Sequence[Resource]]


def first_match(
    rules: Sequence[RuleObject], write: MatchAttributes, others: Iterable[Resource], equivalent: bool
) -> Resource | None:
    """Return the resource under which a rule matches a write: the requested one, or an equivalent version."""
    for rule in rules:
        if rule_matches(rule, write) and _matches_name(rule, write.name):
            return write.resource
    if not equivalent:
        return None
    other_writes = [write._replace(resource=other) for other in others]
    for rule in rules:
        for other in other_writes:
            if rule_matches(rule, other) and _matches_name(rule, write.name):
                return other.resource
    return None


def _matches_name(rule: RuleObject, name: str) -> bool:
    names = _names_of(rule)
    return not names or name in names


def _names_of(rule: RuleObject) -> Sequence[str]:
    """Return the resource names of a rule; only policies' rules have them."""
    names: Sequence[str] = getattr(rule, "resource_names", ())
    return names


@dataclass(frozen=True, slots=True, eq=False)
class MatchCriteria:
    """Match criteria: rules, selectors and excluded rules."""

    rules: Sequence[RuleObject]
    namespaces: LabelSelector = EVERYTHING
    objects: LabelSelector = EVERYTHING
    equivalent: bool = True
    excluded: Sequence[RuleObject] = ()
    any_resource: bool = False  # True if no rules mean everything

    @property
    def depends_on_name(self) -> bool:
        """True if any rule depends on the object's name."""
        return any(_names_of(rule) for rule in (*self.rules, *self.excluded))

    def resource_for(self, write: MatchAttributes, others: Sequence[Resource]) -> Resource | None:
        """Return the resource under which the rules match a write; None if none matches or one excludes it."""
        if self.excluded and first_match(self.excluded, write, others, self.equivalent) is not None:
            return None
        if not self.rules and self.any_resource:
            return write.resource
        return first_match(self.rules, write, others, self.equivalent)


def selector_or_everything(selector: Any) -> LabelSelector:
    """Return the label selector; an absent one matches everything."""
    return EVERYTHING if selector is None else label_selector_as_selector(selector)


class Matcher:
    """Matches writes against criteria; caches the results of rules for each kind of write."""

    def __init__(self, lookup: Lookup, equivalents: Equivalents) -> None:
        self._lookup = lookup
        self._equivalents = equivalents
        self._cache: dict[tuple[Any, ...], tuple[Resource, Resource | None]] = {}

    def clear(self) -> None:
        """Clear the cache, after the criteria have changed."""
        self._cache.clear()

    def resource_for(self, criteria: MatchCriteria, attempt: Attributes) -> Resource | None:
        """Return the version in which the criteria match a write; None if they don't match."""
        found = self._by_rules(criteria, attempt)
        if found is None or not self._has_labels(criteria, attempt):
            return None
        return found if self._in_namespace(criteria, attempt) else None

    def _by_rules(self, criteria: MatchCriteria, attempt: Attributes) -> Resource | None:
        write = match_attributes_of(attempt)
        name = write.name if criteria.depends_on_name else ""
        key = (id(criteria), id(write.resource), write.operation, write.subresource, write.in_namespace, name)
        known = self._cache.get(key)
        if known is None or known[0] is not write.resource:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            others = [one for one in self._equivalents(write.resource) if one is not write.resource]
            known = self._cache[key] = write.resource, criteria.resource_for(write, others)
        return known[1]

    def _has_labels(self, criteria: MatchCriteria, attempt: Attributes) -> bool:
        selector = criteria.objects
        # Connect options have no metadata, and are never matched by a selector.
        found = [obj.metadata for obj in (attempt.obj, attempt.old_obj) if obj is not None and hasattr(obj, "metadata")]
        return selector is EVERYTHING or any(selector.matches(metadata.labels or {}) for metadata in found)

    def _in_namespace(self, criteria: MatchCriteria, attempt: Attributes) -> bool:
        selector = criteria.namespaces
        name = namespace_of(attempt)
        if selector is EVERYTHING or not (name or is_namespace(attempt.resource)):
            return True
        if is_namespace(attempt.resource) and not attempt.subresource and attempt.operation in ("CREATE", "UPDATE"):
            return bool(selector.matches(attempt.obj.metadata.labels or {})) if attempt.obj is not None else False
        found = self._lookup.get_object("namespaces", "", name)
        if found is None:
            raise errors.not_found("", "namespaces", name)
        return bool(selector.matches(found.metadata.labels or {}))
