# SPDX-License-Identifier: Apache-2.0
"""Rules of ResourceSlices and DeviceTaintRules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, QUALIFIED_NAME

GROUP = ".resource.k8s.io"
POOL = {"name": "p", "resourceSliceCount": 1, "generation": 1}
SLICE = {"spec": {"driver": "d", "pool": POOL, "nodeName": "n", "devices": [{"name": "e"}]}}
CHOOSING = {"spec": {"driver": "d", "pool": POOL, "perDeviceNodeSelection": True, "devices": [
    {"name": "e", "nodeName": "n"}]}}  # fmt: skip
TERM = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
TAINT_RULE = {"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}
COUNTERS = {"c": {"value": "1"}}
CONDITION = {"type": "T", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def place(**fields: Any) -> dict[str, Any]:
    return {"spec.nodeName": None, **{f"spec.{name}": value for name, value in fields.items()}}


def device(**fields: Any) -> dict[str, Any]:
    return {"spec.devices": [{"name": "e", **fields}]}


def attribute(**value: Any) -> dict[str, Any]:
    return device(attributes={"a": value})


def capacity(policy: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return device(capacity={"c": {"value": "1", "requestPolicy": policy}}, **fields)


def counter_sets(*sets: dict[str, Any]) -> dict[str, Any]:
    return {"spec.devices": None, "spec.sharedCounters": list(sets)}


def consumed(**fields: Any) -> dict[str, Any]:
    return device(consumesCounters=[{"counterSet": "s", "counters": COUNTERS, **fields}])


CASES = [
    *creates("resourceslices" + GROUP, SLICE, [
        ({"spec.driver": ""}, ["spec.driver: Required value"]),
        ({"spec.pool": {**POOL, "name": ""}}, ["spec.pool.name: Required value"]),
        ({"spec.pool": {**POOL, "name": "a//b"}}, ['spec.pool.name: Invalid value: "": ' + DNS_SUBDOMAIN]),
        ({"spec.pool": {**POOL, "name": "p" * 254}},
            ["spec.pool.name: Too long: may not be more than 253 bytes",
             ("spec.pool.name: Invalid value: "
             '"ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp'
             "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"
             'ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp": must be no more than '
             "253 characters")]),
        ({"spec.pool": {**POOL, "resourceSliceCount": 0}},
            ["spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"]),
        ({"spec.pool": {**POOL, "generation": -1}},
            ["spec.pool.generation: Invalid value: -1: must be greater than or equal to zero"]),
        (place(),
            ["spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
             "`perDeviceNodeSelection` is required"]),
        (place(nodeName=""),
            ['spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string',
             ("spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
             "`perDeviceNodeSelection` is required")]),
        (place(nodeName="N_"), ['spec.nodeName: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (place(nodeSelector={}),
            ["spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
             "spec.nodeSelector.nodeSelectorTerms: Invalid value: null: must have exactly one node selector term"]),
        (place(nodeSelector={"nodeSelectorTerms": [TERM, TERM]}),
            ["spec.nodeSelector.nodeSelectorTerms: Invalid value: "
             '[{"MatchExpressions":[{"Key":"k","Operator":"Exists","Values":null}],"MatchFields":null},{"M'
             'atchExpressions":[{"Key":"k","Operator":"Exists","Values":null}],"MatchFields":null}]: must have '
             "exactly one node selector term"]),
        (place(allNodes=False),
            ["spec.allNodes: Invalid value: false: must be either unset or set to true",
             ("spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
             "`perDeviceNodeSelection` is required")]),
        (place(nodeName="n", allNodes=True),
            ['spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, '
             "`allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"]),
        (place(nodeSelector={"nodeSelectorTerms": [TERM]}, allNodes=True),
            ['spec: Invalid value: "{`nodeSelector`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, '
             "`allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"]),
        (device(name="E_"), ['spec.devices[0].name: Invalid value: "E_": ' + DNS_LABEL]),
        ({"spec.devices": [{"name": "e"}, {"name": "e"}]}, ['spec.devices[1]: Duplicate value: "e"']),
        ({"spec.devices": [{"name": f"e{number}"} for number in range(129)]},
            ["spec.devices: Too many: 129: must have at most 128 items"]),
        (device(attributes={f"a{number}": {"int": 1} for number in range(33)}),
            ["spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32"]),
        (device(attributes={"/a": {"int": 1}}),
            ['spec.devices[0].attributes: Invalid value: "": the domain must not be empty']),
        (device(attributes={"example.com/": {"int": 1}}),
            ['spec.devices[0].attributes: Invalid value: "": the name must not be empty']),
        (device(attributes={"D_/a": {"int": 1}}),
            ['spec.devices[0].attributes: Invalid value: "D_": ' + DNS_SUBDOMAIN]),
        (device(attributes={"a" * 33: {"int": 1}}),
            ["spec.devices[0].attributes: Too long: may not be more than 32 bytes"]),
        (device(attributes={"a-b": {"int": 1}}),
            ['spec.devices[0].attributes: Invalid value: "a-b": a valid C identifier must start with alphabetic '
             "character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or "
             "'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"]),
        (attribute(),
            ['spec.devices[0].attributes[a]: Invalid value: "": must specify one of: `int`, `bool`, `string`, '
             "`version`, `ints`, `bools`, `strings`, `versions`"]),
        (attribute(int=1, bool=True),
            ['spec.devices[0].attributes[a]: Invalid value: "{int, bool}": must specify exactly one of: `int`, '
             "`bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"]),
        (attribute(string="s" * 65),
            ["spec.devices[0].attributes[a].string: Too long: may not be more than 64 bytes"]),
        (attribute(version="x"),
            ['spec.devices[0].attributes[a].version: Invalid value: "x": must be a string compatible with '
             "semver.org spec 2.0.0"]),
        (attribute(version="1.2.3-" + "a" * 64),
            ["spec.devices[0].attributes[a].version: Too long: may not be more than 64 bytes"]),
        (device(capacity={"c-d": {"value": "1"}}),
            ['spec.devices[0].capacity: Invalid value: "c-d": a valid C identifier must start with alphabetic '
             "character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or "
             "'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"]),
        (device(nodeName="n"),
            ["spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set "
             "if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"]),
    ]),
    *creates("resourceslices" + GROUP, SLICE, [
        (attribute(strings=["s" * 65]),
            ["spec.devices[0].attributes[a].strings[0]: Too long: may not be more than 64 bytes"]),
        (attribute(versions=["x"]),
            ['spec.devices[0].attributes[a].versions[0]: Invalid value: "x": must be a string compatible with '
             "semver.org spec 2.0.0"]),
        (device(attributes={"a": {"ints": list(range(49))}}),
            ["spec.devices[0]: Invalid value: 49: the total number of attribute values must not exceed 48"]),
        (capacity({"default": "1"}),
            ["spec.devices[0].capacity[c].requestPolicy: Forbidden: allowMultipleAllocations must be true"]),
        (capacity({"default": "1", "validValues": ["1"], "validRange": {"min": "1"}},
                  allowMultipleAllocations=True),
                  ["spec.devices[0].capacity[c].requestPolicy: Forbidden: exactly one policy can be specified, "
                   'cannot specify "validValues" and "validRange" at the same time']),
        (capacity({"validRange": {"min": "1"}}, allowMultipleAllocations=True),
            ["spec.devices[0].capacity[c].requestPolicy.default: Required value: required when validRange is "
             "defined"]),
        (device(taints=[{"key": "a b", "effect": "NoSchedule"}]),
            ['spec.devices[0].taints[0].key: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (device(taints=[{"key": "a", "value": "b c", "effect": "NoSchedule"}]),
            ['spec.devices[0].taints[0].value: Invalid value: "b c": ' + LABEL_VALUE]),
        (device(taints=[{"key": "a", "effect": "E"}]),
            ['spec.devices[0].taints[0].effect: Unsupported value: "E": supported values: "NoExecute", '
             '"NoSchedule", "None"']),
        (consumed(counterSet=""), ["spec.devices[0].consumesCounters[0].counterSet: Required value"]),
        (consumed(counterSet="S_"),
            ['spec.devices[0].consumesCounters[0].counterSet: Invalid value: "S_": ' + DNS_LABEL]),
        (consumed(counters={}), ["spec.devices[0].consumesCounters[0].counters: Required value"]),
        (device(consumesCounters=[{"counterSet": f"s{number}", "counters": COUNTERS} for number in range(3)]),
            ["spec.devices[0].consumesCounters: Too many: 3: must have at most 2 items"]),
        ({"spec.sharedCounters": [{"name": "s", "counters": COUNTERS}]},
            ['spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed']),
        (counter_sets({"name": "", "counters": COUNTERS}), ["spec.sharedCounters[0].name: Required value"]),
        (counter_sets({"name": "s", "counters": {}}), ["spec.sharedCounters[0].counters: Required value"]),
        (counter_sets({"name": "s", "counters": {"C_": {"value": "1"}}}),
            ['spec.sharedCounters[0].counters: Invalid value: "C_": ' + DNS_LABEL]),
        (counter_sets({"name": "s", "counters": {f"c{number}": {"value": "1"} for number in range(33)}}),
            ["spec.sharedCounters[0].counters: Too many: 33: must have at most 32 items"]),
        (counter_sets(*[{"name": f"s{number}", "counters": COUNTERS} for number in range(9)]),
            ["spec.sharedCounters: Too many: 9: must have at most 8 items"]),
        (device(bindingConditions=["a b"], bindingFailureConditions=["c"]),
            ['spec.devices[0].bindingConditions[0]: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (device(bindingConditions=["a", "a"], bindingFailureConditions=["c"]),
            ['spec.devices[0].bindingConditions[1]: Duplicate value: "a"']),
        (device(bindingConditions=["a"], bindingFailureConditions=["a"]),
            ['spec.devices[0].bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must '
             "not overlap with bindingConditions"]),
        (device(bindingConditions=["a"]),
            ["spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are "
             "required to use bindingConditions"]),
        (device(bindingFailureConditions=["a"]),
            ["spec.devices[0].bindingConditions: Invalid value: null: bindingConditions are required to use "
             "bindingFailureConditions"]),
        (device(bindingConditions=["a", "b", "c", "d", "e"], bindingFailureConditions=["f"]),
            ["spec.devices[0].bindingConditions: Too many: 5: must have at most 4 items"]),
    ], ALL_FEATURES),
    *creates("resourceslices" + GROUP, CHOOSING, [
        (device(),
            ["spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is "
             "required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"]),
        (device(nodeName=""),
            ['spec.devices[0].nodeName: Invalid value: "": must not be empty',
             ("spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is "
             "required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec")]),
        (device(nodeName="N_"), ['spec.devices[0].nodeName: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (device(nodeSelector={"nodeSelectorTerms": []}),
            ["spec.devices[0].nodeSelector.nodeSelectorTerms: Required value: must have at least one node "
             "selector term"]),
        (device(allNodes=False),
            ["spec.devices[0].allNodes: Invalid value: false: must be either unset or set to true",
             ("spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is "
             "required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec")]),
        (device(nodeName="n", allNodes=True),
            ['spec.devices[0]: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, '
             "`nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the "
             "ResourceSlice spec"]),
        (device(nodeName="n", nodeSelector={"nodeSelectorTerms": [TERM]}),
            ['spec.devices[0]: Invalid value: "{`nodeName`, `nodeSelector`}": exactly one of `nodeName`, '
             "`nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the "
             "ResourceSlice spec"]),
    ], ALL_FEATURES),
    *updates("resourceslices" + GROUP, SLICE, [
        ({}, {"spec.pool": {**POOL, "name": "q"}}, ['spec.pool.name: Invalid value: "q": field is immutable']),
        ({}, {"spec.driver": "e"}, ['spec.driver: Invalid value: "e": field is immutable']),
        ({}, {"spec.nodeName": "o"}, ['spec.nodeName: Invalid value: "o": field is immutable']),
        ({}, device(capacity={"c-d": {"value": "1"}}),
            ['spec.devices[0].capacity: Invalid value: "c-d": a valid C identifier must start with alphabetic '
             "character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or "
             "'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"]),
    ]),
    *creates("devicetaintrules" + GROUP, TAINT_RULE, [
        ({"spec.deviceSelector": {"driver": "D_"}},
            ['spec.deviceSelector.driver: Invalid value: "D_": ' + DNS_SUBDOMAIN]),
        ({"spec.deviceSelector": {"pool": "P_"}},
            ['spec.deviceSelector.pool: Invalid value: "P_": ' + DNS_SUBDOMAIN]),
        ({"spec.deviceSelector": {"device": "E_"}},
            ['spec.deviceSelector.device: Invalid value: "E_": ' + DNS_LABEL]),
        ({"spec.taint": {"key": "", "effect": "NoSchedule"}},
            ['spec.taint.key: Invalid value: "": name part must be non-empty',
             'spec.taint.key: Invalid value: "": ' + QUALIFIED_NAME]),
        ({"spec.taint": {"key": "k", "effect": ""}}, ["spec.taint.effect: Required value"]),
    ]),
    *updates("devicetaintrules" + GROUP, TAINT_RULE, [
        ({}, {"spec.taint": {"key": "a b", "effect": "NoSchedule"}},
            ['spec.taint.key: Invalid value: "a b": ' + QUALIFIED_NAME]),
    ]),
    *updates("devicetaintrules" + GROUP, TAINT_RULE, [
        ({}, {"status.conditions": [{**CONDITION, "status": "S"}]},
            ['status.conditions[0].status: Unsupported value: "S": supported values: "False", "True", "Unknown"']),
        ({}, {"status.conditions": [{**CONDITION, "type": f"T{number}"} for number in range(9)]},
            ["status.conditions: Too many: 9: must have at most 8 items"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_slices_are_reported(case: Case) -> None:
    assert case.found() == case.errors
