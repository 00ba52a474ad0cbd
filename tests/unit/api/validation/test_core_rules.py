# SPDX-License-Identifier: Apache-2.0
"""Validation tests of the core kinds except pods: configuration, services, nodes, storage, quotas, events."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.generated import events_v1
from kubeloop.api.validation import ObjectValidator
from tests.unit.api.validation.manifests import altered, create_problems, update_problems

VALIDATOR = ObjectValidator(DEFAULT_FEATURES)

SERVICE: dict[str, Any] = {"spec": {"ports": [{"port": 80}]}}
CLAIM: dict[str, Any] = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}}
VOLUME: dict[str, Any] = {
    "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
}
SECRET, TOKEN = "secrets", "kubernetes.io/service-account-token"


@pytest.mark.parametrize(
    ("kind", "good"),
    [
        ("configmaps", {"data": {"a.b-C_1": "x"}, "binaryData": {"b": "AA=="}}),
        ("secrets", {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}),
        ("namespaces", {"spec": {"finalizers": ["kubernetes", "a.b/c"]}}),
        ("services", SERVICE),
        ("services", {"spec": {"type": "ExternalName", "externalName": "a.b."}}),
        ("endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}),
        ("nodes", {"spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "a", "effect": "NoSchedule"}]}}),
        ("persistentvolumes", VOLUME),
        ("persistentvolumeclaims", CLAIM),
        ("resourcequotas", {"spec": {"hard": {"pods": "1", "count/jobs.batch": "2"}, "scopes": []}}),
        ("limitranges", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]}}),
        ("serviceaccounts", {}),
    ],
)
def test_valid_objects_pass(kind: str, good: dict[str, Any]) -> None:
    assert create_problems(kind, good) == []


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("configmaps", {"data": {"..": "x"}}, "data[..]: Invalid value: \"..\": must not be '..'"),
    ("configmaps", {"data": {"a": "x"}, "binaryData": {"a": ""}},
        'data[a]: Invalid value: "a": duplicate of key present in binaryData'),
    ("configmaps", {"data": {"a": "x" * (1024 * 1024 + 1)}}, "[]: Too long: may not be more than 1048576 bytes"),
    (SECRET, {"type": TOKEN}, "metadata.annotations[kubernetes.io/service-account.name]: Required value"),
    (SECRET, {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": ""}},
        'data[.dockercfg]: Invalid value: "<secret contents redacted>": unexpected end of JSON input'),
    (SECRET, {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "bm8="}},
        'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": '
        "invalid character 'o' in literal null (expecting 'u')"),
    (SECRET, {"type": "kubernetes.io/basic-auth"}, "data[username]: Required value"),
    ("namespaces", {"spec": {"finalizers": ["nope"]}}, 'spec.finalizers: Invalid value: "nope": '
        "name is neither a standard finalizer name nor is it fully qualified"),
    ("endpoints", {"subsets": [{}]}, "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"),
    ("endpoints", {"subsets": [{"addresses": [{"ip": "127.0.0.1"}]}]}, "subsets[0].addresses[0].ip: Invalid value: "
        '"127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'),
    ("endpoints", {"subsets": [{"addresses": [{"ip": "ff02::1"}]}]}, "subsets[0].addresses[0].ip: Invalid value: "
        '"ff02::1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)'),
    ("nodes", {"spec": {"podCIDR": "bad"}}, 'spec.podCIDRs[0]: Invalid value: "bad": '
        "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    ("nodes", {"spec": {"taints": [{"key": "a", "effect": "No"}]}}, 'metadata.taints[0].effect: Unsupported value: '
        '"No": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'),
    ("resourcequotas", {"spec": {"hard": {"pods": "1500m"}}},
        'spec.hard[pods]: Invalid value: "1500m": must be an integer'),
    ("resourcequotas", {"spec": {"scopes": ["Nope"]}}, 'spec.scopes: Invalid value: ["Nope"]: unsupported scope'),
    ("resourcequotas", {"spec": {"scopes": ["BestEffort", "NotBestEffort"]}},
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes'),
    ("limitranges", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]}},
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'),
    ("limitranges", {"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}},
        'spec.limits[1].type: Duplicate value: "Pod"'),
    ("replicationcontrollers", {}, "spec.template: Required value"),
    ("podtemplates", {}, "template.spec.containers: Required value"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fault", "problem"), FAULTS)
def test_invalid_objects_are_reported(kind: str, fault: dict[str, Any], problem: str) -> None:
    assert problem in create_problems(kind, fault)


SERVICE_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"spec.ports": []}, "spec.ports: Required value"),
    ({"spec.ports.0.port": 0}, "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"),
    ({"spec.ports": [{"port": 1}, {"port": 2, "name": "b"}]}, "spec.ports[0].name: Required value"),
    ({"spec.ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]}, "spec.ports[1]: Duplicate value: "
        '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":1,"TargetPort":0,"NodePort":0}'),
    ({"spec.ports.0.nodePort": 30000}, "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"),
    ({"spec.type": "Weird"}, 'spec.type: Unsupported value: "Weird": supported values: '
        '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'),
    ({"spec.sessionAffinity": "Cookie"},
        'spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"'),
    ({"spec.sessionAffinity": "ClientIP", "spec.sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}},
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: "
        "must be greater than 0 and less than 86400"),
    ({"spec.externalTrafficPolicy": "Local"}, 'spec.externalTrafficPolicy: Invalid value: "Local": '
        "may only be set for externally-accessible services"),
    ({"spec.loadBalancerSourceRanges": ["10.0.0.0/8"]},
        "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"),
    ({"spec.ipFamilies": ["IPv4", "IPv4"]}, 'spec.ipFamilies[1]: Duplicate value: "IPv4"'),
    ({"spec.clusterIP": "10.0.0.1", "spec.clusterIPs": ["10.0.0.2"]},
        'spec.clusterIPs: Invalid value: ["10.0.0.2"]: first value must match `clusterIP`'),
    ({"spec.externalIPs": ["127.0.0.1"]}, 'spec.externalIPs[0]: Invalid value: "127.0.0.1": '
        "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
    ({"spec.trafficDistribution": "R"}, 'spec.trafficDistribution: Unsupported value: "R": supported values: '
        '"PreferClose", "PreferSameZone", "PreferSameNode"'),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "problem"), SERVICE_FAULTS)
def test_invalid_services_are_reported(fault: dict[str, Any], problem: str) -> None:
    assert problem in create_problems("services", altered(SERVICE, fault))


def test_cluster_ip_is_immutable() -> None:
    one, other = (altered(SERVICE, {"spec.clusterIP": ip, "spec.clusterIPs": [ip]}) for ip in ("10.0.0.1", "10.0.0.2"))
    assert update_problems("services", one, one) == []
    assert update_problems("services", one, other) == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'
    ]


def test_only_load_balancers_have_ingress_status() -> None:
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    assert update_problems("services", SERVICE, altered(SERVICE, status), "status") == [
        "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    ]


@pytest.mark.parametrize(
    ("kind", "old", "new", "problem"),
    [
        ("configmaps", {"immutable": True, "data": {"a": "1"}}, {"immutable": True, "data": {"a": "2"}},
            "data: Forbidden: field is immutable when `immutable` is set"),
        ("configmaps", {"immutable": True}, {}, "immutable: Forbidden: field is immutable when `immutable` is set"),
        ("secrets", {"type": "a/b"}, {"type": "a/c"}, 'type: Invalid value: "a/c": field is immutable'),
        ("nodes", {"spec": {"providerID": "a"}}, {"spec": {"providerID": "b"}},
            "spec.providerID: Invalid value: null: field cannot be modified once set"),
        ("nodes", {"spec": {"podCIDR": "10.0.0.0/24"}}, {"spec": {"podCIDR": "10.1.0.0/24"}},
            'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'),
        ("resourcequotas", {"spec": {"scopes": ["BestEffort"]}}, {"spec": {}},
            "spec.scopes: Invalid value: null: field is immutable"),
    ],
)  # fmt: skip
def test_immutable_fields(kind: str, old: dict[str, Any], new: dict[str, Any], problem: str) -> None:
    assert update_problems(kind, old, new) == [problem]


def test_a_namespace_is_active_until_it_is_deleted() -> None:
    gone = {"status": {"phase": "Terminating"}}
    (problem,) = update_problems("namespaces", {}, gone, "status")
    assert problem.endswith("may only be 'Active' if `deletionTimestamp` is empty")


CLAIM_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"spec.accessModes": []}, "spec.accessModes: Required value: at least 1 access mode is required"),
    ({"spec.accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]},
        "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"),
    ({"spec.resources": {}}, "spec.resources[storage]: Required value"),
    ({"spec.resources.requests.storage": "0"},
        'spec.resources[storage]: Invalid value: "0": must be greater than zero'),
    ({"spec.dataSourceRef": {"kind": "X", "name": "a"}}, 'spec.dataSourceRef: Invalid value: "X": '
        "must be 'PersistentVolumeClaim' when referencing the default apiGroup"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "problem"), CLAIM_FAULTS)
def test_invalid_claims_are_reported(fault: dict[str, Any], problem: str) -> None:
    assert problem in create_problems("persistentvolumeclaims", altered(CLAIM, fault))


def test_only_a_bound_claim_can_be_expanded() -> None:
    bigger = altered(CLAIM, {"spec.resources.requests.storage": "3Gi"})
    bound = {"status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}}
    kind = "persistentvolumeclaims"
    assert update_problems(kind, altered(CLAIM, bound), altered(bigger, bound)) == []
    (problem,) = update_problems(kind, CLAIM, bigger)
    assert problem.startswith("spec: Forbidden: spec is immutable after creation except resources.requests")
    smaller = altered(CLAIM, {"spec.resources.requests.storage": "1Gi", **bound})
    assert update_problems(kind, altered(CLAIM, bound), smaller) == [
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
    ]


VOLUME_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"spec.capacity": {}}, "spec.capacity: Required value"),
    ({"spec.hostPath": None}, "spec: Required value: must specify a volume type"),
    ({"spec.nfs": {"server": "s", "path": "/"}}, "spec.nfs: Forbidden: may not specify more than 1 volume type"),
    ({"spec.hostPath": None, "spec.local": {"path": "/x"}},
        "spec.nodeAffinity: Required value: Local volume requires node affinity"),
    ({"spec.persistentVolumeReclaimPolicy": "Burn"}, "spec.persistentVolumeReclaimPolicy: Unsupported value: "
        '"Burn": supported values: "Delete", "Recycle", "Retain"'),
    ({"spec.hostPath.path": "/", "spec.persistentVolumeReclaimPolicy": "Recycle"},
        "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "problem"), VOLUME_FAULTS)
def test_invalid_volumes_are_reported(fault: dict[str, Any], problem: str) -> None:
    assert problem in create_problems("persistentvolumes", altered(VOLUME, fault))


def test_volume_source_is_immutable() -> None:
    (problem,) = update_problems("persistentvolumes", VOLUME, altered(VOLUME, {"spec.hostPath.path": "/y"}))
    assert problem.startswith("spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable")
    assert '-  "Path": "/x",\n+  "Path": "/y",\n' in problem


def test_core_event_must_match_the_namespace_of_its_object() -> None:
    assert create_problems("events", {"involvedObject": {"namespace": "default"}}) == []
    assert create_problems("events", {"involvedObject": {"namespace": "other"}}) == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]


def test_new_event_has_a_reporter() -> None:
    event = {"metadata": {"name": "e", "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z"}
    fields = {error.field for error in VALIDATOR.validate_create(codec.from_plain(event, events_v1.Event))}
    assert fields == {"reportingController", "reportingInstance", "action", "reason", "type"}
