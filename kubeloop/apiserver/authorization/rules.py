# SPDX-License-Identifier: Apache-2.0
"""Index of RBAC rules: finds the rule that allows a verb on a resource or path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes

if TYPE_CHECKING:
    from kubeloop.api.generated.rbac_v1 import PolicyRule

ALL = "*"


class _ResourceEntry(NamedTuple):
    """Entry of a rule for one verb, group and resource."""

    order: int
    names: frozenset[str]  # empty: all names
    source: str


class _PathEntry(NamedTuple):
    """Entry of a rule for non-resource paths."""

    verbs: frozenset[str]
    paths: tuple[str, ...]
    source: str


class RuleSet:
    """Rules with their sources, in order: the first that allows a request is the reason.

    Each rule is indexed under every verb, group and resource that it lists, so that a query costs a few lookups,
    independent of the number of rules.
    """

    __slots__ = ("_on_paths", "_on_resources", "problems", "rules")

    def __init__(self, sourced: Iterable[tuple[str, Iterable[PolicyRule]]], problems: tuple[str, ...] = ()) -> None:
        self.rules: list[PolicyRule] = []
        self.problems = problems  # bindings to missing roles
        self._on_resources: dict[tuple[str, str, str], list[_ResourceEntry]] = {}
        self._on_paths: list[_PathEntry] = []
        for source, rules in sourced:
            for rule in rules:
                self._index(rule, source)

    def _index(self, rule: PolicyRule, source: str) -> None:
        verbs = rule.verbs or ()
        entry = _ResourceEntry(len(self.rules), frozenset(rule.resource_names), source)
        self.rules.append(rule)
        for verb in verbs:
            for group in rule.api_groups:
                for resource in rule.resources:
                    self._on_resources.setdefault((verb, group, resource), []).append(entry)
        if rule.non_resource_urls:
            self._on_paths.append(_PathEntry(frozenset(verbs), rule.non_resource_urls, source))

    def find_source(self, asked: AuthorizationAttributes) -> str | None:
        """Return the source of the permission, or None."""
        if asked.path is not None:
            return self._allows_path(asked.verb, asked.path)
        return self._allows_resource(asked) if self._on_resources else None

    def depends_on_name(self, asked: AuthorizationAttributes) -> bool:
        """Return True if the decision may differ for another object of the kind."""
        return asked.path is None and any(entry.names for entries in self._entries(asked) for entry in entries)

    def _allows_resource(self, asked: AuthorizationAttributes) -> str | None:
        name = asked.name
        best: _ResourceEntry | None = None
        for entries in self._entries(asked):
            for entry in entries:
                if entry.names and name not in entry.names:
                    continue
                if best is None or entry.order < best.order:
                    best = entry
                break
        return None if best is None else best.source

    def _entries(self, asked: AuthorizationAttributes) -> Iterator[list[_ResourceEntry]]:
        """Yield the entries for a verb, group and resource; each list in order."""
        resources: tuple[str, ...] = (asked.resource, ALL)
        if asked.subresource:
            resources = (f"{asked.resource}/{asked.subresource}", ALL, f"*/{asked.subresource}")
        for verb in (asked.verb, ALL):
            for group in (asked.group, ALL):
                for resource in resources:
                    entries = self._on_resources.get((verb, group, resource))
                    if entries is not None:
                        yield entries

    def _allows_path(self, verb: str, path: str) -> str | None:
        for entry in self._on_paths:
            if (verb in entry.verbs or ALL in entry.verbs) and any(covers_path(one, path) for one in entry.paths):
                return entry.source
        return None


def covers_path(pattern: str, path: str) -> bool:
    """Return True if a rule's path, which may end with a star, matches a path."""
    return pattern == path or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))
