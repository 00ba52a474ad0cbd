# SPDX-License-Identifier: Apache-2.0
"""Validation tests of priority classes, endpoint slices, leases, runtime classes and storage migrations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

PRIORITIES = "priorityclasses.scheduling.k8s.io"
SLICES = "endpointslices.discovery.k8s.io"
LEASES = "leases.coordination.k8s.io"
RUNTIMES = "runtimeclasses.node.k8s.io"
MIGRATIONS = "storageversionmigrations.storagemigration.k8s.io"
RESERVED = (
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
)
NOW = "2026-01-31T09:30:00Z"


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ({"value": 1_000_000_001}, "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"),
        ({"preemptionPolicy": "Ask"}, 'preemptionPolicy: Unsupported value: "Ask": supported values: '
         '"PreemptLowerPriority", "Never"'),
        ({"metadata": {"name": "system-x"}}, f"{RESERVED}system-x is not a known system priority class"),
        ({"metadata": {"name": "system-node-critical"}}, f"{RESERVED}value of system-node-critical PriorityClass must "
         "be 2000001000"),
        ({"metadata": {"name": "system-node-critical"}, "value": 2000001000, "globalDefault": True},
         f"{RESERVED}globalDefault of system-node-critical PriorityClass must be false"),
    ],
)  # fmt: skip
def test_a_priority_class_with_one_bad_field(manifest: dict[str, Any], problem: str) -> None:
    assert create_problems(PRIORITIES, manifest) == [problem]


def test_priority_and_preemption_policy_are_immutable() -> None:
    assert update_problems(PRIORITIES, {"value": 1}, {"value": 2, "preemptionPolicy": "Never"}) == [
        'preemptionPolicy: Invalid value: "Never": field is immutable',
        "value: Forbidden: may not be changed in an update.",
    ]


SLICE = {
    "addressType": "IPv4",
    "endpoints": [
        {"addresses": ["10.0.0.1"], "hostname": "a", "nodeName": "n", "hints": {"forZones": [{"name": "z"}]}}
    ],
    "ports": [{"name": "http", "port": 80, "appProtocol": "example.com/x"}],
}
ENDPOINT = "endpoints.0"


def test_a_full_slice_passes() -> None:
    assert create_problems(SLICES, SLICE) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("addressType", "", "addressType: Required value"),
        ("addressType", "X25", 'addressType: Unsupported value: "X25": supported values: "FQDN", "IPv4", "IPv6"'),
        ("ports", [{}, {}], 'ports[1].name: Duplicate value: ""'),
        ("ports.0.protocol", "ICMP", 'ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", '
         '"UDP"'),
        (f"{ENDPOINT}.addresses", [], "endpoints[0].addresses: Required value"),
        (f"{ENDPOINT}.addresses", ["10.0.0.1"] * 101, "endpoints[0].addresses: Too many: 101: must have at most 100 "
         "items"),
        (f"{ENDPOINT}.addresses", ["fd00::1"], 'endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 '
         'address'),
        (f"{ENDPOINT}.addresses", ["0.0.0.0"], 'endpoints[0].addresses[0]: Invalid value: "0.0.0.0": may not be '
         'unspecified (0.0.0.0)'),
        (f"{ENDPOINT}.addresses", ["127.0.0.1"], 'endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be '
         'in the loopback range (127.0.0.0/8, ::1/128)'),
        (f"{ENDPOINT}.addresses", ["169.254.1.1"], 'endpoints[0].addresses[0]: Invalid value: "169.254.1.1": may not '
         'be in the link-local range (169.254.0.0/16, fe80::/10)'),
        (f"{ENDPOINT}.addresses", ["224.0.0.1"], 'endpoints[0].addresses[0]: Invalid value: "224.0.0.1": may not be '
         'in the link-local multicast range (224.0.0.0/24, ff02::/10)'),
        (f"{ENDPOINT}.hints.forZones", [{"name": "z"}] * 9, "endpoints[0].hints.forZones: Too many: 9: must have at "
         "most 8 items"),
        (f"{ENDPOINT}.hints.forZones", [{"name": "z"}] * 2, 'endpoints[0].hints.forZones[1].name: Duplicate value: '
         '"z"'),
        ("endpoints", [{"addresses": ["10.0.0.1"]}] * 1001, "endpoints: Too many: 1001: must have at most 1000 items"),
    ],
)  # fmt: skip
def test_a_slice_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(SLICES, altered(SLICE, {path: value})) == [problem]


def test_slice_keeps_its_address_type_and_legacy_endpoints() -> None:
    bad = altered(SLICE, {f"{ENDPOINT}.addresses": ["127.0.0.1"]})
    assert update_problems(SLICES, bad, bad) == []
    changed = altered(SLICE, {"addressType": "FQDN"})
    assert update_problems(SLICES, SLICE, changed) == ["addressType: Invalid value: null: field is immutable"]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"),
        ({"leaseTransitions": -1}, "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"),
    ],
)
def test_a_lease_with_one_bad_field(spec: dict[str, Any], problem: str) -> None:
    assert create_problems(LEASES, {"spec": spec}) == [problem]
    assert update_problems(LEASES, {}, {"spec": spec}) == [problem]


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ({"handler": ""}, "handler: Required value"),
        ({"overhead": {"podFixed": {"cpu": "-1"}}}, 'overhead.limits[cpu]: Invalid value: "-1": must be greater than '
         'or equal to 0'),
        ({"scheduling": {"tolerations": [{"key": "k", "operator": "Exists"}] * 2}},
         'scheduling.tolerations[1]: Duplicate value: '
         '{"Key":"k","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}'),
    ],
)  # fmt: skip
def test_a_runtime_class_with_one_bad_field(manifest: dict[str, Any], problem: str) -> None:
    assert create_problems(RUNTIMES, {"handler": "runc", **manifest}) == [problem]


def test_handler_of_a_runtime_class_is_immutable() -> None:
    found = update_problems(RUNTIMES, {"handler": "a"}, {"handler": "b"})
    assert found == ["handler: Invalid value: null: field is immutable"]


def migration(*true: str, version: str = "") -> dict[str, Any]:
    conditions = [{"type": name, "status": "True", "reason": "R", "lastTransitionTime": NOW} for name in true]
    status = {"conditions": conditions, "resourceVersion": version}
    return {"spec": {"resource": {"resource": "pods"}}, "status": status}


def test_migration_resource_is_required_and_immutable() -> None:
    assert create_problems(MIGRATIONS, {}) == ["spec.resource.resource: Required value: resource is required to be set"]
    other = {"spec": {"resource": {"group": "apps", "resource": "deployments"}}}
    assert update_problems(MIGRATIONS, migration(), other) == [
        'spec: Invalid value: {"Resource":{"group":"apps","resource":"deployments"}}: field is immutable'
    ]


def test_migration_has_one_terminal_condition() -> None:
    assert update_problems(MIGRATIONS, migration(), migration("Succeeded"), "status") == []
    both = update_problems(MIGRATIONS, migration(), migration("Succeeded", "Failed"), "status")
    assert [problem.rpartition(": ")[2] for problem in both] == [
        "Both success and failed conditions cannot be true at the same time"
    ]
    back = update_problems(MIGRATIONS, migration("Failed"), migration(), "status")
    assert back == ["status.conditions: Invalid value: null: Failed condition cannot be set to false once it is true"]


def test_migration_version_is_an_immutable_number() -> None:
    wrong = 'status.resourceVersion: Invalid value: "07": resource version is not well formed: 07'
    assert update_problems(MIGRATIONS, migration(), migration(version="07"), "status") == [wrong]
    stays = 'status.resourceVersion: Invalid value: "8": field is immutable'
    assert update_problems(MIGRATIONS, migration(version="7"), migration(version="8"), "status") == [stays]
