# SPDX-License-Identifier: Apache-2.0
"""NodeDeclaredFeatureValidator: updates that the pod's node must support."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubeloop.api import errors
from kubeloop.api.codec import from_plain
from kubeloop.api.features.gates import DEFAULT_FEATURES, parse_feature_gates
from kubeloop.apiserver.admission import Attributes
from kubeloop.apiserver.admission.plugins.node.declared_feature_validator import NodeDeclaredFeatureValidator
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.warning_recorder import WarningRecorder
from tests.unit.apiserver.admission.conftest import resource_named

POD_LEVEL = "InPlacePodLevelResourcesVerticalScaling"
INIT = "InPlacePodVerticalScalingInitContainers"
MEMORY = "InPlacePodVerticalScalingMemoryBackedVolumes"
ALLOCATABLE = "DRANodeAllocatableResources"


def _cpu(amount):
    return {"requests": {"cpu": amount}}


def _resources(amount):
    return {"resources": _cpu(amount)}


def _init(amount, **more):
    return {"initContainers": [{"name": "i", "resources": _cpu(amount), **more}]}


def _volume(size, medium="Memory", name="v"):
    return {"volumes": [{"name": name, "emptyDir": {"medium": medium, "sizeLimit": size}}]}


def _run(cluster, obj, old=None, features=DEFAULT_FEATURES, subresource="", plural="pods"):
    noon = datetime(2026, 5, 10, 12, tzinfo=UTC)
    resource = resource_named(plural)
    operation = "CREATE" if old is None else "UPDATE"
    plugin = NodeDeclaredFeatureValidator(cluster, features)
    if not plugin.handles(operation, resource, subresource):
        return ""
    attempt = Attributes(
        operation, resource, subresource, "shop", "x", obj, old, User("jane"), False, noon, WarningRecorder()
    )
    try:
        plugin.validate(attempt)
    except errors.Forbidden as refusal:
        return refusal.message
    return ""


def _pod(spec, generation=1, node="n"):
    plain = {"metadata": {"name": "x", "generation": generation}, "spec": {"nodeName": node, **spec}}
    return from_plain(plain, resource_named("pods").type)


def _resize(cluster, old, new, *, generation=2, node="n", **more):
    return _run(cluster, _pod(new, generation, node), _pod(old, 1, node), **more)


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [
        (_resources("1"), _resources("2"), POD_LEVEL),
        ({}, _resources("2"), POD_LEVEL),
        (_init("1"), _init("2"), INIT),
        (_volume("1Gi"), _volume("2Gi"), MEMORY),
        ({**_resources("1"), **_init("1")}, {**_resources("2"), **_init("2")}, f"{POD_LEVEL}, {INIT}"),
    ],
)
def test_an_update_needs_the_features_of_the_pods_node(cluster, old, new, missing):
    cluster.add("nodes", "n")
    assert _resize(cluster, old, new) == (
        f'pods "x" is forbidden: pod update requires features {missing} which are not available on node "n"'
    )
    assert _resize(cluster, old, new, subresource="resize")


def test_a_node_that_declares_the_features_takes_the_update(cluster):
    cluster.add("nodes", "n", status={"declaredFeatures": [POD_LEVEL, INIT, MEMORY]})
    old = {**_resources("1"), **_init("1"), **_volume("1Gi")}
    new = {**_resources("2"), **_init("2"), **_volume("2Gi")}
    assert _resize(cluster, old, new) == ""


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [
        (_resources("1"), _resources("1"), {}),
        (_init("1", restartPolicy="Always"), _init("2", restartPolicy="Always"), {}),
        (_volume("1Gi", ""), _volume("2Gi", ""), {}),
        (_volume("1Gi"), _volume("2Gi", name="w"), {}),
        (_volume("1Gi"), {}, {}),
        (_volume(None), _volume("2Gi"), {}),
        (_resources("1"), _resources("2"), {"generation": 1}),
        (_resources("1"), _resources("2"), {"node": ""}),
        (_resources("1"), _resources("2"), {"subresource": "status"}),
    ],
)
def test_other_updates_need_neither_feature_nor_node(cluster, old, new, more):
    assert _resize(cluster, old, new, **more) == ""


def test_the_pods_node_must_exist(cluster):
    assert _resize(cluster, _resources("1"), _resources("2")) == 'pods "x" is forbidden: node "n" not found'


def _slice(spec, device=None):
    devices = [{"name": "d", "nodeAllocatableResources": {"cpu": {}}, **(device or {})}]
    plain = {"metadata": {"name": "x"}, "spec": {"devices": devices, **spec}}
    return from_plain(plain, resource_named("resourceslices").type)


SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
UNSUPPORTED = 'resourceslices.resource.k8s.io "x" is forbidden: node "{}" does not support ' + ALLOCATABLE + " feature"


@pytest.mark.parametrize(
    ("spec", "device", "message"),
    [
        ({"nodeName": "old"}, None, UNSUPPORTED.format("old")),
        ({"nodeName": "new"}, None, ""),
        ({"allNodes": True}, None, UNSUPPORTED.format("old")),
        ({"nodeSelector": SELECTOR}, None, UNSUPPORTED.format("old")),
        ({"perDeviceNodeSelection": True}, {"nodeName": "old"}, UNSUPPORTED.format("old")),
        ({"perDeviceNodeSelection": True, "nodeName": "old"}, {"nodeName": "new"}, ""),
        ({"nodeName": "old"}, {"nodeAllocatableResources": {}}, ""),
        (
            {"nodeName": "none"},
            None,
            'resourceslices.resource.k8s.io "x" is forbidden: node "none" not found for device "d"',
        ),
        (
            {},
            None,
            'resourceslices.resource.k8s.io "x" is forbidden: device "d" in ResourceSlice has '
            "NodeAllocatableResources but does not map to any nodes",
        ),
    ],
)
def test_nodes_of_allocatable_devices_must_support_them(cluster, spec, device, message):
    cluster.add("nodes", "old", metadata={"labels": {"zone": "a"}})
    cluster.add("nodes", "new", metadata={"labels": {"zone": "b"}}, status={"declaredFeatures": [ALLOCATABLE]})
    enabled = parse_feature_gates([f"{ALLOCATABLE}=true"])
    assert _run(cluster, _slice(spec, device), features=enabled, plural="resourceslices") == message
    assert _run(cluster, _slice(spec, device), plural="resourceslices") == ""
