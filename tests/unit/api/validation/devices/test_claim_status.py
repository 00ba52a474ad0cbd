# SPDX-License-Identifier: Apache-2.0
"""Rules of a ResourceClaim's status."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

GROUP = ".resource.k8s.io"
CLAIM = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}
RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "e"}
DEVICE = {"driver": "d", "pool": "p", "device": "e"}
ALLOCATION = {"devices": {"results": [RESULT]}}
ALLOCATED = {**CLAIM, "status": {"allocation": ALLOCATION}}
CONSUMER = {"resource": "pods", "name": "n", "uid": "u"}
CONDITION = {"type": "T", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
OPAQUE = {"driver": "d", "parameters": {"a": 1}}
DELETED = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"]}}


def result(**fields: Any) -> dict[str, Any]:
    return {"status.allocation": {"devices": {"results": [{**RESULT, **fields}]}}}


def config(**fields: Any) -> dict[str, Any]:
    devices = {"results": [RESULT], "config": [{"source": "FromClaim", "opaque": OPAQUE, **fields}]}
    return {"status.allocation": {"devices": devices}}


def device(**fields: Any) -> dict[str, Any]:
    return {"status.devices": [{**DEVICE, **fields}]}


def network(**fields: Any) -> dict[str, Any]:
    return device(networkData=fields)


CASES = [
    *updates("resourceclaims" + GROUP, CLAIM, [
        ({}, {"status.reservedFor": [CONSUMER]},
            ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]),
        ({}, result(request="s"),
            ['status.allocation.devices.results[0].request: Invalid value: "s": must be the name of a request '
             "in the claim or the name of a request and a subrequest separated by '/'"]),
        ({}, result(driver=""), ["status.allocation.devices.results[0].driver: Required value"]),
        ({}, result(driver="D_"),
            ['status.allocation.devices.results[0].driver: Invalid value: "D_": an RFC 1123 subdomain must '
             "consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
             "character (e.g. 'Example.com', regex used for validation is "
             "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]),
        ({}, result(driver="d" * 64),
            ["status.allocation.devices.results[0].driver: Too long: may not be more than 63 characters"]),
        ({}, result(pool=""), ["status.allocation.devices.results[0].pool: Required value"]),
        ({}, result(pool="a//b"),
            ['status.allocation.devices.results[0].pool: Invalid value: "a//b": segment 1: must not be empty']),
        ({}, result(pool="p" * 254),
            ["status.allocation.devices.results[0].pool: Too long: may not be more than 253 bytes",
             ("status.allocation.devices.results[0].pool: Invalid value: "
             '"ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp'
             "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"
             'ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp": segment 0: must be no '
             "more than 253 bytes")]),
        ({}, result(device="E_"), ['status.allocation.devices.results[0].device: Invalid value: "E_": ' + DNS_LABEL]),
        ({}, {"status.allocation": {"devices": {"results": [RESULT] * 33}}},
            ["status.allocation.devices.results: Too many: 33: must have at most 32 items"]),
        ({}, config(source="S"),
            ['status.allocation.devices.config[0].source: Unsupported value: "S": supported values: '
             '"FromClaim", "FromClass"']),
        ({}, config(requests=["s"]),
            ['status.allocation.devices.config[0].requests[0]: Invalid value: "s": must be the name of a '
             "request in the claim or the name of a request and a subrequest separated by '/'"]),
        ({}, config(opaque=None), ["status.allocation.devices.config[0].opaque: Required value"]),
        ({}, config(opaque={**OPAQUE, "driver": ""}),
            ["status.allocation.devices.config[0].opaque.driver: Required value"]),
        ({}, config(opaque={**OPAQUE, "parameters": [1]}),
            ['status.allocation.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be '
             "a valid JSON object"]),
        ({}, {"status.allocation": {**ALLOCATION, "nodeSelector": {"nodeSelectorTerms": []}}},
            ["status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node "
             "selector term"]),
        ({}, result(tolerations=[{"key": "a b", "operator": "Exists"}]),
            ['status.allocation.devices.results[0].tolerations[0].key: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({}, result(bindingConditions=["a b"], bindingFailureConditions=["c"]),
            ['status.allocation.devices.results[0].bindingConditions[0]: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({}, result(bindingConditions=["a"]),
            ["status.allocation.devices.results[0].bindingFailureConditions: Invalid value: null: "
             "bindingFailureConditions are required to use bindingConditions"]),
        ({}, result(shareID="x"),
            ['status.allocation.devices.results[0].shareID: Invalid value: "x": must be a lowercase UUID in '
             "8-4-4-4-12 format"]),
    ], "status", ALL_FEATURES),
    *updates("resourceclaims" + GROUP, ALLOCATED, [
        ({}, result(device="f"), ["status.allocation: Invalid value: null: field cannot be modified once set"]),
        ({}, {"status.reservedFor": [{}]},
            ["status.reservedFor[0].resource: Required value",
             "status.reservedFor[0].name: Required value",
             "status.reservedFor[0].uid: Required value"]),
        ({}, {"status.reservedFor": [CONSUMER, CONSUMER]},
            ['status.reservedFor[1]: Duplicate value: {"resource":"pods","name":"n","uid":"u"}']),
        ({}, {"status.reservedFor": [{**CONSUMER, "uid": f"u{number}"} for number in range(257)]},
            ["status.reservedFor: Too many: 257: must have at most 256 items"]),
        (DELETED, {**DELETED, "status.reservedFor": [CONSUMER]},
            ["status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or "
             "`deletionTimestamp` are set"]),
        ({}, device(driver=""),
            ["status.devices[0].driver: Required value",
             ('status.devices[0]: Invalid value: {"Driver":"","Pool":"p","Device":"e","ShareID":""}: must be an '
             "allocated device in the claim")]),
        ({}, device(driver="D_"),
            ['status.devices[0].driver: Invalid value: "D_": ' + DNS_SUBDOMAIN,
             ('status.devices[0]: Invalid value: {"Driver":"D_","Pool":"p","Device":"e","ShareID":""}: must be '
             "an allocated device in the claim")]),
        ({}, device(pool="a//b"),
            ['status.devices[0].pool: Invalid value: "": ' + DNS_SUBDOMAIN,
             ('status.devices[0]: Invalid value: {"Driver":"d","Pool":"a//b","Device":"e","ShareID":""}: must be '
             "an allocated device in the claim")]),
        ({}, device(pool=""),
            ["status.devices[0].pool: Required value",
             ('status.devices[0]: Invalid value: {"Driver":"d","Pool":"","Device":"e","ShareID":""}: must be an '
             "allocated device in the claim")]),
        ({}, device(device="E_"),
            ['status.devices[0].device: Invalid value: "E_": ' + DNS_LABEL,
             ('status.devices[0]: Invalid value: {"Driver":"d","Pool":"p","Device":"E_","ShareID":""}: must be '
             "an allocated device in the claim")]),
        ({}, device(shareID="x"),
            [('status.devices[0]: Invalid value: {"Driver":"d","Pool":"p","Device":"e","ShareID":"x"}: must be '
             "an allocated device in the claim"),
             'status.devices[0].shareID: Invalid value: "x": must be a lowercase UUID in 8-4-4-4-12 format']),
        ({}, {"status.devices": [DEVICE, DEVICE]},
            ['status.devices[1]: Duplicate value: {"driver":"d","pool":"p","device":"e","conditions":null}']),
        ({}, device(conditions=[{**CONDITION, "type": f"T{number}"} for number in range(9)]),
            ["status.devices[0].conditions: Too many: 9: must have at most 8 items"]),
        ({}, device(conditions=[{**CONDITION, "status": "S"}]),
            ['status.devices[0].conditions[0].status: Unsupported value: "S": supported values: "False", '
             '"True", "Unknown"']),
        ({}, device(data=[1]),
            ['status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object']),
        ({}, network(interfaceName="i" * 257),
            ["status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes"]),
        ({}, network(hardwareAddress="h" * 129),
            ["status.devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes"]),
        ({}, network(ips=["x"]),
            ['status.devices[0].networkData.ips[0]: Invalid value: "x": must be a valid address in CIDR form, '
             "(e.g. 10.9.8.7/24 or 2001:db8::1/64)"]),
        ({}, network(ips=["10.0.0.1/8", "10.0.0.1/8"]),
            ['status.devices[0].networkData.ips[1]: Duplicate value: "10.0.0.1/8"']),
        ({}, network(ips=[f"10.0.0.{number}/8" for number in range(17)]),
            ["status.devices[0].networkData.ips: Too many: 17: must have at most 16 items"]),
    ], "status", ALL_FEATURES),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_statuses_are_reported(case: Case) -> None:
    assert case.found() == case.errors
