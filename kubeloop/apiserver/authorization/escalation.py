# SPDX-License-Identifier: Apache-2.0
"""Privilege escalation check: finds granted rules that the granting user's own rules don't cover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kubeloop.api.generated.rbac_v1 import PolicyRule
from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.authorization.rules import ALL, covers_path
from kubeloop.apiserver.request.context import User


class _Permission(NamedTuple):
    """Smallest permission of a rule: one verb on one resource or path."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    path: str = ""


def uncovered_rules(owned: Sequence[PolicyRule], granted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the granted rules that the owned ones don't cover, as one rule per resource."""
    rights = [right for rule in granted for right in _breakdown_rule(rule)]
    missing = [right for right in rights if not any(_covers(rule, right) for rule in owned)]
    by_resource: dict[tuple[str, str, str], list[str]] = {}
    rules: list[PolicyRule] = []
    for right in missing:
        if right.path:
            rules.append(PolicyRule(verbs=(right.verb,), non_resource_urls=(right.path,)))
        else:
            by_resource.setdefault((right.group, right.resource, right.name), []).append(right.verb)
    for (group, resource, name), verbs in by_resource.items():
        names = (name,) if name else ()
        rules.append(PolicyRule(verbs=tuple(verbs), api_groups=(group,), resources=(resource,), resource_names=names))
    return rules


def escalation_message(user: User, missing: Iterable[PolicyRule], problems: Sequence[str]) -> str:
    """Return upstream's message for the missing rules."""
    lines = sorted({_shown(rule) for rule in missing})
    message = (
        f"user {quote(user.name)} (groups={_quoted(user.groups)}) is attempting to grant RBAC permissions "
        "not currently held:\n" + "\n".join(lines)
    )
    return f"{message}; resolution errors: [{', '.join(problems)}]" if problems else message


def _breakdown_rule(rule: PolicyRule) -> Iterator[_Permission]:
    verbs = rule.verbs or ()
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in verbs:
                for name in rule.resource_names or ("",):
                    yield _Permission(verb, group, resource, name)
    for path in rule.non_resource_urls:
        for verb in verbs:
            yield _Permission(verb, path=path)


def _covers(rule: PolicyRule, right: _Permission) -> bool:
    verbs = rule.verbs or ()
    if ALL not in verbs and right.verb not in verbs:
        return False
    if right.path:
        return any(covers_path(one, right.path) for one in rule.non_resource_urls)
    if ALL not in rule.api_groups and right.group not in rule.api_groups:
        return False
    if rule.resource_names and right.name not in rule.resource_names:
        return False
    return _covers_resource(rule.resources, right.resource)


def _covers_resource(owned: Sequence[str], resource: str) -> bool:
    if ALL in owned or resource in owned:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in owned


def _shown(rule: PolicyRule) -> str:
    parts = (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.non_resource_urls),
        ("ResourceNames", rule.resource_names),
        ("Verbs", rule.verbs or ()),
    )
    return "{" + ", ".join(f"{name}:{_quoted(values)}" for name, values in parts if values) + "}"


def _quoted(values: Iterable[str]) -> str:
    return "[" + " ".join(map(quote, values)) + "]"
