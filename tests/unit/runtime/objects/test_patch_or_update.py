# SPDX-License-Identifier: Apache-2.0
"""Changes are patched, or made by replacing where only that is allowed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.api.errors import Conflict, conflict, forbidden
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.requests import JSON_PATCH
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate

MAPS = resource_of_class(ConfigMap)


class UpdateOnlyClient:
    """Client without patch permission, on a server with one config map."""

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


def write(client: UpdateOnlyClient, *patches: dict[str, Any]) -> ConfigMap:
    writer = PatchOrUpdate(client)  # type: ignore[arg-type]  # as much as it needs
    answers: list[ConfigMap] = [asyncio.run(writer.patch(MAPS, "a", one, "n")) for one in patches]
    return answers[-1]


def test_update_changes_exactly_what_the_patch_says() -> None:
    client = UpdateOnlyClient()
    patch = {
        "metadata": {"uid": "u", "resourceVersion": "5", "annotations": {"x": None}},
        "data": {"old": None, "n": "m"},
    }
    made = write(client, patch)
    assert dict(made.data) == {"kept": "k", "n": "m"}
    assert dict(made.metadata.annotations) == {"y": "2"}


def test_rejected_patch_verb_is_remembered() -> None:
    client = UpdateOnlyClient()
    write(client, {"data": {"a": "b"}}, {"data": {"a": "c"}})
    assert client.calls == ["patch", "get", "update", "get", "update"]


@pytest.mark.parametrize("demand", [{"uid": "other"}, {"resourceVersion": "4"}])
def test_failed_precondition_is_a_conflict(demand: dict[str, str]) -> None:
    client = UpdateOnlyClient()
    with pytest.raises(Conflict):
        write(client, {"metadata": demand, "data": {"a": "b"}})
    assert "update" not in client.calls


def test_concurrent_write_is_merged_unless_a_version_is_required() -> None:
    assert dict(write(UpdateOnlyClient(conflicts=1), {"data": {"a": "b"}}).data)["a"] == "b"
    with pytest.raises(Conflict):
        write(UpdateOnlyClient(conflicts=1), {"metadata": {"resourceVersion": "5"}, "data": {"a": "b"}})


def test_known_state_is_replaced_without_a_read_if_current() -> None:
    client = UpdateOnlyClient()
    writer, known = PatchOrUpdate(client), client.stored  # type: ignore[arg-type]  # as much as it needs
    made = asyncio.run(writer.patch_unchanged(MAPS, known, {"data": {"old": None}}))
    assert client.calls == ["patch", "update"]
    assert dict(made.data) == {"kept": "k"}
    client = UpdateOnlyClient(conflicts=1)
    with pytest.raises(Conflict):
        asyncio.run(PatchOrUpdate(client).patch_unchanged(MAPS, known, {}))  # type: ignore[arg-type]
    assert client.calls == ["patch", "update"]


def test_other_patch_types_cannot_become_an_update() -> None:
    with pytest.raises(ValueError, match="only a merge patch"):
        asyncio.run(PatchOrUpdate(UpdateOnlyClient()).patch(MAPS, "a", [], type=JSON_PATCH))  # type: ignore[arg-type]
