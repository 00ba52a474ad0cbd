# SPDX-License-Identifier: Apache-2.0
"""Rules of updates of a pod's status."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

POD = {
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {
            "requests": {"example.com/a": "1"}, "limits": {"example.com/a": "1"}, "claims": [{"name": "a"}]}}],
        "restartPolicy": "Never",
        "resourceClaims": [{"name": "a", "resourceClaimName": "a"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}  # fmt: skip
STATE = {"name": "c", "image": "i", "imageID": "i", "ready": False, "restartCount": 0}
INIT = {"name": "i", "image": "i"}
ENDED = {"terminated": {"exitCode": 1}}
MAPPING = {"containerName": "c", "resourceName": "example.com/a", "requestName": "r"}


def of(kind: str, **fields: Any) -> dict[str, Any]:
    return {f"status.{kind}": [{**STATE, **fields}]}


def user(**linux: Any) -> dict[str, Any]:
    return of("containerStatuses", user={"linux": {"uid": 1, "gid": 1, **linux}})


def extended(*mappings: dict[str, str], **fields: Any) -> dict[str, Any]:
    status = {"resourceClaimName": "a", "requestMappings": list(mappings), **fields}
    return {"status.extendedResourceClaimStatus": status}


def allocated(*resources: dict[str, Any], name: str = "example.com/a") -> dict[str, Any]:
    return of("containerStatuses", allocatedResourcesStatus=[{"name": name, "resources": list(resources)}])


def allocatable(**fields: Any) -> dict[str, Any]:
    claimed = {"resourceClaimName": "a", "containers": ["c"], **fields}
    return {"status.nodeAllocatableResourceClaimStatuses": [claimed]}


CASES = [
    *updates("pods", POD, [
        ({}, {"status.conditions": [{"type": "a b", "status": "True"}]},
            ['status.conditions[0].Type: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({}, {"status.conditions": [{"type": "Ready", "status": "True", "observedGeneration": -1}]},
            ["status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer"]),
        ({}, {"status.nominatedNodeName": "N_"}, ['status.nominatedNodeName: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        ({"spec.nodeName": "n"}, {"spec.nodeName": "n", "status.nominatedNodeName": "n"},
            ["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"]),
        ({}, {"status.observedGeneration": -1},
            ["status.observedGeneration: Invalid value: -1: must be a non-negative integer"]),
        ({"status.qosClass": "BestEffort"}, {"status.qosClass": "Burstable"},
            ['status.qosClass: Invalid value: "Burstable": field is immutable']),
        (of("containerStatuses", state=ENDED), of("containerStatuses"),
            ["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"]),
        (of("ephemeralContainerStatuses", state=ENDED), of("ephemeralContainerStatuses"),
            ["status.ephemeralContainerStatuses[0].state: Forbidden: may not be transitioned to non-terminated "
             "state"]),
        ({}, {"status.resourceClaimStatuses": [{"name": "b"}]},
            ['status.resourceClaimStatuses[0].name: Invalid value: "b": must match the name of an entry in '
             "`spec.resourceClaims`"]),
        ({}, {"status.resourceClaimStatuses": [{"name": "a"}, {"name": "a"}]},
            ['status.resourceClaimStatuses[1].name: Duplicate value: "a"']),
        ({}, {"status.resourceClaimStatuses": [{"name": "a", "resourceClaimName": "A_"}]},
            ['status.resourceClaimStatuses[0].resourceClaimName: Invalid value: "A_": ' + DNS_SUBDOMAIN]),
        ({}, extended(),
            ["status.extendedResourceClaimStatus.requestMappings: Required value: at least one request mapping "
             "is required"]),
        ({}, extended({**MAPPING, "containerName": "d"}),
            ['status.extendedResourceClaimStatus.requestMappings[0].containerName: Invalid value: "d": must '
             "match the name of an entry in spec.initContainers.name or spec.containers.name"]),
        ({}, extended({**MAPPING, "resourceName": "example.com/b"}),
            ["status.extendedResourceClaimStatus.requestMappings[0].resourceName: Invalid value: "
             '"example.com/b": must match the extended resource name of an entry in '
             "spec.initContainers.resources.requests or spec.containers.resources.requests"]),
        ({}, extended({**MAPPING, "requestName": "R_"}),
            ['status.extendedResourceClaimStatus.requestName: Invalid value: "R_": ' + DNS_LABEL]),
        ({}, extended(MAPPING, MAPPING),
            ['status.extendedResourceClaimStatus.requestMappings[1].containerName: Duplicate value: "c"',
             ("status.extendedResourceClaimStatus.requestMappings[1].resourceName: Duplicate value: "
             '"example.com/a"'),
             'status.extendedResourceClaimStatus.requestMappings[1].requestName: Duplicate value: "r"']),
        ({}, extended(MAPPING, resourceClaimName=""),
            ["status.extendedResourceClaimStatus.resourceClaimName: Required value"]),
        ({}, extended(MAPPING, resourceClaimName="A_"),
            ['status.extendedResourceClaimStatus.resourceClaimName: Invalid value: "A_": ' + DNS_SUBDOMAIN]),
        ({}, {"status.podIP": "x", "status.podIPs": [{"ip": "x"}]},
            ['status.podIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
        ({}, {"status.podIP": "1.1.1.1", "status.podIPs": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}]},
            ['status.podIPs: Invalid value: [{"IP":"1.1.1.1"},{"IP":"1.1.1.2"}]: may specify no more than one '
             "IP for each IP family"]),
        ({}, {"status.hostIP": "1.1.1.1", "status.hostIPs": [{"ip": "1.1.1.2"}]},
            ['status.hostIPs[0].ip: Invalid value: "1.1.1.2": must be equal to `hostIP`']),
        ({}, {"status.hostIP": "x", "status.hostIPs": [{"ip": "x"}]},
            ['status.hostIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
        ({}, user(uid=-1),
            ["status.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 4294967295, "
             "inclusive"]),
        ({}, user(gid=-1),
            ["status.containerStatuses[0].user.linux.gid: Invalid value: -1: must be between 0 and 2147483647, "
             "inclusive"]),
        ({}, user(supplementalGroups=[-1]),
            ["status.containerStatuses[0].user.linux.supplementalGroups[0]: Invalid value: -1: must be between "
             "0 and 2147483647, inclusive"]),
        ({}, allocated(name="b"),
            ['status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "b": must match one '
             "of the container's resource requests"]),
        ({"spec.initContainers": [INIT]}, {"spec.initContainers": [INIT], **of(
            "initContainerStatuses", name="i", allocatedResourcesStatus=[{"name": "b"}])},
            ['status.initContainerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "b": must match '
             "one of the container's resource requests"]),
        ({}, allocated(name="claim:b"),
            ['status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "claim:b": must '
             "match one of the container's resource claims as 'claim:<claimName>/<requestName>' when "
             "container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"]),
        ({}, allocated({"resourceID": "r", "health": "H"}),
            ["status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health: Unsupported value: "
             '"H": supported values: "Healthy", "Unhealthy", "Unknown"']),
        ({}, allocated({"resourceID": "r", "health": "Healthy"}, {"resourceID": "r", "health": "Healthy"}),
            ["status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID: Duplicate value: "
             '"r"']),
        ({}, of("ephemeralContainerStatuses", allocatedResourcesStatus=[{"name": "n"}]),
            ["status.ephemeralContainerStatuses[0].allocatedResourcesStatus: Forbidden: must not be specified "
             "in container status"]),
    ], "status"),
    *updates("pods", POD, [
        ({}, allocated({"resourceID": "r", "health": "Healthy", "message": ""}),
            ["status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].message: Required value: "
             "must be non-empty if specified"]),
        ({}, allocated({"resourceID": "r", "health": "Healthy", "message": "m" * 1025}),
            ["status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].message: Too long: may not "
             "be more than 1024 bytes"]),
        ({}, {"status.volumeHealth": [{"name": "w"}]}, ['status.volumeHealth[0].name: Not found: "w"']),
        ({}, {"status.volumeHealth": [{"name": ""}]}, ["status.volumeHealth[0].name: Required value"]),
        ({}, {"status.volumeHealth": [{"name": "v"}, {"name": "v"}]},
            ['status.volumeHealth[1]: Duplicate value: {"name":"v","lastTransitionTime":null}']),
        ({}, {"status.volumeHealth": [{"name": "v", "healthConditions": [{"reason": "a b"}]}]},
            [('status.volumeHealth[0].healthConditions[0].reason: Invalid value: "a b": a condition reason must '
             "start with alphabetic character, optionally followed by a string of alphanumeric characters or "
             "'_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
             "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
             "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"),
             "status.volumeHealth[0].healthConditions[0].status: Required value"]),
        ({}, allocatable(resourceClaimName="b"),
            ['status.nodeAllocatableResourceClaimStatuses[0].resourceClaimName: Invalid value: "b": no mapping '
             "found in pod reference"]),
        ({}, allocatable(mapping=[{"name": "n", "quantity": "1"}]),
            ['status.nodeAllocatableResourceClaimStatuses[0].mapping[0].name: Invalid value: "n": must be a '
             "node allocatable resource name"]),
        ({}, allocatable(mapping=[{"name": "cpu", "quantity": "-1"}]),
            ['status.nodeAllocatableResourceClaimStatuses[0].mapping[0].quantity: Invalid value: "-1": must be '
             "non-negative"]),
        ({}, allocatable(overhead=[{"name": "n", "perPod": "1"}]),
            ['status.nodeAllocatableResourceClaimStatuses[0].overhead[0].name: Invalid value: "n": must be a '
             "node allocatable resource name"]),
        ({}, allocatable(overhead=[{"name": "cpu"}]),
            ['status.nodeAllocatableResourceClaimStatuses[0].overhead[0]: Invalid value: "": at least one of '
             "perPod or perContainer must be set"]),
        ({}, allocatable(overhead=[{"name": "cpu", "perPod": "-1"}]),
            ['status.nodeAllocatableResourceClaimStatuses[0].overhead[0].perPod: Invalid value: "-1": must be '
             "non-negative"]),
        ({}, allocatable(overhead=[{"name": "cpu", "perContainer": "-1"}]),
            ['status.nodeAllocatableResourceClaimStatuses[0].overhead[0].perContainer: Invalid value: "-1": '
             "must be non-negative"]),
    ], "status", ALL_FEATURES),
    *updates("pods", {"spec": {**POD["spec"], "os": {"name": "windows"}}}, [
        ({}, user(), ["status.containerStatuses[0].user.linux: Forbidden: cannot be set for a windows pod"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_statuses_are_reported(case: Case) -> None:
    assert case.found() == case.errors
