"""May somebody do something? The questions that reviews ask, put to the same functions that guard every request."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api import errors
from kubeloop.api.generated.authorization_v1 import (
    NonResourceAttributes,
    NonResourceRule,
    ResourceAttributes,
    ResourceRule,
)
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.authorization import ADMINISTRATORS, authorize_path, authorize_target
from kubeloop.apiserver.context import User
from kubeloop.apiserver.routing import Target

_EVERYTHING = ("*",)


class Decision(NamedTuple):
    """An answer, and where it comes from if that is known."""

    allowed: bool
    reason: str = ""


class KnownRules(NamedTuple):
    """What somebody may do, as far as it can be listed."""

    resources: tuple[ResourceRule, ...] = ()
    paths: tuple[NonResourceRule, ...] = ()


def decide_resource(user: User, asked: ResourceAttributes) -> Decision:
    """May they do this to a resource?"""
    resource = Resource(asked.group, asked.version, asked.resource, "")
    target = Target(resource, asked.verb, asked.namespace, asked.name, asked.subresource)
    try:
        authorize_target(user, target, asked.verb)
    except errors.Forbidden:
        return Decision(False)
    return Decision(True)


def decide_path(user: User, asked: NonResourceAttributes) -> Decision:
    """May they ask for this path?"""
    try:
        authorize_path(user, asked.verb.upper(), asked.path)
    except errors.Forbidden:
        return Decision(False)
    return Decision(True)


def rules_of(user: User, namespace: str) -> KnownRules:
    """What they may do in a namespace."""
    if ADMINISTRATORS not in user.groups:
        return KnownRules()
    return KnownRules(
        (ResourceRule(verbs=_EVERYTHING, api_groups=_EVERYTHING, resources=_EVERYTHING),),
        (NonResourceRule(verbs=_EVERYTHING, non_resource_urls=_EVERYTHING),),
    )
