"""Changes are patched, or made by replacing where only that is allowed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.api.errors import Conflict, conflict, forbidden
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.shared.patch_or_update import PatchOrUpdate

MAPS = resource_of_class(ConfigMap)


class OnlyUpdates:
    """A client of somebody who may not patch, on a server with one config map."""

    def __init__(self, conflicts: int = 0) -> None:
        meta = ObjectMeta(name="a", namespace="n", uid="u", resource_version="5", annotations={"x": "1", "y": "2"})
        self.stored = ConfigMap(metadata=meta, data={"kept": "k", "old": "o"})
        self.calls: list[str] = []
        self._conflicts = conflicts

    async def patch(self, *_: Any, **__: Any) -> ConfigMap:
        self.calls.append("patch")
        raise forbidden("", "configmaps", "a", "not allowed to patch")

    async def get(self, *_: Any) -> ConfigMap:
        self.calls.append("get")
        return self.stored

    async def update(self, obj: ConfigMap, namespace: str, *, subresource: str) -> ConfigMap:
        self.calls.append("update")
        assert (namespace, subresource, obj.metadata.resource_version) == ("n", "", "5")
        if self._conflicts:
            self._conflicts -= 1
            raise conflict("", "configmaps", "a")
        self.stored = obj
        return obj


def write(client: OnlyUpdates, *patches: dict[str, Any]) -> ConfigMap:
    writer = PatchOrUpdate(client)  # type: ignore[arg-type]  # as much as it needs
    answers: list[ConfigMap] = [asyncio.run(writer.patch(MAPS, "a", one, "n")) for one in patches]
    return answers[-1]


def test_what_the_patch_says_is_changed_and_nothing_else() -> None:
    client = OnlyUpdates()
    patch = {
        "metadata": {"uid": "u", "resourceVersion": "5", "annotations": {"x": None}},
        "data": {"old": None, "n": "m"},
    }
    made = write(client, patch)
    assert dict(made.data) == {"kept": "k", "n": "m"}
    assert dict(made.metadata.annotations) == {"y": "2"}


def test_a_refusal_is_remembered() -> None:
    client = OnlyUpdates()
    write(client, {"data": {"a": "b"}}, {"data": {"a": "c"}})
    assert client.calls == ["patch", "get", "update", "get", "update"]


@pytest.mark.parametrize("demand", [{"uid": "other"}, {"resourceVersion": "4"}])
def test_a_demand_that_is_not_met_is_a_conflict(demand: dict[str, str]) -> None:
    client = OnlyUpdates()
    with pytest.raises(Conflict):
        write(client, {"metadata": demand, "data": {"a": "b"}})
    assert "update" not in client.calls


def test_somebody_elses_write_in_between_is_taken_in_unless_a_version_is_demanded() -> None:
    assert dict(write(OnlyUpdates(conflicts=1), {"data": {"a": "b"}}).data)["a"] == "b"
    with pytest.raises(Conflict):
        write(OnlyUpdates(conflicts=1), {"metadata": {"resourceVersion": "5"}, "data": {"a": "b"}})
