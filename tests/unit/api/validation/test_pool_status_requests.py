# SPDX-License-Identifier: Apache-2.0
"""Validation tests of pool status requests, lease candidates and storage versions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

REQUESTS = "resourcepoolstatusrequests.resource.k8s.io"
CANDIDATES = "leasecandidates.coordination.k8s.io"
VERSIONS = "storageversions.internal.apiserver.k8s.io"
REQUEST: Any = {"spec": {"driver": "gpu.example.com", "poolName": "a/b"}}
POOL: Any = {"driver": "gpu.example.com", "poolName": "p", "generation": 1, "totalDevices": 1}
CONDITION: Any = {
    "type": "Complete",
    "status": "True",
    "reason": "R",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
STATUS: Any = {"poolCount": 1, "pools": [POOL], "conditions": [CONDITION]}
CANDIDATE: Any = {
    "spec": {
        "leaseName": "l",
        "binaryVersion": "1.37.0",
        "emulationVersion": "1.36.0",
        "strategy": "OldestEmulationVersion",
    }
}
SERVER: Any = {"apiServerID": "a", "encodingVersion": "apps/v1", "decodableVersions": ["apps/v1"], "servedVersions": []}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.driver", "", "spec.driver: Required value"),
        ("spec.driver", "GPU.example.com", None),
        ("spec.poolName", "a//b", 'spec.poolName: Invalid value: "a//b": segment 1: must not be empty'),
        ("spec.limit", 1001, "spec.limit: Invalid value: 1001: must be less than or equal to 1000"),
        ("spec.limit", 0, "spec.limit: Invalid value: 0: must be greater than or equal to 1"),
        ("spec.defaultPartitionTypeAttribute", "whatever", None),  # the feature is off, so it is dropped
    ],
)
def test_a_request_with_one_bad_field(path: str, value: Any, problem: str | None) -> None:
    found = create_problems(REQUESTS, altered(REQUEST, {path: value}))
    assert found == ([] if problem is None else [problem])


def test_uppercase_driver_warns() -> None:
    (problem,) = create_problems(REQUESTS, altered(REQUEST, {"spec.driver": "a_b"}))
    assert "must consist of alphanumeric characters, '-' or '.'" in problem
    assert "(e.g. 'Example.com', regex used" in problem


def test_request_spec_is_immutable() -> None:
    assert update_problems(REQUESTS, REQUEST, altered(REQUEST, {"spec.limit": 3})) == [
        "spec: Invalid value: null: field is immutable"
    ]
    assert update_problems(REQUESTS, REQUEST, altered(REQUEST, {"metadata.labels": {"a": "b"}})) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("status.poolCount", None, "status.poolCount: Required value"),
        ("status.poolCount", -1, "status.poolCount: Invalid value: -1: must be greater than or equal to 0"),
        ("status.pools.0.generation", 0, "status.pools[0].generation: Required value"),
        (
            "status.pools.0.resourceSliceCount",
            0,
            "status.pools[0].resourceSliceCount: Invalid value: 0: must be greater than or equal to 1",
        ),
        (
            "status.pools.0.validationError",
            "x" * 257,
            "status.pools[0].validationError: Too long: may not be more than 256 bytes",
        ),
        (
            "status.pools.0.partitionSummary",
            [{"attribute": "a", "type": "b", "total": 1}],
            "status.pools[0].partitionSummary[0].allocatable: Required value",
        ),
        (
            "status.pools.0.shareableSummary",
            {
                "fullyAvailableDevices": 0,
                "partiallyAvailableDevices": 0,
                "capacity": [{"name": "c", "total": "1", "consumed": "0"}],
            },
            "status.pools[0].shareableSummary.capacity[0].available: Required value",
        ),
    ],
)
def test_status_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    answered = {**REQUEST, "status": STATUS}
    assert update_problems(REQUESTS, REQUEST, answered, "status") == []
    assert update_problems(REQUESTS, REQUEST, altered(answered, {path: value}), "status") == [problem]


def test_status_is_immutable() -> None:
    answered = {**REQUEST, "status": STATUS}
    (problem,) = update_problems(REQUESTS, answered, altered(answered, {"status.poolCount": 2}), "status")
    assert problem.startswith("status: Invalid value: ")
    assert problem.endswith(": field is immutable")


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.leaseName", "", "spec.leaseName: Required value"),
        ("spec.binaryVersion", "", "spec.binaryVersion: Required value"),
        (
            "spec.binaryVersion",
            "1.35.0",
            'spec.binaryVersion: Invalid value: "1.35.0": must be greater than or equal to `emulationVersion`',
        ),
        (
            "spec.binaryVersion",
            "1.36.0-rc.1",
            'spec.binaryVersion: Invalid value: "1.36.0-rc.1": must be greater than or equal to `emulationVersion`',
        ),
        (
            "spec.emulationVersion",
            "1.36",
            'spec.emulationVersion: Invalid value: "1.36": must be a valid semantic version',
        ),
        (
            "spec.emulationVersion",
            "",
            "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
        ),
        ("spec.strategy", "", "spec.strategy: Required value"),
        (
            "spec.strategy",
            "Youngest",
            'spec.strategy.strategy: Unsupported value: "Youngest": supported values: "OldestEmulationVersion"',
        ),
        ("spec.strategy", "example.com/Mine", None),
    ],
)
def test_a_lease_candidate_with_one_bad_field(path: str, value: Any, problem: str | None) -> None:
    found = create_problems(CANDIDATES, altered(CANDIDATE, {path: value}))
    assert (problem is None and found == []) or problem in found


def test_candidate_has_one_lease() -> None:
    assert update_problems(CANDIDATES, CANDIDATE, altered(CANDIDATE, {"spec.leaseName": "m"})) == [
        'spec.leaseName: Invalid value: "m": field is immutable'
    ]


def version(*servers: Any, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "apps.deployments"}, "status": {"storageVersions": list(servers), **status}}


@pytest.mark.parametrize(
    ("new", "problems"),
    [
        (version(SERVER, commonEncodingVersion="apps/v1"), []),
        (version(), []),
        (
            version(SERVER),
            ["status.commonEncodingVersion: Invalid value: null: the common encoding version is apps/v1"],
        ),
        (
            version(commonEncodingVersion="v1"),
            [
                'status.commonEncodingVersion: Invalid value: "v1": should be nil if servers '
                "do not agree on the same encoding version, or if there is no server reporting the supported "
                "versions yet"
            ],
        ),
        (
            version({**SERVER, "servedVersions": ["apps/v2"]}, commonEncodingVersion="apps/v1"),
            [
                'status.storageVersions[0].servedVersions[0]: Invalid value: "apps/v2": individual served '
                "version : apps/v2 must "
                "be included in decodableVersions : [apps/v1]"
            ],
        ),
        (
            version(SERVER, SERVER, commonEncodingVersion="apps/v1"),
            ['status.storageVersions[1].apiServerID: Duplicate value: "a"'],
        ),
        (
            version(
                SERVER, commonEncodingVersion="apps/v1", conditions=[{"type": "T", "status": "True", "message": "m"}]
            ),
            ["status[0].reason: Required value"],
        ),
    ],
)
def test_storage_version_status(new: Any, problems: list[str]) -> None:
    assert update_problems(VERSIONS, version(), new, "status") == problems


@pytest.mark.parametrize(("name", "good"), [("apps.deployments", True), ("deployments", False), ("a.B", False)])
def test_storage_version_name_has_group_and_resource(name: str, good: bool) -> None:
    assert (create_problems(VERSIONS, {"metadata": {"name": name}}) == []) is good
