# SPDX-License-Identifier: Apache-2.0
"""Permission to read the parameters of an admission policy is required to write the policy or its binding."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kubeloop.api.generated.admissionregistration_v1 import ParamKind
from kubeloop.apiserver.admission.plugins.authorization.policy_param_authorization import PolicyParamAuthorization
from kubeloop.apiserver.request.context import User

BASE = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{BASE}/validatingadmissionpolicies", f"{BASE}/validatingadmissionpolicybindings"
WRITES = (
    "create update patch get: validatingadmissionpolicies validatingadmissionpolicybindings "
    "@admissionregistration.k8s.io"
)
BOB = "&{bob  [system:authenticated] map[]}"


@pytest.fixture
def bob(secured):
    secured.namespace("shop")
    secured.may(WRITES, user="bob")
    return secured.knows("bob")


def policy(kind="Secret", api_version="v1", name="p"):
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    if kind:
        spec["paramKind"] = {"apiVersion": api_version, "kind": kind}
        spec["validations"][0]["messageExpression"] = "string(params.metadata.name)"
    return {"metadata": {"name": name}, "spec": spec}


def binding(policy_name="p", **ref):
    param = {"parameterNotFoundAction": "Deny", **ref}
    spec = {"policyName": policy_name, "validationActions": ["Deny"], "paramRef": param}
    return {"metadata": {"name": "b"}, "spec": spec}


def patch(secured, body, token):
    return secured.ask("PATCH", f"{POLICIES}/p", body, token=token, content_type="application/merge-patch+json")


def test_a_policy_with_parameters_requires_permission_to_get_all_of_them(secured, bob):
    answer = secured.post(POLICIES, policy(), token=bob)
    told = 'must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)'
    assert answer.status == 422
    assert f"spec.paramKind: Forbidden: user {BOB} {told}" in answer.body["message"]
    secured.may("get: secrets", user="bob", namespace="shop")
    assert secured.post(POLICIES, policy(), token=bob).status == 422
    secured.may("get: secrets", user="bob")
    assert secured.post(POLICIES, policy(), token=bob).status == 201


def test_a_policy_without_parameters_requires_none(secured, bob):
    assert secured.post(POLICIES, policy(kind=""), token=bob).status == 201
    assert patch(secured, {"spec": policy()["spec"]}, bob).status == 422


def test_an_unchanged_kind_is_not_checked_again(secured, bob):
    secured.made(POLICIES, policy())
    assert patch(secured, {"metadata": {"labels": {"a": "b"}}}, bob).status == 200


@pytest.mark.parametrize(
    ("ref", "verb", "allowed"),
    [
        ({"name": "s", "namespace": "shop"}, "get", "get: secrets"),
        ({"selector": {}, "namespace": "shop"}, "list", "list: secrets"),
    ],
)
def test_a_binding_requires_permission_for_its_parameters(secured, bob, ref, verb, allowed):
    secured.made(POLICIES, policy())
    answer = secured.post(BINDINGS, binding(**ref), token=bob)
    told = f'user {BOB} does not have "{verb}" permission on the object referenced by paramRef'
    assert answer.status == 422
    assert f"spec.paramRef: Forbidden: {told}" in answer.body["message"]
    secured.may(allowed, user="bob", namespace="shop")
    assert secured.post(BINDINGS, binding(**ref), token=bob).status == 201


def test_a_binding_of_an_unknown_policy_requires_permission_for_everything(secured, bob):
    secured.may("get: secrets", user="bob")
    answer = secured.post(BINDINGS, binding("missing", name="s", namespace="shop"), token=bob)
    assert answer.status == 422
    assert "unable to get policy missing to determine minimum required permissions" in answer.body["message"]


def test_a_binding_of_an_unknown_kind_requires_permission_for_all_of_its_group(secured, bob):
    secured.made(POLICIES, policy("X", "a.example/v1"))
    answer = secured.post(BINDINGS, binding(name="s", namespace="shop"), token=bob)
    told = f'and user {BOB} does not have "get" permission for all groups, versions and resources'
    why = f"unable to resolve paramKind &{{a.example/v1 X}} to determine minimum required permissions {told}"
    assert f"spec.paramRef: Forbidden: {why}" in answer.body["message"]


def test_an_administrator_is_not_asked(secured):
    assert secured.post(POLICIES, policy(kind="Unknown", api_version="a.example/v1")).status == 201
    assert secured.post(BINDINGS, binding("missing", name="s", namespace="shop")).status == 201


def test_a_binding_without_parameters_requires_none(secured, bob):
    secured.made(POLICIES, policy())
    plain = binding()
    del plain["spec"]["paramRef"]
    assert secured.post(BINDINGS, plain, token=bob).status == 201


def test_a_binding_of_a_policy_without_parameters_requires_permission_for_everything(secured, bob):
    secured.made(POLICIES, policy(kind=""))
    secured.may("get: secrets", user="bob")
    answer = secured.post(BINDINGS, binding(name="s", namespace="shop"), token=bob)
    assert answer.status == 422
    assert f'user {BOB} does not have "get" permission on the object' in answer.body["message"]
    secured.may("get: * @*", user="bob")
    assert secured.post(BINDINGS, binding(name="s", namespace="shop"), token=bob).status == 201


def widgets(*versions):
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [
                {"name": name, "served": served, "storage": name == versions[0][0], "schema": schema}
                for name, served in versions
            ],
        },
    }


def test_the_resource_of_a_custom_kind_is_that_of_its_served_version(secured, bob):
    secured.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets(("v1", True), ("v2", False)))
    secured.may("get: widgets @example.com", user="bob")
    assert secured.post(POLICIES, policy("Widget", "example.com/v1"), token=bob).status == 201
    for kind, version in (("Widget", "example.com/v2"), ("Other", "example.com/v1"), ("Widget", "other.com/v1")):
        assert secured.post(POLICIES, policy(kind, version, "q"), token=bob).status == 422


def test_the_resource_of_an_api_version_with_two_slashes_is_not_known():
    plugin = PolicyParamAuthorization(SimpleNamespace(), SimpleNamespace(list_objects=lambda *_: ()))
    found = plugin._resolve(ParamKind(api_version="a/b/v1", kind="X"))
    assert found == ("*", "*", "*", "unable to parse paramKind &{a/b/v1 X}")


def test_the_authorizer_is_not_asked_about_an_administrator():
    """An authorizer that denies everything, as a webhook may, does not keep administrators from writing policies."""
    plugin = PolicyParamAuthorization(SimpleNamespace(), SimpleNamespace(list_objects=lambda *_: ()))
    spec = SimpleNamespace(param_kind=ParamKind(api_version="v1", kind="Secret"))
    resource = SimpleNamespace(plural="validatingadmissionpolicies")
    user = User("root", ("system:masters",))
    attempt = SimpleNamespace(user=user, resource=resource, obj=SimpleNamespace(spec=spec), old_obj=None)
    asyncio.run(plugin.validate(attempt))
    attempt.user = User("bob")
    with pytest.raises(AttributeError, match="wait_decision"):
        asyncio.run(plugin.validate(attempt))
