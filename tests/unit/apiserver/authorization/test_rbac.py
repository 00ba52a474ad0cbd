# SPDX-License-Identifier: Apache-2.0
"""Tests of roles and bindings, and of forbidden messages."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.secured_api import GROUP, RBAC, refused

PODS = "/api/v1/namespaces/shop/pods"
BOB = {"kind": "User", "apiGroup": GROUP, "name": "bob"}


@pytest.fixture
def bob(secured):
    secured.namespace("shop")
    return secured.knows("bob", "devs")


def test_without_roles_nothing_is_allowed(secured, bob):
    told = 'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "shop"'
    assert refused(secured.get(PODS, token=bob)) == told


@pytest.mark.parametrize("who", [{"user": "bob"}, {"group": "devs"}, {"group": "system:authenticated"}])
def test_binding_grants_a_role_to_users_and_groups(secured, bob, who):
    secured.may("list: pods", namespace="shop", **who)
    assert secured.get(PODS, token=bob).status == 200


def test_role_applies_to_its_namespace_only(secured, bob):
    secured.may("list: pods", user=bob, namespace="shop")
    refused(secured.get("/api/v1/pods", token=bob))
    refused(secured.get("/api/v1/namespaces/other/pods", token=bob))


def test_a_cluster_role_can_be_bound_in_one_namespace(secured, bob):
    role = secured.may("list: pods", user="somebody-else")
    secured.bind(role, BOB, namespace="shop")
    assert secured.get(PODS, token=bob).status == 200
    refused(secured.get("/api/v1/pods", token=bob))


def test_service_account_without_namespace_is_in_the_bindings_namespace(secured, bob):
    role = secured.may("list: pods", user="somebody-else")
    secured.bind(role, {"kind": "ServiceAccount", "name": "default"}, namespace="shop")
    account = secured.knows("system:serviceaccount:shop:default")
    assert secured.get(PODS, token=account).status == 200


def test_revoked_permission_is_effective_immediately(secured, bob):
    name = secured.may("list: pods", user=bob, namespace="shop")
    assert secured.get(PODS, token=bob).status == 200
    assert secured.ask("DELETE", f"{RBAC}/namespaces/shop/roles/{name}").status == 200
    told = refused(secured.get(PODS, token=bob))
    assert told.endswith(f'in the namespace "shop": rbac: RBAC: role.{GROUP} "{name}" not found')


def test_each_missing_role_is_reported_once(secured, bob):
    for name in ("one", "two", "two"):
        secured.bind(name, BOB)
    told = refused(secured.get(PODS, token=bob))
    assert told.endswith(f'RBAC: [clusterrole.{GROUP} "one" not found, clusterrole.{GROUP} "two" not found]')


def test_resource_names_narrow_a_permission(secured, bob):
    secured.may("get list: configmaps =one", user=bob, namespace="shop")
    where = "/api/v1/namespaces/shop/configmaps"
    assert secured.get(f"{where}/one", token=bob).status == 404
    refused(secured.get(f"{where}/two", token=bob))
    refused(secured.get(where, token=bob))
    assert secured.get(f"{where}?fieldSelector=metadata.name%3Done", token=bob).status == 200
    refused(secured.get(f"{where}?fieldSelector=metadata.name%21%3Done", token=bob))


def test_namespaced_permissions_apply_to_the_namespace_object(secured, bob):
    secured.may("get: namespaces", user=bob, namespace="shop")
    assert secured.get("/api/v1/namespaces/shop", token=bob).status == 200
    refused(secured.get("/api/v1/namespaces/other", token=bob))


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("GET", "/apis/example.com/v1/namespaces/shop/things", "things.example.com is forbidden"),
        ("GET", "/api/v1/namespaces/shop/nosuch/n", 'nosuch "n" is forbidden'),
        ("DELETE", "/api/v1/nodes", "cannot deletecollection"),
        ("PATCH", f"{PODS}/p/nosuch", 'cannot patch resource "pods/nosuch"'),
        ("GET", "/api/v9/pods?watch=1", "cannot watch"),
        ("PUT", PODS, "cannot update"),
    ],
)
def test_forbidden_response_does_not_reveal_existence(secured, bob, method, path, told):
    assert told in refused(secured.ask(method, path, token=bob))


def test_rejection_is_not_html(secured):
    name = secured.knows("<script>")
    assert "&lt;script&gt;" in refused(secured.get(PODS, token=name))


def test_aggregated_role_is_the_union_of_selected_roles(secured, bob):
    selector = {"clusterRoleSelectors": [{"matchLabels": {"for": "all"}}]}
    secured.made(f"{RBAC}/clusterroles", {"metadata": {"name": "all"}, "aggregationRule": selector})
    secured.bind("all", BOB)
    refused(secured.get(PODS, token=bob))
    rules = [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]
    secured.made(f"{RBAC}/clusterroles", {"metadata": {"name": "one", "labels": {"for": "all"}}, "rules": rules})
    assert secured.get(PODS, token=bob).status == 200


def test_mutually_aggregated_roles_terminate(secured, bob):
    for name, other in (("a", "b"), ("b", "a")):
        selector = {"clusterRoleSelectors": [{"matchLabels": {"is": other}}]}
        meta = {"name": name, "labels": {"is": name}}
        secured.made(f"{RBAC}/clusterroles", {"metadata": meta, "aggregationRule": selector})
    secured.bind("a", BOB)
    refused(secured.get(PODS, token=bob))


def test_self_subject_rules_review_lists_permissions(secured, bob):
    review = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    secured.may("create: selfsubjectrulesreviews @authorization.k8s.io", user=bob)
    secured.may("get: secrets =s", user=bob, namespace="shop")
    secured.may("get: url /healthz", user=bob)
    answer = secured.post(review, {"spec": {"namespace": "shop"}}, token=bob)
    assert answer.body["status"] == {
        "resourceRules": [
            {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectrulesreviews"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"]},
        ],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
        "incomplete": False,
    }


def test_access_review_names_the_binding(secured, bob):
    name = secured.may("list: pods", user=bob, namespace="shop")
    spec = {"user": bob, "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "shop"}}
    review = secured.made("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    reason = review["status"]["reason"]
    assert reason.startswith("RBAC: allowed by RoleBinding ")
    assert reason.endswith(f'/shop" of Role "{name}" to User "bob"')
