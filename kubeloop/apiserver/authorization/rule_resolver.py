# SPDX-License-Identifier: Apache-2.0
"""Rules of a user for SelfSubjectRulesReview, collected from all modes."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.api.generated.rbac_v1 import PolicyRule
from kubeloop.api.meta.field_path import aggregate
from kubeloop.apiserver.authorization import ADMINISTRATORS, AlwaysAllow, AuthorizerMode, ResolvedRules
from kubeloop.apiserver.authorization.node import NodeAuthorizer, node_of
from kubeloop.apiserver.authorization.rbac import RBACAuthorizer
from kubeloop.apiserver.authorization.webhook import WebhookAuthorizer
from kubeloop.apiserver.request.context import User

_EVERYTHING = (
    PolicyRule(verbs=("*",), api_groups=("*",), resources=("*",)),
    PolicyRule(verbs=("*",), non_resource_urls=("*",)),
)


def rules_of(modes: Sequence[AuthorizerMode], user: User, namespace: str) -> ResolvedRules:
    """Return the rules of a user in a namespace, from all modes in order."""
    rules: list[PolicyRule] = []
    problems: list[str] = []
    incomplete = False
    for mode in modes:
        if isinstance(mode, RBACAuthorizer):
            found, missing = mode.rules_of(user, namespace)
            rules += found
            problems += [aggregate(missing)] if missing else []
        elif isinstance(mode, AlwaysAllow):
            rules += _EVERYTHING
        elif isinstance(mode, NodeAuthorizer) and node_of(user) is not None:
            incomplete = True
            problems.append("node authorizer does not support user rule resolution")
        elif isinstance(mode, WebhookAuthorizer):
            incomplete = True
            problems.append("webhook authorizer does not support user rule resolution")
    if ADMINISTRATORS in user.groups and not any(rule in rules for rule in _EVERYTHING):
        rules += _EVERYTHING
    return ResolvedRules(tuple(rules), incomplete, aggregate(problems) if problems else "")
