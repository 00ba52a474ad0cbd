# SPDX-License-Identifier: Apache-2.0
"""Tests of self subject reviews and access reviews."""

from __future__ import annotations

import pytest

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
ACCESS = f"{AUTHORIZATION}/subjectaccessreviews"
SELF = f"{AUTHORIZATION}/selfsubjectaccessreviews"
LOCAL = f"{AUTHORIZATION}/namespaces/shop/localsubjectaccessreviews"
RULES = f"{AUTHORIZATION}/selfsubjectrulesreviews"
PODS = {"namespace": "shop", "verb": "get", "resource": "pods"}
ROOT = {"path": "/", "verb": "get"}
ONE_QUESTION = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def test_self_review_returns_the_user(api):
    review = api.made("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert review["status"]["userInfo"] == {
        "username": "admin",
        "uid": "7",
        "groups": ["system:masters", "system:authenticated"],
        "extra": {"team": ["a", "b"]},
    }
    assert review["metadata"] == {"creationTimestamp": "2026-05-10T12:00:00Z"}


@pytest.mark.parametrize(
    ("who", "allowed"),
    [({"user": "x", "groups": ["system:masters"]}, True), ({"user": "bob"}, False), ({"groups": ["g"]}, False)],
)
def test_access_review_returns_the_decision(api, who, allowed):
    review = api.made(ACCESS, {"spec": {**who, "resourceAttributes": PODS}})
    assert review["status"] == {"allowed": allowed}
    assert review["spec"]["resourceAttributes"] == PODS


@pytest.mark.parametrize(("path", "allowed"), [("/healthz", True), ("/metrics", False)])
def test_access_review_supports_paths(api, path, allowed):
    rbac, group = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    rules = [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]
    api.made(f"{rbac}/clusterroles", {"metadata": {"name": "health"}, "rules": rules})
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "health"}
    subjects = [{"kind": "User", "apiGroup": group, "name": "bob"}]
    api.made(f"{rbac}/clusterrolebindings", {"metadata": {"name": "h"}, "roleRef": role, "subjects": subjects})
    asked = {"path": path, "verb": "get"}
    assert api.made(ACCESS, {"spec": {"user": "bob", "nonResourceAttributes": asked}})["status"]["allowed"] is allowed


def test_review_has_managed_fields(api):
    meta = api.made(ACCESS, {"spec": {"user": "bob", "resourceAttributes": PODS}})["metadata"]
    (entry,) = meta.pop("managedFields")
    assert entry["fieldsV1"]["f:spec"]["f:user"] == {}
    assert meta == {}


def test_administrators_may_do_everything(api):
    assert api.made(SELF, {"spec": {"resourceAttributes": PODS}})["status"] == {"allowed": True}
    rules = api.made(RULES, {"spec": {"namespace": "shop"}})
    assert rules["status"]["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert rules["status"]["nonResourceRules"] == [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    assert rules["status"]["incomplete"] is False
    assert rules["spec"] == {}


def test_rules_review_is_per_namespace(api):
    answer = api.post(RULES, {"spec": {}})
    assert (answer.status, answer.body["message"]) == (400, "no namespace on request")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"user": "bob"}, f"spec: Invalid value: null: {ONE_QUESTION}"),
        (
            {"user": "bob", "resourceAttributes": PODS, "nonResourceAttributes": ROOT},
            f'spec: Invalid value: {{"Path":"/","Verb":"get"}}: {ONE_QUESTION}',
        ),
        (
            {"resourceAttributes": PODS},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
        (
            {"user": "bob", "resourceAttributes": {**PODS, "labelSelector": {}}},
            "spec.resourceAttributes.labelSelector.requirements: Required value: when "
            "spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required",
        ),
        (
            {
                "user": "bob",
                "resourceAttributes": {
                    **PODS,
                    "fieldSelector": {"rawSelector": "a=b", "requirements": [{"key": "k", "operator": "Exists"}]},
                },
            },
            'spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: "a=b": '
            "may not specified at the same time as requirements",
        ),
        (
            {
                "user": "bob",
                "resourceAttributes": {**PODS, "fieldSelector": {"requirements": [{"key": "k", "operator": "In"}]}},
            },
            "spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: "
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
    ],
)
def test_review_without_clear_attributes_is_invalid(api, spec, told):
    answer = api.post(ACCESS, {"spec": spec})
    assert (answer.status, answer.body["message"]) == (422, f'.authorization.k8s.io "" is invalid: {told}')


def test_unknown_selector_operator_is_passed_through(api):
    selector = {"requirements": [{"key": "k", "operator": "Near"}]}
    spec = {"user": "bob", "resourceAttributes": {**PODS, "fieldSelector": selector, "labelSelector": selector}}
    assert api.post(ACCESS, {"spec": spec}).status == 201


def test_a_review_has_no_name(api):
    answer = api.post(ACCESS, {"metadata": {"name": "x"}, "spec": {"user": "bob", "resourceAttributes": PODS}})
    assert answer.status == 422
    told = answer.body["message"]
    assert 'metadata: Invalid value: {"name":"x","managedFields":[{' in told
    assert told.endswith(": must be empty")


def test_local_review_must_match_its_namespace(api):
    assert api.post(LOCAL, {"spec": {"user": "bob", "resourceAttributes": PODS}}).status == 201
    elsewhere = api.post(LOCAL, {"spec": {"user": "bob", "resourceAttributes": {**PODS, "namespace": "other"}}})
    assert elsewhere.body["message"].endswith(
        'spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace'
    )
    path = api.post(LOCAL, {"spec": {"user": "bob", "nonResourceAttributes": ROOT}})
    assert path.body["message"].endswith("disallowed on this kind of request")


@pytest.mark.parametrize("path", [ACCESS, SELF, RULES, "/apis/authentication.k8s.io/v1/tokenreviews"])
def test_reviews_are_not_stored(api, path):
    assert api.get(path).status == 405
    assert api.ask("DELETE", path).status == 405


def test_reviews_have_no_table_form(api):
    body = {"spec": {"resourceAttributes": PODS}}
    assert api.post(SELF, body, accept="application/json;as=Table;v=v1;g=meta.k8s.io").status == 406
