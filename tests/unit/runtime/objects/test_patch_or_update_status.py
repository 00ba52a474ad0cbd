# SPDX-License-Identifier: Apache-2.0
"""Status is patched, or replaced where only that is allowed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from kubeloop.api.errors import Conflict, conflict, forbidden
from kubeloop.api.generated.apps_v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate

SETS = resource_of_class(ReplicaSet)
FAILURE = ReplicaSetCondition(type="ReplicaFailure", status="True")


class UpdateOnlyClient:
    """Client without patch permission, on a server with one replica set."""

    def __init__(self, conflicts: int = 0, patches: bool = False) -> None:
        status = ReplicaSetStatus(replicas=1, ready_replicas=1, conditions=(FAILURE,))
        self.stored = ReplicaSet(
            metadata=ObjectMeta(name="a", namespace="n", uid="u", resource_version="5"), status=status
        )
        self.calls: list[str] = []
        self._conflicts = conflicts
        self._patches = patches

    async def patch(self, *_: Any, **__: Any) -> ReplicaSet:
        self.calls.append("patch")
        if not self._patches:
            raise forbidden("apps", "replicasets", "a", "not allowed to patch")
        return self.stored

    async def get(self, *_: Any) -> ReplicaSet:
        self.calls.append("get")
        return self.stored

    async def update(self, obj: ReplicaSet, namespace: str, *, subresource: str) -> ReplicaSet:
        self.calls.append("update")
        assert (namespace, subresource, obj.metadata.resource_version) == ("n", "status", "5")
        if self._conflicts:
            self._conflicts -= 1
            raise conflict("apps", "replicasets", "a")
        self.stored = obj
        return obj


def write(client: UpdateOnlyClient, *patches: dict[str, Any]) -> Any:
    writer = PatchOrUpdate(client)  # type: ignore[arg-type]  # as much as it needs
    return [asyncio.run(writer.patch_status(SETS, client.stored, one)) for one in patches][-1]


def test_patch_permission_uses_patch() -> None:
    client = UpdateOnlyClient(patches=True)
    write(client, {"status": {"replicas": 2}})
    assert client.calls == ["patch"]


def test_update_permission_only_uses_update_and_is_remembered() -> None:
    client = UpdateOnlyClient()
    gone = {"conditions": [{"$patch": "delete", "type": "ReplicaFailure"}]}
    write(client, {"metadata": {"uid": "u"}, "status": {"replicas": 2, **gone}}, {"status": {"replicas": 3}})
    assert client.calls == ["patch", "get", "update", "get", "update"]
    assert client.stored.status == ReplicaSetStatus(replicas=3, ready_replicas=1)


def test_conflicting_update_is_retried_once() -> None:
    client = UpdateOnlyClient(conflicts=1)
    write(client, {"status": {"replicas": 2}})
    assert client.stored.status.replicas == 2
    with pytest.raises(Conflict):
        write(UpdateOnlyClient(conflicts=2), {"status": {"replicas": 2}})


def test_update_of_a_required_version_is_not_retried() -> None:
    client = UpdateOnlyClient(conflicts=1)
    with pytest.raises(Conflict):
        write(client, {"metadata": {"resourceVersion": "5"}, "status": {"replicas": 2}})
    with pytest.raises(Conflict):
        write(client, {"metadata": {"resourceVersion": "4"}, "status": {"replicas": 2}})
    assert client.stored.status.replicas == 1


def test_recreated_object_is_not_written() -> None:
    client = UpdateOnlyClient()
    client.stored = replace(client.stored, metadata=replace(client.stored.metadata, uid="another"))
    with pytest.raises(Conflict):
        write(client, {"metadata": {"uid": "u"}, "status": {"replicas": 2}})
    assert "update" not in client.calls
