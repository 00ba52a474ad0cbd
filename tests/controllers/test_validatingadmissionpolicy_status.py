"""Policies tell which of their expressions don't go with what they are about, and which generation that is said of."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.admissionregistration_v1 import ValidatingAdmissionPolicy
from kubeloop.controllers.validatingadmissionpolicy_status import wire
from kubeloop.testing import Cluster
from tests.controllers.custom_kinds import define
from tests.controllers.rights import start_as

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
    """What is said of a policy's expressions, by their fields."""
    plane.client.create(wanted)
    plane.settle()
    status = find(plane).status
    assert status.observed_generation == 1
    assert status.type_checking is not None
    return {one.field_ref: one.warning for one in status.type_checking.expression_warnings}


def test_each_generation_is_seen_and_nothing_else_is_written(plane: Cluster) -> None:
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


def test_policy_that_was_there_before_is_seen(cluster: Cluster) -> None:
    cluster.client.create(policy())
    start_as(cluster, ACCOUNT, wire)
    assert find(cluster).status.observed_generation == 1


def test_a_field_that_there_isnt_is_warned_of_in_cels_words(plane: Cluster) -> None:
    text = "object.spec.replicas > 1 && object.spec.replica > 1"
    told = (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:40: undefined field 'replica'\n"
        f" | {text}\n"
        " | .......................................^\n"
    )
    assert warnings(plane, policy(text, about=(DEPLOYMENTS,))) == {FIRST: told}


def test_warnings_go_when_the_expression_is_mended(plane: Cluster) -> None:
    assert warnings(plane, policy("object.dat.a == 'b'"))
    plane.client.patch(
        ValidatingAdmissionPolicy, "p", {"spec": {"validations": [{"expression": "'a' in object.data"}]}}
    )
    plane.settle()
    status = find(plane).status
    assert (status.observed_generation, status.type_checking) == (2, None)


def test_what_doesnt_go_with_several_kinds_is_told_of_each_in_their_order(plane: Cluster) -> None:
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


def test_without_a_group_a_name_means_every_group_s(plane: Cluster) -> None:
    told = warnings(plane, policy("object.nothing == 1", about=(("", "v1", "events"),)))[FIRST]
    assert "/v1, Kind=Event: " in told
    assert "events.k8s.io/v1, Kind=Event: " in told


@pytest.mark.parametrize("about", ["* v1 deployments", "apps * deployments", "apps v1 *", "apps v1 deployments/scale"])
def test_nothing_is_said_of_what_a_rule_doesnt_name(plane: Cluster, about: str) -> None:
    assert warnings(plane, policy("object.nothing == 1", about=(tuple(about.split()),))) == {}


def test_messages_are_checked_too_and_may_be_of_any_type(plane: Cluster) -> None:
    wanted = policy("true", "true")
    wanted["spec"]["validations"][0]["messageExpression"] = "object.data.a + string(object.nothing)"
    wanted["spec"]["validations"][1]["messageExpression"] = "'x' + object.data.a"
    assert list(warnings(plane, wanted)) == ["spec.validations[0].messageExpression"]


def test_types_that_dont_go_together_are_warned_of(plane: Cluster) -> None:
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


def test_parameters_of_an_unknown_kind_may_be_anything(plane: Cluster) -> None:
    unknown = {"paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"}}
    assert warnings(plane, policy("params.spec == 1", about=(DEPLOYMENTS,), **unknown)) == {}


def test_rights_can_be_asked_for(plane: Cluster) -> None:
    assert warnings(plane, policy("authorizer.group('').resource('pods').check('get').allowed()")) == {}


def test_custom_kinds_are_checked_also_those_that_are_defined_later(plane: Cluster) -> None:
    about = (("example.com", "v1", "widgets"),)
    assert warnings(plane, policy("object.spec == 1", about=about)) == {}
    define(plane)
    plane.client.patch(ValidatingAdmissionPolicy, "p", {"spec": {"validations": [{"expression": "object.spec == 2"}]}})
    plane.settle()
    checked = find(plane).status.type_checking
    assert checked is not None
    (warning,) = checked.expression_warnings
    assert "example.com/v1, Kind=Widget: ERROR: <input>:1:7: undefined field 'spec'" in warning.warning
