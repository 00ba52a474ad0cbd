# SPDX-License-Identifier: Apache-2.0
"""Tests of type checking warnings of policies, and their observed generation."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.admissionregistration_v1 import ValidatingAdmissionPolicy
from kubeloop.controllers.validatingadmissionpolicy_status import wire
from kubeloop.testing import Cluster
from tests.controllers.custom_resources import define
from tests.controllers.permissions import start_as

ACCOUNT = "validatingadmissionpolicy-status-controller"
FIRST = "spec.validations[0].expression"
CONFIG_MAPS = ("", "v1", "configmaps")
DEPLOYMENTS = ("apps", "v1", "deployments")


def rule(group: str, version: str, *resources: str) -> dict[str, Any]:
    return {"operations": ["CREATE"], "apiGroups": [group], "apiVersions": [version], "resources": list(resources)}


def policy(*expressions: str, about: tuple[tuple[str, ...], ...] = (CONFIG_MAPS,), **spec: Any) -> dict[str, Any]:
    validations = [{"expression": one} for one in expressions or ("true",)]
    rules = [rule(*one) for one in about]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": rules}, "validations": validations, **spec},
    }


def find(cluster: Cluster) -> ValidatingAdmissionPolicy:
    found: ValidatingAdmissionPolicy = cluster.client.get(ValidatingAdmissionPolicy, "p")
    return found


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    start_as(cluster, ACCOUNT, wire)
    return cluster


def warnings(plane: Cluster, wanted: dict[str, Any]) -> dict[str, str]:
    """Return type checking warnings by field."""
    plane.client.create(wanted)
    plane.settle()
    status = find(plane).status
    assert status.observed_generation == 1
    assert status.type_checking is not None
    return {one.field_ref: one.warning for one in status.type_checking.expression_warnings}


def test_each_generation_is_observed_with_one_write(plane: Cluster) -> None:
    plane.client.create(policy())
    plane.settle()
    first = find(plane)
    assert (first.metadata.generation, first.status.observed_generation) == (1, 1)
    assert first.status.type_checking is not None
    plane.client.patch(ValidatingAdmissionPolicy, "p", {"metadata": {"labels": {"a": "b"}}})
    labelled = find(plane).metadata.resource_version
    plane.settle()
    assert find(plane).metadata.resource_version == labelled
    plane.client.patch(ValidatingAdmissionPolicy, "p", {"spec": {"validations": [{"expression": "1 == 1"}]}})
    plane.settle()
    assert find(plane).status.observed_generation == 2


def test_existing_policy_is_type_checked(cluster: Cluster) -> None:
    cluster.client.create(policy())
    start_as(cluster, ACCOUNT, wire)
    assert find(cluster).status.observed_generation == 1


def test_unknown_field_is_reported_in_cels_format(plane: Cluster) -> None:
    text = "object.spec.replicas > 1 && object.spec.replica > 1"
    told = (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:40: undefined field 'replica'\n"
        f" | {text}\n"
        " | .......................................^\n"
    )
    assert warnings(plane, policy(text, about=(DEPLOYMENTS,))) == {FIRST: told}


def test_warnings_are_removed_with_a_fixed_expression(plane: Cluster) -> None:
    assert warnings(plane, policy("object.dat.a == 'b'"))
    plane.client.patch(
        ValidatingAdmissionPolicy, "p", {"spec": {"validations": [{"expression": "'a' in object.data"}]}}
    )
    plane.settle()
    status = find(plane).status
    assert (status.observed_generation, status.type_checking) == (2, None)


def test_mismatches_of_several_kinds_are_reported_in_order(plane: Cluster) -> None:
    about = (DEPLOYMENTS, CONFIG_MAPS)
    told = warnings(plane, policy("object.nothing == 1", "has(object.spec)", about=about))
    assert [line for line in told[FIRST].split("\n") if "Kind=" in line or not line] == [
        "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'nothing'",
        "",
        "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'nothing'",
        "",
    ]
    second = told["spec.validations[1].expression"]
    assert "ConfigMap: ERROR: <input>:1:4: undefined field 'spec'" in second
    assert "Deployment" not in second


def test_resource_without_group_matches_every_group(plane: Cluster) -> None:
    told = warnings(plane, policy("object.nothing == 1", about=(("", "v1", "events"),)))[FIRST]
    assert "/v1, Kind=Event: " in told
    assert "events.k8s.io/v1, Kind=Event: " in told


@pytest.mark.parametrize("about", ["* v1 deployments", "apps * deployments", "apps v1 *", "apps v1 deployments/scale"])
def test_unlisted_resources_are_not_checked(plane: Cluster, about: str) -> None:
    assert warnings(plane, policy("object.nothing == 1", about=(tuple(about.split()),))) == {}


def test_message_expressions_are_checked(plane: Cluster) -> None:
    wanted = policy("true", "true")
    wanted["spec"]["validations"][0]["messageExpression"] = "object.data.a + string(object.nothing)"
    wanted["spec"]["validations"][1]["messageExpression"] = "'x' + object.data.a"
    assert list(warnings(plane, wanted)) == ["spec.validations[0].messageExpression"]


def test_type_mismatches_are_reported(plane: Cluster) -> None:
    told = warnings(plane, policy("object.spec.replicas == '1'", about=(DEPLOYMENTS,)))
    assert "found no matching overload for '_==_' applied to '(int, string)'" in told[FIRST]


def test_variables_have_the_types_of_their_expressions(plane: Cluster) -> None:
    variables = [
        {"name": "replicas", "expression": "object.spec.replicas"},
        {"name": "copy", "expression": "[variables.replicas]"},
        {"name": "spec", "expression": "object.spec"},
        {"name": "broken", "expression": "object.nothing"},
    ]
    expressions = [f"variables.{one} == 'a'" for one in ("replicas", "copy[0]", "spec.any", "broken.any")]
    told = warnings(plane, policy(*expressions, about=(DEPLOYMENTS,), variables=variables))
    assert list(told) == [FIRST, "spec.validations[1].expression"]  # of objects and what is broken nothing is known
    assert all("applied to '(int, string)'" in one for one in told.values())


def test_parameters_have_a_type_if_their_kind_is_known(plane: Cluster) -> None:
    known = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    told = warnings(plane, policy("params.data.a == 'b'", "params.spec == 1", about=(DEPLOYMENTS,), **known))
    assert "undefined field 'spec'" in told["spec.validations[1].expression"]
    assert len(told) == 1


def test_parameters_of_an_unknown_kind_are_dynamic(plane: Cluster) -> None:
    unknown = {"paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"}}
    assert warnings(plane, policy("params.spec == 1", about=(DEPLOYMENTS,), **unknown)) == {}


def test_authorizer_is_available(plane: Cluster) -> None:
    assert warnings(plane, policy("authorizer.group('').resource('pods').check('get').allowed()")) == {}


def test_custom_kinds_are_checked_even_if_defined_later(plane: Cluster) -> None:
    about = (("example.com", "v1", "widgets"),)
    assert warnings(plane, policy("object.spec == 1", about=about)) == {}
    define(plane)
    plane.client.patch(ValidatingAdmissionPolicy, "p", {"spec": {"validations": [{"expression": "object.spec == 2"}]}})
    plane.settle()
    checked = find(plane).status.type_checking
    assert checked is not None
    (warning,) = checked.expression_warnings
    assert "example.com/v1, Kind=Widget: ERROR: <input>:1:7: undefined field 'spec'" in warning.warning
