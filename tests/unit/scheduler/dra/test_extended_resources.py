# SPDX-License-Identifier: Apache-2.0
"""Tests of devices for extended resources, and of the class that maps one."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.generated.resource_v1 import DeviceClass
from kubeloop.scheduler.dra.extended_resources import ExtendedResourceCache, device_requests_of, may_be_device_backed
from kubeloop.scheduler.plugins.dynamic_resources import DynamicResources
from kubeloop.scheduler.plugins.node_resources_fit import NodeResourcesFit
from tests.unit.scheduler.dra.device_claims import device_class, slice_of
from tests.unit.scheduler.random_clusters import RandomCluster

GPU, NIC = "example.com/gpu", "example.com/nic"


def pod_of(init: list[dict[str, Any]], regular: list[dict[str, Any]]) -> Pod:
    def containers(word: str, listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                "name": f"{word}{number}",
                "resources": {"requests": {key: value for key, value in one.items() if key != "sidecar"}},
                **({"restartPolicy": "Always"} if one.get("sidecar") else {}),
            }
            for number, one in enumerate(listed)
        ]

    spec = {"initContainers": containers("init", init), "containers": containers("app", regular)}
    return from_plain({"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": spec}, Pod)


SIDECAR = {"sidecar": "yes"}


@pytest.mark.parametrize(
    ("init", "regular", "requests", "mappings"),
    [
        ([], [{GPU: "2", "cpu": "1"}], {"0-1": 2}, [("app0", "0-1")]),
        ([], [{GPU: "2"}, {"cpu": "1"}, {GPU: "1"}], {"0-0": 2, "2-0": 1}, [("app0", "0-0"), ("app2", "2-0")]),
        # Init containers reuse the devices of containers.
        ([{GPU: "1"}], [{GPU: "2"}], {"1-0": 2}, [("app0", "1-0"), ("init0", "1-0")]),
        (
            [{GPU: "3"}], [{GPU: "1"}, {GPU: "1"}], {"0-0": 1, "1-0": 1, "2-0": 1},
            [("app0", "1-0"), ("app1", "2-0"), ("init0", "1-0"), ("init0", "2-0"), ("init0", "0-0")],
        ),
        # One after the other they share the most that one of them needs.
        (
            [{GPU: "2"}, {GPU: "5"}, {GPU: "3"}], [{GPU: "1"}], {"1-0": 4, "3-0": 1},
            [("app0", "3-0"), ("init0", "3-0"), ("init0", "1-0"), ("init1", "3-0"), ("init1", "1-0"),
             ("init2", "3-0"), ("init2", "1-0")],
        ),
        # A sidecar keeps its devices; only earlier containers may reuse them.
        (
            [{GPU: "1"}, {GPU: "1", **SIDECAR}, {GPU: "2"}], [{"cpu": "1"}], {"1-0": 1, "2-0": 2},
            [("init1", "1-0"), ("init0", "1-0"), ("init2", "2-0")],
        ),
        ([], [{GPU: "0"}], {}, []),
    ],
)  # fmt: skip
def test_containers_have_devices_while_running(
    init: list[dict[str, Any]], regular: list[dict[str, Any]], requests: dict[str, int], mappings: list[tuple[str, str]]
) -> None:
    found = device_requests_of(pod_of(init, regular), {GPU: "gpu"})

    def short(name: str) -> str:
        return name.removeprefix("container-").replace("request-", "")

    assert {short(one.name): one.exactly.count for one in found.requests if one.exactly} == requests
    assert [(one.container_name, short(one.request_name)) for one in found.mappings] == mappings
    assert [one.name for one in found.requests] == sorted(one.name for one in found.requests)


def test_each_resource_has_requests_of_its_own_class() -> None:
    found = device_requests_of(pod_of([], [{GPU: "1", NIC: "2"}]), {GPU: "gpu", NIC: "nic"})
    told = [(one.name, one.exactly.device_class_name, one.exactly.count) for one in found.requests if one.exactly]
    assert told == [("container-0-request-0", "gpu", 1), ("container-0-request-1", "nic", 2)]
    assert [one.resource_name for one in found.mappings] == [GPU, NIC]


@pytest.mark.parametrize(
    ("name", "may"),
    [
        (GPU, True),
        ("deviceclass.resource.kubernetes.io/gpu", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("attachable-volumes-x.kubernetes.io/y", False),
    ],
)
def test_only_extended_resources_map_to_devices(name: str, may: bool) -> None:
    assert may_be_device_backed({name: 1}) is may
    assert not may_be_device_backed({name: 0})


def of_class(name: str, born: str, resource: str = GPU) -> DeviceClass:
    meta = {"name": name, "creationTimestamp": f"2026-01-{born}T00:00:00Z"}
    return from_plain({"metadata": meta, "spec": {"extendedResourceName": resource}}, DeviceClass)


def test_youngest_class_maps_a_resource() -> None:
    env = RandomCluster()
    env.add(of_class("old", "01"), of_class("b", "03"), of_class("a", "03"), of_class("other", "09", NIC))
    classes = ExtendedResourceCache.shared_by(env.around)  # type: ignore[arg-type]
    assert (classes[GPU], classes[NIC], classes["example.com/none"]) == ("a", "other", None)
    assert classes["deviceclass.resource.kubernetes.io/old"] == "old"
    assert classes["deviceclass.resource.kubernetes.io/none"] is None
    before = classes.version
    env.add(of_class("new", "04"))
    assert classes[GPU] == "new"
    assert classes.version > before


def test_node_without_the_resource_is_left_to_the_fit_plugin() -> None:
    env = RandomCluster()
    for name, room in (("none", {}), ("zero", {GPU: "0"}), ("few", {GPU: "1"}), ("many", {GPU: "4"})):
        status = {"allocatable": {"pods": "9", **room}}
        env.add_node(from_plain({"metadata": {"name": name}, "status": status}, Node))
    pod = pod_of([], [{GPU: "2"}])
    short = (f"Insufficient {GPU}",)
    fit = env.plugin(NodeResourcesFit)
    assert env.refusals(fit, pod) == {"none": short, "zero": short, "few": short}
    env.add(device_class(extendedResourceName=GPU))
    assert env.refusals(fit, pod) == {"few": short}
    devices = env.plugin(DynamicResources)
    env.add(slice_of([{"name": "a"}, {"name": "b"}], nodeName="zero"))
    assert env.refusals(devices, pod) == {"none": ("cannot allocate all claims",)}
