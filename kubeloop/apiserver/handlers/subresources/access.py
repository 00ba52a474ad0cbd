"""Evaluates the questions of access reviews with the server's authorizer."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api.field_selectors import FieldRequirement, FieldSelector, parse_field_selector
from kubeloop.api.generated.authorization_v1 import (
    NonResourceAttributes,
    NonResourceRule,
    ResourceAttributes,
    ResourceRule,
)
from kubeloop.api.selectors.operators import Operator, SelectorError
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, AuthorizationDecision
from kubeloop.apiserver.request.context import User

_OPERATORS = {"In": Operator.EQUALS, "NotIn": Operator.NOT_EQUALS}


class UserRules(NamedTuple):
    """Rules that apply to a user, as far as the authorizers can enumerate them."""

    resources: tuple[ResourceRule, ...]
    paths: tuple[NonResourceRule, ...]
    incomplete: bool
    problem: str


def decide_resource(authorizer: UnionAuthorizer, user: User, asked: ResourceAttributes) -> AuthorizationDecision:
    """Authorize the resource attributes of an access review."""
    return authorizer.decide(
        AuthorizationAttributes(
            user,
            asked.verb,
            asked.group,
            asked.version or "*",
            asked.resource,
            asked.subresource,
            asked.namespace,
            asked.name,
            None,
            _fields(asked),
        )
    )


def decide_path(authorizer: UnionAuthorizer, user: User, asked: NonResourceAttributes) -> AuthorizationDecision:
    """Authorize the non-resource attributes of an access review."""
    return authorizer.decide(AuthorizationAttributes(user, asked.verb, path=asked.path))


def rules_of(authorizer: UnionAuthorizer, user: User, namespace: str) -> UserRules:
    """Return the rules that apply to a user in a namespace."""
    known = authorizer.rules_of(user, namespace)
    resources = [
        ResourceRule(
            verbs=rule.verbs or (),
            api_groups=rule.api_groups,
            resources=rule.resources,
            resource_names=rule.resource_names,
        )
        for rule in known.rules
        if rule.resources
    ]
    paths = [
        NonResourceRule(verbs=rule.verbs or (), non_resource_urls=rule.non_resource_urls)
        for rule in known.rules
        if rule.non_resource_urls
    ]
    return UserRules(tuple(resources), tuple(paths), known.incomplete, known.problem)


def _fields(asked: ResourceAttributes) -> FieldSelector | None:
    """Parse the field selector of a review; invalid requirements are dropped, which only widens the question."""
    selector = asked.field_selector
    if selector is None:
        return None
    if selector.requirements:
        known = (one for one in selector.requirements if one.operator in _OPERATORS and len(one.values) == 1)
        return FieldSelector(tuple(FieldRequirement(one.key, _OPERATORS[one.operator], one.values[0]) for one in known))
    try:
        return parse_field_selector(selector.raw_selector)
    except SelectorError:
        return None
