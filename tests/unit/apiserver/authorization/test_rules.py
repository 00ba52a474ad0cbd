# SPDX-License-Identifier: Apache-2.0
"""Tests of role rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.rbac_v1 import PolicyRule
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.authorization.escalation import uncovered_rules
from kubeloop.apiserver.authorization.rules import RuleSet
from kubeloop.apiserver.bootstrap.policy_notation import parse_rule
from kubeloop.apiserver.request.context import User

USER = User("bob")


def asked(verb: str, what: str, group: str = "", name: str = "") -> AuthorizationAttributes:
    resource, _, subresource = what.partition("/")
    return AuthorizationAttributes(USER, verb, group, "v1", resource, subresource, "shop", name)


def allows(line: str, question: AuthorizationAttributes) -> bool:
    return RuleSet([("x", [parse_rule(line)])]).find_source(question) is not None


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("get: pods", asked("get", "pods")),
        ("*: pods", asked("deletecollection", "pods")),
        ("get: * @*", asked("get", "deployments/scale", "apps")),
        ("get: pods/log", asked("get", "pods/log")),
        ("get: */scale @apps", asked("get", "deployments/scale", "apps")),
        ("get: pods =a,b", asked("get", "pods", name="b")),
        ("get: pods @core,apps", asked("get", "pods", "apps")),
    ],
)
def test_a_rule_allows(line, question):
    assert allows(line, question)


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("get: pods", asked("list", "pods")),
        ("get: pods", asked("get", "secrets")),
        ("get: pods", asked("get", "pods", "apps")),
        ("get: pods", asked("get", "pods/log")),
        ("get: pods/log", asked("get", "pods")),
        ("get: */scale", asked("get", "scale")),
        ("get: */scale @apps", asked("get", "deployments/status", "apps")),
        ("get: pods =a", asked("get", "pods", name="b")),
        ("get: pods =a", asked("get", "pods")),
        ("list: pods =a", asked("list", "pods")),
        ("get: url /healthz", asked("get", "healthz")),
    ],
)
def test_a_rule_does_not_allow(line, question):
    assert not allows(line, question)


@pytest.mark.parametrize(
    ("line", "path", "allowed"),
    [
        ("get: url /healthz", "/healthz", True),
        ("get: url /healthz", "/healthz/ping", False),
        ("get: url /healthz/*", "/healthz/ping", True),
        ("get: url /healthz/*", "/healthz", False),
        ("get: url *", "/anything", True),
        ("get: url /health*", "/healthz", True),
        ("post: url /healthz", "/healthz", False),
        ("*: * @*", "/healthz", False),
    ],
)
def test_non_resource_paths_have_their_own_rules(line, path, allowed):
    question = AuthorizationAttributes(USER, "get", path=path)
    assert allows(line, question) is allowed


def test_first_matching_rule_is_the_reason():
    rules = RuleSet([("first", [parse_rule("*: * @*")]), ("second", [parse_rule("get: pods")])])
    assert rules.find_source(asked("get", "pods")) == "first"


def _naive(one: PolicyRule, question: AuthorizationAttributes) -> bool:
    """Evaluate the rule literally, as documented."""
    combined = f"{question.resource}/{question.subresource}" if question.subresource else question.resource
    return (
        any(verb in ("*", question.verb) for verb in one.verbs or ())
        and any(group in ("*", question.group) for group in one.api_groups)
        and any(
            resource in ("*", combined) or (question.subresource and resource == f"*/{question.subresource}")
            for resource in one.resources
        )
        and (not one.resource_names or question.name in one.resource_names)
    )


_WORDS = {
    "verbs": ("get", "list", "*"),
    "groups": ("", "apps", "*"),
    "resources": ("pods", "pods/log", "*/log", "*", "nodes"),
    "names": ("a", "b"),
}
_rules = st.builds(
    PolicyRule,
    verbs=st.lists(st.sampled_from(_WORDS["verbs"]), min_size=1, max_size=2).map(tuple),
    api_groups=st.lists(st.sampled_from(_WORDS["groups"]), min_size=1, max_size=2).map(tuple),
    resources=st.lists(st.sampled_from(_WORDS["resources"]), min_size=1, max_size=2).map(tuple),
    resource_names=st.lists(st.sampled_from(_WORDS["names"]), max_size=1).map(tuple),
)
_questions = st.builds(
    asked,
    st.sampled_from(("get", "list")),
    st.sampled_from(("pods", "pods/log", "nodes", "nodes/log")),
    st.sampled_from(("", "apps")),
    st.sampled_from(("", "a", "b")),
)


@settings(max_examples=200)
@given(st.lists(_rules, max_size=4), _questions)
def test_indexed_rules_equal_linear_evaluation(rules, question):
    found = RuleSet([(str(index), [one]) for index, one in enumerate(rules)]).find_source(question)
    expected = next((str(index) for index, one in enumerate(rules) if _naive(one, question)), None)
    assert found == expected


@settings(max_examples=200)
@given(st.lists(_rules, max_size=3), st.lists(_rules, max_size=2), _questions)
def test_covered_rules_allow_nothing_more(owned, granted, question):
    if not uncovered_rules(owned, granted) and any(_naive(one, question) for one in granted):
        assert any(_naive(one, question) for one in owned)
