# SPDX-License-Identifier: Apache-2.0
"""Matching of requests to FlowSchemas. Pure functions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.flowcontrol.config import (
    FlowNonResourceRule,
    FlowResourceRule,
    FlowRules,
    FlowSchemaConfig,
    FlowSubject,
)
from kubeloop.apiserver.request.context import User

_ACCOUNT = "system:serviceaccount:"


def schema_for(asked: AuthorizationAttributes, schemas: Iterable[FlowSchemaConfig]) -> FlowSchemaConfig | None:
    """Return the first matching schema, or None."""
    return next((one for one in schemas if any(_matches_rules(rules, asked) for rules in one.spec.rules)), None)


def compute_flow_distinguisher(asked: AuthorizationAttributes, schema: FlowSchemaConfig) -> str:
    """Return the flow distinguisher of a request: user, namespace or empty."""
    method = schema.spec.distinguisher_method
    if method is None:
        return ""
    return asked.user.name if method.type == "ByUser" else asked.namespace


def deal_hand(schema: str, distinguisher: str, queues: int, size: int) -> tuple[int, ...]:
    """Return the queue indices of a flow, all different, by the hash of its name: shuffle sharding.

    Two flows seldom share all their queues, so that a flow which fills its own leaves others a free one.
    """
    digest = hashlib.sha256(f"{schema}\0{distinguisher}".encode()).digest()
    entropy = int.from_bytes(digest[:8], "little")
    deck, hand = list(range(queues)), []
    for left in range(queues, queues - min(size, queues), -1):
        entropy, drawn = divmod(entropy, left)
        hand.append(deck.pop(drawn))
    return tuple(hand)


def _matches_rules(rules: FlowRules, asked: AuthorizationAttributes) -> bool:
    if not any(_matches_subject(asked.user, subject) for subject in rules.subjects):
        return False
    if asked.path is not None:
        return any(_matches_non_resource_rule(rule, asked.verb, asked.path) for rule in rules.non_resource_rules)
    return any(_matches_resource_rule(rule, asked) for rule in rules.resource_rules)


def _matches_subject(user: User, subject: FlowSubject) -> bool:
    if subject.kind == "User":
        return subject.user is not None and subject.user.name in ("*", user.name)
    if subject.kind == "Group":
        return subject.group is not None and (subject.group.name == "*" or subject.group.name in user.groups)
    account = subject.service_account
    if subject.kind != "ServiceAccount" or account is None:
        return False
    if account.name == "*":
        return user.name.startswith(f"{_ACCOUNT}{account.namespace}:")
    return user.name == f"{_ACCOUNT}{account.namespace}:{account.name}"


def _matches_resource_rule(rule: FlowResourceRule, asked: AuthorizationAttributes) -> bool:
    name = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    if not (
        _contains(rule.verbs, asked.verb)
        and _contains(rule.resources, name)
        and _contains(rule.api_groups, asked.group)
    ):
        return False
    return _contains(rule.namespaces, asked.namespace) if asked.namespace else rule.cluster_scope


def _matches_non_resource_rule(rule: FlowNonResourceRule, verb: str, path: str) -> bool:
    return _contains(rule.verbs, verb) and any(_matches_url(url, path) for url in rule.non_resource_urls)


def _matches_url(url: str, path: str) -> bool:
    return url == "*" or url == path or (url.endswith("/*") and path.startswith(url[:-1]))


def _contains(wanted: Sequence[str], given: str) -> bool:
    return "*" in wanted or given in wanted
