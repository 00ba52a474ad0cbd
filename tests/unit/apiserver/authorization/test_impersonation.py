# SPDX-License-Identifier: Apache-2.0
"""Tests of impersonation."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.api.features.resource_config import APIResourceConfig
from tests.unit.apiserver.conftest import ManualClock
from tests.unit.apiserver.secured_api import SecuredApi, refused

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
PODS = "/api/v1/namespaces/shop/pods"


@pytest.fixture
def told_who(secured):
    """Return a function for the user that the server authenticates; all users may review themselves."""
    for group in ("system:authenticated", "system:unauthenticated"):
        secured.may("create: selfsubjectreviews @authentication.k8s.io", group=group)

    def ask(**headers):
        answer = secured.post(WHO, {}, **headers)
        assert answer.status == 201, answer.body
        return answer.body["status"]["userInfo"]

    return ask


@pytest.mark.parametrize(
    ("headers", "info"),
    [
        ({"impersonate_user": "bob"}, {"username": "bob", "groups": ["system:authenticated"]}),
        (
            {"impersonate_user": "bob", "impersonate_group": "a, b", "impersonate_uid": "7"},
            {"username": "bob", "uid": "7", "groups": ["a, b", "system:authenticated"]},
        ),
        (
            {"impersonate_user": "bob", "impersonate_extra_example.com%2fkey": "v"},
            {"username": "bob", "groups": ["system:authenticated"], "extra": {"example.com/key": ["v"]}},
        ),
        (
            {"impersonate_user": "system:serviceaccount:shop:default"},
            {
                "username": "system:serviceaccount:shop:default",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"],
            },
        ),
        (
            {"impersonate_user": "system:anonymous"},
            {"username": "system:anonymous", "groups": ["system:unauthenticated"]},
        ),
        (
            {"impersonate_user": "bob", "impersonate_group": "system:unauthenticated"},
            {"username": "bob", "groups": ["system:unauthenticated"]},
        ),
        (
            {"impersonate_user": "system:node:n1"},
            {"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]},
        ),
    ],
)
def test_administrator_may_impersonate_anyone(told_who, headers, info):
    assert told_who(**headers) == info


def test_impersonation_has_only_the_impersonated_permissions(secured):
    refused(secured.get(PODS, impersonate_user="bob"))
    assert secured.get(PODS, impersonate_user="bob", impersonate_group="system:masters").status == 200


@pytest.mark.parametrize("header", ["impersonate_group", "impersonate_uid", "impersonate_extra_scopes"])
def test_group_without_user_is_rejected(secured, header):
    answer = secured.get(PODS, **{header: "g"})
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"].endswith("without impersonating a user name")


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"impersonate_user": "alice"}, "cannot impersonate-on:user-info:list resource"),
        (
            {"impersonate_user": "system:serviceaccount:shop:default"},
            "cannot impersonate-on:serviceaccount:list resource",
        ),
        ({"impersonate_user": "system:node:n1"}, "cannot impersonate-on:arbitrary-node:list resource"),
    ],
)
def test_impersonation_requires_permission(secured, headers, told):
    eve = secured.knows("eve")
    secured.may("list: pods", user="alice")
    assert told in refused(secured.get(PODS, token=eve, **headers))


@pytest.mark.parametrize("missing", ["users", "groups", "uids", "userextras/scopes"])
def test_each_part_of_an_identity_requires_permission(secured, missing):
    eve = secured.knows("eve")
    secured.may("list: pods", user="alice")
    rights = {
        "users": "",
        "groups": "",
        "uids": " @authentication.k8s.io",
        "userextras/scopes": " @authentication.k8s.io",
    }
    for what, group in rights.items():
        if what != missing:
            secured.may(f"impersonate: {what}{group}", user=eve)
    everything = {
        "impersonate_user": "alice",
        "impersonate_group": "g",
        "impersonate_uid": "7",
        "impersonate_extra_scopes": "s",
    }
    refused(secured.get(PODS, token=eve, **everything))
    secured.may(f"impersonate: {missing}{rights[missing]}", user=eve)
    assert secured.get(PODS, token=eve, **everything).status == 200


def test_permission_for_one_user_does_not_apply_to_another(secured):
    eve = secured.knows("eve")
    secured.may("list: pods", group="system:authenticated")
    secured.may("impersonate: users =alice", user=eve)
    assert secured.get(PODS, token=eve, impersonate_user="alice").status == 200
    refused(secured.get(PODS, token=eve, impersonate_user="admin"))
    refused(secured.get(PODS, token=eve, impersonate_user="alice", impersonate_group="system:masters"))


def test_constrained_permission_applies_to_its_verb_only(secured):
    eve = secured.knows("eve")
    secured.may("list create: pods", user="alice")
    secured.may("impersonate:user-info: users @authentication.k8s.io =alice", user=eve)
    secured.may("impersonate-on:user-info:list: pods", user=eve)
    assert secured.get(PODS, token=eve, impersonate_user="alice").status == 200
    refused(secured.post(PODS, {}, token=eve, impersonate_user="alice"))


def test_constrained_rights_mean_nothing_without_their_feature_gate():
    class LegacyApi(SecuredApi):
        serving = APIResourceConfig(features=parse_feature_gates(["ConstrainedImpersonation=false"]))

    with asyncio.Runner() as runner:
        api = LegacyApi(runner, ManualClock())
        eve = api.knows("eve")
        api.may("list: pods", user="alice")
        api.may("impersonate:user-info: users @authentication.k8s.io =alice", user=eve)
        api.may("impersonate-on:user-info:list: pods", user=eve)
        told = refused(api.get(PODS, token=eve, impersonate_user="alice"))
        assert 'User "eve" cannot impersonate resource "users" in API group ""' in told
        api.may("impersonate: users =alice", user=eve)
        assert api.get(PODS, token=eve, impersonate_user="alice").status == 200


def test_constrained_permission_excludes_system_masters(secured):
    eve = secured.knows("eve")
    secured.may("*: * @*", user=eve)
    eve_without_old_right = secured.knows("mallory")
    secured.may("impersonate:user-info: users groups @authentication.k8s.io", user="mallory")
    secured.may("impersonate-on:user-info:list: pods", user="mallory")
    told = refused(
        secured.get(PODS, token=eve_without_old_right, impersonate_user="a", impersonate_group="system:masters")
    )
    assert told.endswith("impersonating the system:masters group is not allowed")
