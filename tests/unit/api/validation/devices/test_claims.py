# SPDX-License-Identifier: Apache-2.0
"""Rules of ResourceClaims, their templates and DeviceClasses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, QUALIFIED_NAME

GROUP = ".resource.k8s.io"
REQUEST = {"name": "r", "exactly": {"deviceClassName": "c"}}
SUB = {"name": "s", "deviceClassName": "c"}
CLAIM = {"spec": {"devices": {"requests": [REQUEST]}}}
OPAQUE = {"driver": "d", "parameters": {"a": 1}}
CLASS: dict[str, Any] = {"spec": {}}
TEMPLATE = {"spec": {"metadata": {}, **CLAIM}}


def request(**fields: Any) -> dict[str, Any]:
    return {"spec.devices.requests": [{"name": "r", **fields}]}


def exactly(**fields: Any) -> dict[str, Any]:
    return request(exactly={"deviceClassName": "c", **fields})


def toleration(**fields: Any) -> dict[str, Any]:
    return exactly(tolerations=[fields])


def constraint(**fields: Any) -> dict[str, Any]:
    return {"spec.devices.constraints": [fields]}


def config(**opaque: Any) -> dict[str, Any]:
    return {"spec.devices.config": [{"opaque": {**OPAQUE, **opaque}}]}


CASES = [
    *creates("resourceclaims" + GROUP, CLAIM, [
        (request(name="R_", exactly={"deviceClassName": "c"}),
            ['spec.devices.requests[0].name: Invalid value: "R_": ' + DNS_LABEL]),
        (request(),
            ["spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"]),
        (request(exactly={"deviceClassName": "c"}, firstAvailable=[SUB]),
            ["spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is "
             "required, but multiple fields are set"]),
        ({"spec.devices.requests": [{"name": "r", "exactly": {
            "deviceClassName": "c", "selectors": [{"cel": {"expression": "true"}}], "allocationMode": "All",
            "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}]}}] * 2},
            ["spec.devices.requests[1]: Duplicate value: "
             '{"name":"r","exactly":{"deviceClassName":"c","selectors":[{"cel":{"expression":"true"}}],"al'
             'locationMode":"All","tolerations":[{"key":"a","operator":"Equal","value":"b","effect":"NoSch'
             'edule"}]}}']),
        ({"spec.devices.requests": [REQUEST, REQUEST]},
            ["spec.devices.requests[1]: Duplicate value: "
             '{"name":"r","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}']),
        (exactly(deviceClassName=""), ["spec.devices.requests[0].exactly.deviceClassName: Required value"]),
        (exactly(deviceClassName="C_"),
            ['spec.devices.requests[0].exactly.deviceClassName: Invalid value: "C_": ' + DNS_SUBDOMAIN]),
        (request(firstAvailable=[{**SUB, "name": "S_"}]),
            ['spec.devices.requests[0].firstAvailable[0].name: Invalid value: "S_": ' + DNS_LABEL]),
        (request(firstAvailable=[{**SUB, "deviceClassName": ""}]),
            ["spec.devices.requests[0].firstAvailable[0].deviceClassName: Required value"]),
        (request(firstAvailable=[SUB, SUB]),
            ["spec.devices.requests[0].firstAvailable[1]: Duplicate value: "
             '{"name":"s","deviceClassName":"c","allocationMode":"ExactCount","count":1}']),
        (request(firstAvailable=[{**SUB, "name": f"s{number}"} for number in range(9)]),
            ["spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items"]),
        (exactly(selectors=[{}]), ["spec.devices.requests[0].exactly.selectors[0].cel: Required value"]),
        (exactly(selectors=[{"cel": {"expression": "x +"}}]),
            ['spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "x +": compilation '
             "failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', "
             "'-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | x "
             "+\n | ...^"]),
        (exactly(selectors=[{"cel": {"expression": "true" + " " * 10240}}]),
            ["spec.devices.requests[0].exactly.selectors[0].cel.expression: Too long: may not be more than "
             "10240 bytes"]),
        (exactly(allocationMode="M"),
            ['spec.devices.requests[0].exactly.allocationMode: Unsupported value: "M": supported values: "All", '
             '"ExactCount"']),
        (exactly(allocationMode="All", count=1),
            ["spec.devices.requests[0].exactly.count: Invalid value: 1: must not be specified when "
             "allocationMode is 'All'"]),
        (exactly(count=-1), ["spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"]),
        (toleration(key="a b", operator="Exists"),
            ['spec.devices.requests[0].exactly.tolerations[0].key: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (toleration(key="a", operator="O"),
            ['spec.devices.requests[0].exactly.tolerations[0].operator: Unsupported value: "O": supported '
             'values: "Equal", "Exists"']),
        (toleration(key="a", operator="Exists", value="v"),
            ['spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "v": must be empty for '
             "operator `Exists`"]),
        (toleration(key="a", operator="Equal", value="a b"),
            ['spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "a b": ' + LABEL_VALUE]),
        (toleration(key="a", operator="Exists", effect="E"),
            ['spec.devices.requests[0].exactly.tolerations[0].effect: Unsupported value: "E": supported values: '
             '"NoExecute", "NoSchedule", "None"']),
        (constraint(),
            ['spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or '
             '"distinctAttribute" is required, but multiple fields are set']),
        (constraint(requests=["s"], matchAttribute="example.com/a"),
            ['spec.devices.constraints[0].requests[0]: Invalid value: "s": must be the name of a request in the '
             "claim or the name of a request and a subrequest separated by '/'"]),
        (constraint(requests=["r/s/t"], matchAttribute="example.com/a"),
            ['spec.devices.constraints[0].requests[0]: Invalid value: "r/s/t": must be the name of a request in '
             "the claim or the name of a request and a subrequest separated by '/'"]),
        (constraint(requests=["R_"], matchAttribute="example.com/a"),
            ['spec.devices.constraints[0].requests[0]: Invalid value: "R_": ' + DNS_LABEL,
             ('spec.devices.constraints[0].requests[0]: Invalid value: "R_": must be the name of a request in '
             "the claim or the name of a request and a subrequest separated by '/'")]),
        (constraint(requests=["r", "r"], matchAttribute="example.com/a"),
            ['spec.devices.constraints[0].requests[1]: Duplicate value: "r"']),
        (constraint(matchAttribute="a"),
            ['spec.devices.constraints[0].matchAttribute: Invalid value: "a": a fully qualified name must be a '
             "domain and a name separated by a slash"]),
        (constraint(matchAttribute="/a"),
            ['spec.devices.constraints[0].matchAttribute: Invalid value: "": prefix must not be empty']),
        (constraint(matchAttribute="example.com/"),
            ['spec.devices.constraints[0].matchAttribute: Invalid value: "": name must not be empty']),
        (constraint(matchAttribute="example.com/a-b"),
            ['spec.devices.constraints[0].matchAttribute: Invalid value: "a-b": a valid C identifier must start '
             "with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. "
             "'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"]),
        (constraint(matchAttribute="example.com/" + "a" * 33),
            ["spec.devices.constraints[0].matchAttribute: Too long: may not be more than 32 bytes"]),
        (constraint(matchAttribute="D_/a"),
            ['spec.devices.constraints[0].matchAttribute: Invalid value: "D_": prefix: ' + DNS_SUBDOMAIN]),
        ({"spec.devices.config": [{}]}, ["spec.devices.config[0].opaque: Required value"]),
        (config(driver=""), ["spec.devices.config[0].opaque.driver: Required value"]),
        (config(driver="D_"),
            ['spec.devices.config[0].opaque.driver: Invalid value: "D_": an RFC 1123 subdomain must consist of '
             "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
             "'Example.com', regex used for validation is "
             "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]),
        (config(parameters=None), ["spec.devices.config[0].opaque.parameters: Required value"]),
        (config(parameters=[1]),
            ['spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON '
             "object"]),
        (config(parameters={"a": "b" * 10240}),
            ["spec.devices.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"]),
        ({"spec.devices.config": [{"opaque": OPAQUE, "requests": ["s"]}]},
            ['spec.devices.config[0].requests[0]: Invalid value: "s": must be the name of a request in the '
             "claim or the name of a request and a subrequest separated by '/'"]),
    ]),
    *creates("resourceclaims" + GROUP, CLAIM, [
        (constraint(distinctAttribute="/a"),
            ['spec.devices.constraints[0].distinctAttribute: Invalid value: "": prefix must not be empty']),
        (constraint(distinctAttribute="a"),
            ['spec.devices.constraints[0].distinctAttribute: Invalid value: "a": a fully qualified name must be '
             "a domain and a name separated by a slash"]),
    ], ALL_FEATURES),
    *updates("resourceclaims" + GROUP, CLAIM, [
        ({}, exactly(count=2), ["spec: Invalid value: null: field is immutable"]),
    ]),
    *creates("resourceclaimtemplates" + GROUP, TEMPLATE, [
        ({"spec.metadata": {"name": "n"}}, ["spec.metadata.name: Forbidden: cannot be set"]),
        ({"spec.spec.devices.requests": [{"name": "r"}]},
            ["spec.spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is "
             "required"]),
    ]),
    *updates("resourceclaimtemplates" + GROUP, TEMPLATE, [
        ({}, {"spec.metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}},
            ["spec: Invalid value: "
             '{"labels":{"a":"b"},"annotations":{"c":"d"},"Spec":{"Devices":{"Requests":[{"Name":"r","Exac'
             'tly":{"DeviceClassName":"c","Selectors":null,"AllocationMode":"ExactCount","Count":1,"AdminA'
             'ccess":null,"Tolerations":null,"Capacity":null,"DerivedAttributes":null},"FirstAvailable":nu'
             'll}],"Constraints":null,"Config":null}}}: field is immutable']),
    ]),
    *creates("deviceclasses" + GROUP, CLASS, [
        ({"spec.selectors": [{}]}, ["spec.selectors[0].cel: Required value"]),
        ({"spec.config": [{}]}, ["spec.config[0].opaque: Required value"]),
        ({"spec.extendedResourceName": "a"},
            ['spec.extendedResourceName: Invalid value: "a": a name must be a domain-prefixed path, such as '
             "'example.com/my-prop'"]),
        ({"spec.extendedResourceName": "kubernetes.io/a"},
            ['spec.extendedResourceName: Invalid value: "kubernetes.io/a": must not have "kubernetes.io/" domain']),
        ({"spec.extendedResourceName": "requests.example.com/a"},
            ['spec.extendedResourceName: Invalid value: "requests.example.com/a": must not have "requests." prefix']),
        ({"spec.extendedResourceName": "example.com/a b"},
            ['spec.extendedResourceName: Invalid value: "example.com/a b": ' + QUALIFIED_NAME]),
    ]),
    *updates("deviceclasses" + GROUP, CLASS, [
        ({}, {"spec.selectors": [{}]}, ["spec.selectors[0].cel: Required value"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_claims_are_reported(case: Case) -> None:
    assert case.found() == case.errors
