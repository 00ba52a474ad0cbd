# SPDX-License-Identifier: Apache-2.0
"""Tests of audit policy rules."""

from __future__ import annotations

import pytest
import yaml

from kubeloop.apiserver.audit.policy import LEVELS, AuditPolicyError, read_policy
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.request.context import User

BOB = User("bob", ("devs",))


def asked(verb="get", what="pods", group="", namespace="shop", name="", user=BOB):
    resource, _, subresource = what.partition("/")
    return AuthorizationAttributes(user, verb, group, "v1", resource, subresource, namespace, name)


@pytest.fixture
def policy(tmp_path):
    def make(*rules, **fields):
        path = tmp_path / "policy.yaml"
        document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **fields}
        path.write_text(yaml.safe_dump(document))
        return read_policy(path)

    return make


def level(policy, question):
    return LEVELS[policy.evaluate(question).level]


@pytest.mark.parametrize(
    ("rule", "question", "fits"),
    [
        ({}, asked(), True),
        ({"users": ["bob"]}, asked(), True),
        ({"users": ["eve"]}, asked(), False),
        ({"userGroups": ["ops", "devs"]}, asked(), True),
        ({"userGroups": ["ops"]}, asked(), False),
        ({"verbs": ["get"]}, asked(), True),
        ({"verbs": ["list"]}, asked(), False),
        ({"namespaces": ["shop"]}, asked(), True),
        ({"namespaces": ["bar"]}, asked(), False),
        ({"namespaces": [""]}, asked(namespace=""), True),
        ({"namespaces": ["shop"]}, AuthorizationAttributes(BOB, "get", path="/healthz"), False),
        ({"resources": [{"group": ""}]}, asked(), True),
        ({"resources": [{"group": "apps"}]}, asked(), False),
        ({"resources": [{"group": "*", "resources": ["pods"]}]}, asked(group="apps"), True),
        ({"resources": [{"group": "", "resources": ["pods"]}]}, asked(what="pods/log"), False),
        ({"resources": [{"group": "", "resources": ["pods/log"]}]}, asked(what="pods/log"), True),
        ({"resources": [{"group": "", "resources": ["pods/*"]}]}, asked(what="pods/log"), True),
        ({"resources": [{"group": "", "resources": ["*/log"]}]}, asked(what="pods/log"), True),
        ({"resources": [{"group": "", "resources": ["*"]}]}, asked(what="pods/log"), True),
        ({"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["a"]}]}, asked(name="a"), True),
        ({"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["a"]}]}, asked(name="b"), False),
        ({"nonResourceURLs": ["/healthz*"]}, AuthorizationAttributes(BOB, "get", path="/healthz/ping"), True),
        ({"nonResourceURLs": ["/healthz"]}, AuthorizationAttributes(BOB, "get", path="/version"), False),
        ({"nonResourceURLs": ["*"]}, asked(), False),
    ],
)
def test_rule_matches(policy, rule, question, fits):
    assert level(policy({"level": "Metadata", **rule}), question) == ("Metadata" if fits else "None")


def test_first_matching_rule_applies(policy):
    made = policy({"level": "None", "verbs": ["watch"]}, {"level": "Request", "users": ["bob"]}, {"level": "Metadata"})
    assert level(made, asked("watch")) == "None"
    assert level(made, asked()) == "Request"
    assert level(made, asked(user=User("eve"))) == "Metadata"


@pytest.mark.parametrize(
    "question",
    [
        asked(what="secrets"),
        asked("create", "serviceaccounts/token"),
        asked("create", "tokenreviews", "authentication.k8s.io"),
    ],
)
def test_secrets_are_never_logged_above_metadata(policy, question):
    assert level(policy({"level": "RequestResponse"}), question) == "Metadata"


def test_stages_are_omitted_by_policy_and_rule(policy):
    made = policy({"level": "Metadata", "omitStages": ["Panic"]}, omitStages=["RequestReceived"])
    assert made.evaluate(asked()).omit_stages == {"RequestReceived", "Panic"}


@pytest.mark.parametrize(
    ("rules", "fields", "told"),
    [
        ([], {}, "0 rules"),
        ([{}], {}, "not one of the levels"),
        ([{"level": "All"}], {}, "not one of the levels"),
        ([{"level": "None", "omitStages": ["Never"]}], {}, "not one of the stages"),
        ([{"level": "None", "nonResourceURLs": ["x"]}], {}, "must begin with a '/'"),
        ([{"level": "None", "nonResourceURLs": ["/a*b"]}], {}, "must be the final character"),
        ([{"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["b"]}], {}, "cannot apply to both"),
        ([{"level": "None"}], {"apiVersion": "audit.k8s.io/v1beta1"}, "unknown group version"),
        ([{"level": 3}], {}, "is not an audit policy"),
    ],
)
def test_invalid_policy_is_rejected_with_its_reason(policy, rules, fields, told):
    with pytest.raises(AuditPolicyError, match=told):
        policy(*rules, **fields)
