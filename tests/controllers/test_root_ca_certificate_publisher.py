# SPDX-License-Identifier: Apache-2.0
"""The config map by which pods recognize the API server."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.controllers.root_ca_certificate_publisher import (
    CONFIG_MAP,
    DESCRIBED_BY,
    DESCRIPTION,
    desired_config_map,
    wire,
)
from tests.controllers.controller_harness import ROOT_CA, ControllerHarness, bench

RIGHT = {"ca.crt": ROOT_CA}


def test_every_namespace_gets_the_root_ca() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        await plane.namespace("before")
        await plane.start(wire)
        await plane.namespace("later")
        await plane.settle()
        for namespace in ("before", "later"):
            found = await plane.client.get(ConfigMap, CONFIG_MAP, namespace)
            assert found.data == RIGHT
            assert found.metadata.annotations == {DESCRIBED_BY: DESCRIPTION}

    bench(scenario)


def test_deleted_or_modified_config_map_is_restored() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        await plane.start(wire)
        await plane.namespace("a")
        await plane.settle()
        await plane.client.delete(ConfigMap, CONFIG_MAP, "a")
        await plane.settle()
        assert (await plane.client.get(ConfigMap, CONFIG_MAP, "a")).data == RIGHT
        change = {"data": {"ca.crt": "forged", "more": "x"}, "metadata": {"labels": {"mine": "yes"}}}
        await plane.client.patch(ConfigMap, CONFIG_MAP, change, "a")
        await plane.settle()
        found = await plane.client.get(ConfigMap, CONFIG_MAP, "a")
        assert found.data == RIGHT
        assert found.metadata.labels == {"mine": "yes"}

    bench(scenario)


def test_correct_config_map_is_unchanged() -> None:
    meta = ObjectMeta(name=CONFIG_MAP, namespace="a", annotations={DESCRIBED_BY: "in somebody else's words"})
    found = ConfigMap(metadata=meta, data=RIGHT)
    assert desired_config_map(found, "a", ROOT_CA) is found
