# SPDX-License-Identifier: Apache-2.0
"""Tests of every default role for every kind and verb against the tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubeloop.api.generated.rbac_v1 import PolicyRule
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.bootstrap.cluster_roles import CLUSTER_RULES
from kubeloop.apiserver.bootstrap.controller_roles import CONTROLLER_RULES
from kubeloop.apiserver.bootstrap.policy_notation import parse_rules
from kubeloop.apiserver.request.context import User
from tests.unit.apiserver.secured_api import GROUP

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "escalate")
_TO = "system:aggregate-to-"
TABLES = {
    **CLUSTER_RULES,
    **{f"system:controller:{name}": lines for name, lines in CONTROLLER_RULES.items()},
    "view": CLUSTER_RULES[_TO + "view"],
    "edit": CLUSTER_RULES[_TO + "edit"] + CLUSTER_RULES[_TO + "view"],
    "admin": CLUSTER_RULES[_TO + "admin"] + CLUSTER_RULES[_TO + "edit"] + CLUSTER_RULES[_TO + "view"],
}


@pytest.fixture(scope="module")
def roles(bootstrapped):
    """A group for each role that has just that role."""
    for name in TABLES:
        bootstrapped.bind(name, {"kind": "Group", "apiGroup": GROUP, "name": f"has:{name}"})
    return bootstrapped


def everything() -> Iterator[tuple[str, str, str]]:
    """Group, resource and subresource of all that is served."""
    for resource in RESOURCES:
        yield resource.group, resource.plural, ""
        for subresource in resource.by_name:
            yield resource.group, resource.plural, subresource


def _rule_allows(one: PolicyRule, verb: str, group: str, resource: str, subresource: str) -> bool:
    combined = f"{resource}/{subresource}" if subresource else resource
    return (
        not one.resource_names
        and ("*" in (one.verbs or ()) or verb in (one.verbs or ()))
        and ("*" in one.api_groups or group in one.api_groups)
        and ("*" in one.resources or combined in one.resources or f"*/{subresource}" in one.resources)
    )


@pytest.mark.parametrize("role", TABLES)
def test_default_role_allows_its_rules(roles, role):
    table = parse_rules(TABLES[role])
    user = User("somebody", (f"has:{role}",))
    for group, resource, subresource in everything():
        for verb in VERBS:
            expected = any(_rule_allows(one, verb, group, resource, subresource) for one in table)
            asked = AuthorizationAttributes(user, verb, group, "v1", resource, subresource, "shop")
            assert roles.authorizer.decide(asked).allowed is expected, (role, verb, group, resource, subresource)


@pytest.mark.parametrize(
    ("role", "verb", "what"),
    [
        ("view", "get", "secrets"),
        ("view", "create", "pods"),
        ("view", "list", "nodes"),
        ("edit", "create", "roles@rbac.authorization.k8s.io"),
        ("edit", "update", "resourcequotas"),
        ("edit", "update", "nodes"),
        ("admin", "update", "resourcequotas"),
        ("admin", "delete", "namespaces"),
        ("admin", "create", "clusterroles@rbac.authorization.k8s.io"),
        ("admin", "impersonate", "users"),
        ("system:node", "delete", "nodes"),
        ("system:kube-scheduler", "get", "secrets"),
        ("system:basic-user", "list", "pods"),
    ],
)
def test_forbidden_permissions_are_in_no_default_role(roles, role, verb, what):
    resource, _, group = what.partition("@")
    asked = AuthorizationAttributes(User("somebody", (f"has:{role}",)), verb, group, "v1", resource, "", "shop")
    assert not roles.authorizer.decide(asked).allowed


@pytest.mark.parametrize(
    ("groups", "path", "allowed"),
    [
        (("system:unauthenticated",), "/healthz", True),
        (("system:unauthenticated",), "/version", True),
        (("system:unauthenticated",), "/api", False),
        (("system:unauthenticated",), "/metrics", False),
        (("system:authenticated",), "/api/v1", True),
        (("system:authenticated",), "/metrics", False),
        (("system:monitoring",), "/metrics", True),
        (("system:serviceaccounts",), "/openid/v1/jwks", True),
        (("system:masters",), "/anything", True),
    ],
)
def test_public_paths_are_readable(roles, groups, path, allowed):
    assert roles.authorizer.decide(AuthorizationAttributes(User("x", groups), "get", path=path)).allowed is allowed
