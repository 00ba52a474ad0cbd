# SPDX-License-Identifier: Apache-2.0
"""Tests of defaults of all kinds except pods."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec, kinds
from kubeloop.api.defaults import DEFAULTERS, apply_defaults

KINDS = {f"{resource.group_version} {resource.kind}": resource for resource in kinds.RESOURCES}


def defaulted(kind: str, manifest: Any) -> Any:
    obj = codec.from_plain(manifest, KINDS[kind].type)
    apply_defaults(obj)
    return codec.to_plain(obj)


def at(obj: Any, path: str) -> Any:
    """The value at a dotted path; numbers are positions in lists; None where there is nothing."""
    for step in path.split("."):
        obj = obj[int(step)] if step.isdigit() else obj.get(step)
        if obj is None:
            return None
    return obj


CASES: list[tuple[str, Any, dict[str, Any]]] = [
    ("v1 Namespace", {"metadata": {"name": "a"}}, {"status.phase": "Active"}),
    ("v1 Secret", {}, {"type": "Opaque"}),
    ("v1 Secret", {"data": {"a": "AAAA"}, "stringData": {"b": "x"}}, {"data": {"a": "AAAA", "b": "eA=="}}),
    ("v1 Secret", {"stringData": {"b": "x"}}, {"stringData": None}),
    ("v1 Node", {"status": {"capacity": {"cpu": "1"}}}, {"status.allocatable": {"cpu": "1"}}),
    ("v1 Node", {"spec": {"podCIDR": "10.0.0.0/24"}}, {"spec.podCIDRs": ["10.0.0.0/24"]}),
    ("v1 Node", {"spec": {"podCIDRs": ["10.0.0.0/24"]}}, {"spec.podCIDR": "10.0.0.0/24"}),
    ("v1 PersistentVolumeClaim", {}, {"status.phase": "Pending", "spec.volumeMode": "Filesystem"}),
    (
        "v1 PersistentVolume",
        {"spec": {"hostPath": {"path": "/x"}, "rbd": {"image": "i"}}},
        {
            "status.phase": "Pending",
            "spec.persistentVolumeReclaimPolicy": "Retain",
            "spec.volumeMode": "Filesystem",
            "spec.hostPath.type": "",
            "spec.rbd.pool": "rbd",
            "spec.rbd.user": "admin",
            "spec.rbd.keyring": "/etc/ceph/keyring",
        },
    ),
    ("v1 Endpoints", {"subsets": [{"ports": [{"port": 1}]}]}, {"subsets.0.ports.0.protocol": "TCP"}),
    (
        "v1 LimitRange",
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1"}}]}},
        {"spec.limits.0.default": {"cpu": "2"}, "spec.limits.0.defaultRequest": {"cpu": "2", "memory": "1"}},
    ),
    ("v1 LimitRange", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}}, {"spec.limits.0.default": None}),
    ("v1 ResourceQuota", {"spec": {"hard": {"cpu": "1u"}}}, {"spec.hard": {"cpu": "1m"}}),
    (
        "v1 ReplicationController",
        {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}},
        {
            "spec.replicas": 1,
            "spec.selector": {"a": "b"},
            "metadata.labels": {"a": "b"},
            "spec.template.spec.dnsPolicy": "ClusterFirst",
        },
    ),
    ("autoscaling/v1 HorizontalPodAutoscaler", {}, {"spec.minReplicas": 1}),
    (
        "autoscaling/v2 HorizontalPodAutoscaler",
        {},
        {
            "spec.minReplicas": 1,
            "spec.metrics.0.resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            "spec.behavior": None,
        },
    ),
    (
        "autoscaling/v2 HorizontalPodAutoscaler",
        {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}}},
        {
            "spec.behavior.scaleUp.stabilizationWindowSeconds": 0,
            "spec.behavior.scaleUp.policies.0": {"type": "Pods", "value": 4, "periodSeconds": 15},
            "spec.behavior.scaleDown.stabilizationWindowSeconds": 5,
            "spec.behavior.scaleDown.selectPolicy": "Max",
            "spec.behavior.scaleDown.policies.0": {"type": "Percent", "value": 100, "periodSeconds": 15},
        },
    ),
    ("networking.k8s.io/v1 NetworkPolicy", {}, {"spec.policyTypes": ["Ingress"]}),
    (
        "networking.k8s.io/v1 NetworkPolicy",
        {"spec": {"egress": [{"ports": [{"port": 1}]}], "ingress": [{"ports": [{"port": "x"}]}]}},
        {
            "spec.policyTypes": ["Ingress", "Egress"],
            "spec.egress.0.ports.0.protocol": "TCP",
            "spec.ingress.0.ports.0.protocol": "TCP",
        },
    ),
    (
        "networking.k8s.io/v1 IngressClass",
        {"spec": {"parameters": {"kind": "K", "name": "n"}}},
        {"spec.parameters.scope": "Cluster"},
    ),
    ("discovery.k8s.io/v1 EndpointSlice", {"endpoints": [], "ports": []}, {"endpoints": None, "ports": None}),
    ("rbac.authorization.k8s.io/v1 ClusterRole", {"rules": []}, {"rules": None}),
    ("storage.k8s.io/v1 CSINode", {"spec": {"drivers": []}}, {"spec.drivers": None}),
    ("discovery.k8s.io/v1 EndpointSlice", {"ports": [{}]}, {"ports.0.name": "", "ports.0.protocol": "TCP"}),
    (
        "rbac.authorization.k8s.io/v1 RoleBinding",
        {"subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}]},
        {
            "roleRef.apiGroup": "rbac.authorization.k8s.io",
            "subjects.0.apiGroup": "rbac.authorization.k8s.io",
            "subjects.1.apiGroup": None,
        },
    ),
    ("scheduling.k8s.io/v1 PriorityClass", {}, {"preemptionPolicy": "PreemptLowerPriority"}),
    ("storage.k8s.io/v1 StorageClass", {}, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    (
        "storage.k8s.io/v1 CSIDriver",
        {"spec": {"podInfoOnMount": True}},
        {
            "spec": {
                "attachRequired": True,
                "podInfoOnMount": True,
                "storageCapacity": False,
                "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "volumeLifecycleModes": ["Persistent"],
                "requiresRepublish": False,
                "seLinuxMount": False,
                "preventPodSchedulingIfMissing": False,
            }
        },
    ),
    (
        "storage.k8s.io/v1 VolumeAttachment",
        {"spec": {"source": {"inlineVolumeSpec": {"hostPath": {"path": "/"}}}}},
        {"spec.source.inlineVolumeSpec.hostPath.type": "", "spec.source.inlineVolumeSpec.volumeMode": None},
    ),
    ("certificates.k8s.io/v1 PodCertificateRequest", {}, {"spec.maxExpirationSeconds": 86400}),
    ("flowcontrol.apiserver.k8s.io/v1 FlowSchema", {}, {"spec.matchingPrecedence": 1000}),
    (
        "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration",
        {"spec": {"limited": {"limitResponse": {"queuing": {}}}, "exempt": {}}},
        {
            "spec.limited.nominalConcurrencyShares": 30,
            "spec.limited.lendablePercent": 0,
            "spec.limited.limitResponse.queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50},
            "spec.exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
        },
    ),
    (
        "resource.k8s.io/v1 ResourceClaim",
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"tolerations": [{"key": "k"}]}}]}}},
        {
            "spec.devices.requests.0.exactly.allocationMode": "ExactCount",
            "spec.devices.requests.0.exactly.count": 1,
            "spec.devices.requests.0.exactly.tolerations.0.operator": "Equal",
        },
    ),
    (
        "resource.k8s.io/v1 ResourceClaimTemplate",
        {"spec": {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": [{"allocationMode": "All"}]}]}}}},
        {
            "spec.spec.devices.requests.0.firstAvailable.0.allocationMode": "All",
            "spec.spec.devices.requests.0.firstAvailable.0.count": None,
        },
    ),
    (
        "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration",
        {"webhooks": [{"name": "w", "clientConfig": {"service": {"name": "s"}}, "rules": [{"apiGroups": ["*"]}]}]},
        {
            "webhooks.0.failurePolicy": "Fail",
            "webhooks.0.matchPolicy": "Equivalent",
            "webhooks.0.namespaceSelector": {},
            "webhooks.0.objectSelector": {},
            "webhooks.0.timeoutSeconds": 10,
            "webhooks.0.reinvocationPolicy": "Never",
            "webhooks.0.clientConfig.service.port": 443,
            "webhooks.0.rules.0.scope": "*",
        },
    ),
    (
        "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy",
        {"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["*"]}]}}},
        {
            "spec.failurePolicy": "Fail",
            "spec.matchConstraints.matchPolicy": "Equivalent",
            "spec.matchConstraints.resourceRules.0.scope": "*",
        },
    ),
    (
        "apiextensions.k8s.io/v1 CustomResourceDefinition",
        {"spec": {"names": {"kind": "Widget"}, "versions": [{"name": "v1"}, {"name": "v2", "storage": True}]}},
        {
            "spec.names.singular": "widget",
            "spec.names.listKind": "WidgetList",
            "spec.conversion": {"strategy": "None"},
            "status.storedVersions": ["v2"],
        },
    ),
    ("apiregistration.k8s.io/v1 APIService", {"spec": {"service": {"name": "s"}}}, {"spec.service.port": 443}),
]


@pytest.mark.parametrize(
    ("kind", "manifest", "expected"), CASES, ids=[f"{i} {case[0]}" for i, case in enumerate(CASES)]
)
def test_fields_are_defaulted(kind: str, manifest: Any, expected: dict[str, Any]) -> None:
    obj = defaulted(kind, manifest)
    assert {path: at(obj, path) for path in expected} == expected


SERVICES: list[tuple[Any, dict[str, Any]]] = [
    ({}, {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}),
    ({"externalIPs": ["1.2.3.4"]}, {"externalTrafficPolicy": "Cluster"}),
    ({}, {"externalTrafficPolicy": None}),
    ({"type": "NodePort"}, {"externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster"}),
    ({"type": "ExternalName"}, {"externalTrafficPolicy": None, "internalTrafficPolicy": None}),
    ({"type": "LoadBalancer"}, {"allocateLoadBalancerNodePorts": True}),
    ({"sessionAffinity": "ClientIP"}, {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}),
    ({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 1}}}, {"sessionAffinityConfig": None}),
    ({"ports": [{"port": 80}]}, {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}),
    ({"ports": [{"port": 80, "targetPort": "web"}]}, {"ports.0.targetPort": "web"}),
]


@pytest.mark.parametrize(("spec", "expected"), SERVICES)
def test_services_by_type(spec: Any, expected: dict[str, Any]) -> None:
    completed = defaulted("v1 Service", {"spec": spec})["spec"]
    assert {path: at(completed, path) for path in expected} == expected


def test_a_namespace_is_labelled_with_its_name_and_keeps_its_labels() -> None:
    labels = defaulted("v1 Namespace", {"metadata": {"name": "a", "labels": {"x": "y"}}})["metadata"]["labels"]
    assert labels == {"x": "y", "kubernetes.io/metadata.name": "a"}
    assert "labels" not in defaulted("v1 Namespace", {"metadata": {"generateName": "a-"}})["metadata"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_minimal_object_of_every_kind_is_defaulted_once(kind: str) -> None:
    obj = KINDS[kind].type()
    apply_defaults(obj)
    once = codec.encode(obj)
    apply_defaults(obj)
    assert codec.encode(obj) == once


def test_every_defaulter_is_for_a_generated_kind() -> None:
    for name in DEFAULTERS:
        module, _, kind = name.partition(".")
        assert getattr(import_module(f"kubeloop.api.generated.{module}"), kind)


JSON_OBJECTS = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "replicas": st.integers(-1, 3),
            "volumes": st.lists(st.sampled_from([{}, {"secret": {}}, {"emptyDir": {}}, {"hostPath": {}}]), max_size=2),
            "containers": st.lists(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "image": st.sampled_from(["a", "a:1", "B"]),
                        "livenessProbe": st.just({"httpGet": {"port": 1}}),
                        "resources": st.just({"limits": {"cpu": "1500u"}, "requests": {"memory": "1"}}),
                        "ports": st.just([{"containerPort": 5}]),
                    },
                ),
                max_size=2,
            ),
            "hostNetwork": st.booleans(),
            "serviceAccount": st.sampled_from(["", "a"]),
            "serviceAccountName": st.sampled_from(["", "b"]),
        },
    )
)


@settings(max_examples=50, deadline=None)
@given(JSON_OBJECTS)
def test_defaulting_a_pod_twice_is_idempotent(spec: dict[str, Any]) -> None:
    once = defaulted("v1 Pod", {"spec": spec})
    assert defaulted("v1 Pod", once) == once
