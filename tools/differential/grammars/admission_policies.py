# SPDX-License-Identifier: Apache-2.0
"""Admission policies: validating and mutating policies with random expressions, in force for one namespace."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tools.differential.case import Step
from tools.differential.grammars.cel_expressions import Operand, bool_expression, string_expression
from tools.differential.grammars.draft import MERGE_PATCH, Draft, create, patch
from tools.differential.seeds import Seed

_ROOT = "/apis/admissionregistration.k8s.io/v1"
_MAPS = "/api/v1/namespaces/{ns}/configmaps"
_OPERANDS = (
    Operand("object.metadata.name", "string"),
    Operand("object.data.a", "string"),
    Operand("object.data", "map(string)"),
    Operand("object.metadata.labels", "map(string)"),
    Operand("request.operation", "string"),
    Operand("request.userInfo.username", "string"),
    Operand("request.userInfo.groups", "list(string)"),
    Operand("request.dryRun", "bool"),
    Operand("oldObject.data.a", "string"),
    Operand("namespaceObject.metadata.name", "string"),
    Operand("variables.v", "int"),
    Operand("object.immutable", "bool"),
    Operand("authorizer.group('').resource('pods').namespace('x').check('get').allowed()", "bool"),
)
_REASONS = ("Invalid", "Forbidden", "Unauthorized", "RequestEntityTooLarge", "Other")
# Denied by every validating policy, and made invalid by every mutating one: shows that it is in force.
_PROBE = {"metadata": {"name": "probe", "labels": {"probe": "yes"}}}
_IS_PROBE = "(has(object.metadata.labels) && 'probe' in object.metadata.labels)"
_MUTATIONS = (
    "Object{metadata: Object.metadata{labels: {'added': 'yes'}}}",
    "Object{data: {'b': 'x'}}",
    "Object{data: {'c': object.metadata.name}}",
    "has(object.data) ? Object{data: {'d': string(size(object.data))}} : Object{}",
)
_PATCHES = (
    "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'p': 'q'}}]",
    "[JSONPatch{op: 'test', path: '/data/a', value: '1'}, JSONPatch{op: 'replace', path: '/data/a', value: '2'}]",
    "[JSONPatch{op: 'remove', path: '/data/missing'}]",
    "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a~b'), value: 'x'}]",
)


def admission_policies(rng: random.Random, seeds: Sequence[Seed]) -> Draft:
    """Return a policy, its binding, a wait until it is in force, and requests that it sees."""
    del seeds  # the objects are ConfigMaps
    is_mutating = rng.random() < 0.3
    kind = "MutatingAdmissionPolicy" if is_mutating else "ValidatingAdmissionPolicy"
    plural = kind.lower()[:-1] + "ies"
    spec = _mutating_spec(rng) if is_mutating else _validating_spec(rng)
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "{ns}-p"},
        "spec": spec,
    }
    binding = _binding(rng, kind, is_mutating)
    steps = [create(f"{_ROOT}/{plural}", policy), create(f"{_ROOT}/{kind.lower()}bindings", binding)]
    steps.append(replace(create(f"{_MAPS}?dryRun=All", _PROBE), awaited=422))
    steps += _requests(rng)
    return Draft(tuple(steps), (f"{_ROOT}/{kind.lower()}bindings/{{ns}}-b", f"{_ROOT}/{plural}/{{ns}}-p"))


def _requests(rng: random.Random) -> list[Step]:
    labels = {"app": rng.choice("ab")} if rng.random() < 0.5 else None
    document: dict[str, Any] = {"metadata": {"name": "a", **({"labels": labels} if labels else {})}}
    if rng.random() < 0.8:
        document["data"] = {"a": rng.choice(("1", "abc", ""))}
    steps = [create(_MAPS, document)]
    steps.append(patch(f"{_MAPS}/a", MERGE_PATCH, {"data": {"a": rng.choice(("2", None))}}))
    other = {"metadata": {"name": "b"}, "immutable": rng.choice((True, False)), "data": {"a": "1", "b": "2"}}
    steps.append(create(f"{_MAPS}?dryRun=All", other))
    steps.append(Step("DELETE", f"{_MAPS}/a"))
    return steps


def _match(rng: random.Random) -> dict[str, Any]:
    operations = rng.choice((["CREATE", "UPDATE"], ["*"], ["CREATE"], ["CREATE", "DELETE"]))
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": ["configmaps"]}
    # The selector keeps the policy away from other cases.
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "{ns}"}}
    return {"resourceRules": [rule], "namespaceSelector": selector}


def _conditions(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.7:
        return {}
    operands = [one for one in _OPERANDS if not one.text.startswith(("variables", "namespaceObject"))]
    return {"matchConditions": [{"name": "c", "expression": f"{_IS_PROBE} || {bool_expression(rng, operands, 1)}"}]}


def _variables() -> list[dict[str, str]]:
    return [{"name": "v", "expression": "has(object.data) ? size(object.data) : 0"}]


def _validating_spec(rng: random.Random) -> dict[str, Any]:
    validations: list[dict[str, Any]] = [{"expression": f"!{_IS_PROBE}"}]
    for _ in range(rng.choice((1, 1, 2))):
        one: dict[str, Any] = {"expression": bool_expression(rng, _OPERANDS)}
        if rng.random() < 0.4:
            one["message"] = rng.choice(("no", "", "a b"))
        if rng.random() < 0.4:
            one["messageExpression"] = string_expression(rng, _OPERANDS)
        if rng.random() < 0.4:
            one["reason"] = rng.choice(_REASONS)
        validations.append(one)
    spec: dict[str, Any] = {"matchConstraints": _match(rng), "variables": _variables(), "validations": validations}
    if rng.random() < 0.4:
        spec["failurePolicy"] = rng.choice(("Fail", "Ignore"))
    return {**spec, **_conditions(rng)}


def _mutating_spec(rng: random.Random) -> dict[str, Any]:
    # The last mutation makes an object with the probe's label invalid.
    spoil = f"{_IS_PROBE} ? Object{{data: {{'?': 'x'}}}} : Object{{}}"
    mutations = [_mutation(rng) for _ in range(rng.choice((1, 2)))]
    mutations.append({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": spoil}})
    policy = rng.choice(("Never", "IfNeeded"))
    spec = {"matchConstraints": _match(rng), "variables": _variables(), "mutations": mutations}
    return {**spec, "reinvocationPolicy": policy, "failurePolicy": rng.choice(("Fail", "Ignore")), **_conditions(rng)}


def _mutation(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": rng.choice(_MUTATIONS)}}
    # A patch that fails must not hide from the probe that the policy is in force.
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": f"{_IS_PROBE} ? [] : {rng.choice(_PATCHES)}"}}


def _binding(rng: random.Random, kind: str, is_mutating: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {"policyName": "{ns}-p"}
    if not is_mutating:
        spec["validationActions"] = rng.choice((["Deny"], ["Deny"], ["Deny", "Audit"]))
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": f"{kind}Binding", "metadata": {"name": "{ns}-b"}, "spec": spec}
