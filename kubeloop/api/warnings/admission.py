# SPDX-License-Identifier: Apache-2.0
"""Warnings about admission configurations: reserved names, and rules for resources that skip webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubeloop.api.generated.admissionregistration_v1 import RuleWithOperations
from kubeloop.api.warnings.rules import Warnings

_SUFFIX: Final = ".static.k8s.io"
_RESERVED: Final = (
    f'metadata.name: names ending with "{_SUFFIX}" are reserved for static manifest-based configurations '
    "and cannot be managed via the API"
)
_NEVER_ASKED: Final = frozenset(
    (
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    )
)


def _about_name(obj: Any) -> list[str]:
    return [_RESERVED] if obj.metadata.name.endswith(_SUFFIX) else []


def _about_rules(configuration: Any) -> list[str]:
    return [
        f"webhooks[{i}].rules[{j}]: {resource}.{group} is excluded from admission webhooks; "
        "this rule will have no effect"
        for i, webhook in enumerate(configuration.webhooks or ())
        for j, rule in enumerate(webhook.rules or ())
        for group, resource in _named_in_vain(rule)
    ]


def _named_in_vain(rule: RuleWithOperations) -> Iterator[tuple[str, str]]:
    """Yield the resources that a rule names without effect; wildcards do not count."""
    groups, resources = rule.api_groups or (), rule.resources or ()
    if "*" not in groups and "*" not in resources:
        pairs = dict.fromkeys((group, resource) for group in groups for resource in resources)
        yield from (pair for pair in pairs if pair in _NEVER_ASKED)


# Validation rejects new objects with such a name; only older ones can be updated.
RESERVED_NAMES = Warnings(update=lambda new, old: _about_name(new))
WEBHOOKS = Warnings(create=_about_rules, update=lambda new, old: _about_name(new) + _about_rules(new))
