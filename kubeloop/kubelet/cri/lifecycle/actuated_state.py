# SPDX-License-Identifier: Apache-2.0
"""Resources that containers and pods were last given, in the checkpoint `actuated_pods_state`."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Container, Pod, ResourceRequirements
from kubeloop.kubelet.checkpoints.store import CheckpointStore, CorruptCheckpoint, decode_data, encode_data

CHECKPOINT = "actuated_pods_state"


class PodResourceInfo(msgspec.Struct, frozen=True):
    """Resources of one pod: of its containers by name, and of the pod as a whole."""

    containers: dict[str, ResourceRequirements]
    pod_level: ResourceRequirements | None = None


class ActuatedState:
    """Resources of the pods of one node, by UID. `wait_durable` writes the changes; waiters share a write."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._pods: dict[str, PodResourceInfo] = {}
        self._changes, self._written = 0, 0  # numbers of changes, and of those that the file has
        self._lock = asyncio.Lock()
        self._writer = ThreadPoolExecutor(max_workers=1)  # one thread: writes keep their order

    def restore(self) -> None:
        """Read the checkpoint. Raises `CorruptCheckpoint`."""
        content = self._store.read(CHECKPOINT)
        if content is None:
            return
        try:
            entries = decode_data(content).get("entries") or {}
            self._pods = {uid: _decode(entry) for uid, entry in entries.items()}
        except (CorruptCheckpoint, msgspec.MsgspecError, AttributeError, TypeError) as error:
            raise CorruptCheckpoint(
                f"could not restore state from checkpoint: {error}, please drain this node and delete pod resource "
                f'information checkpoint file "{self._store.path(CHECKPOINT)}" before restarting Kubelet'
            ) from None

    def get(self, uid: str) -> PodResourceInfo | None:
        """Return the resources of a pod, or None."""
        return self._pods.get(uid)

    def set_container(self, pod: Pod, container: Container) -> None:
        """Set the resources of a container, and of a pod that is new."""
        uid = pod.metadata.uid
        before = self._pods.get(uid)
        pod_level = pod.spec.resources if before is None else before.pod_level
        containers = {} if before is None else before.containers
        self._put(uid, PodResourceInfo({**containers, container.name: container.resources}, pod_level))

    def set_pod_level(self, pod: Pod) -> None:
        """Set the resources of a pod as a whole."""
        before = self._pods.get(pod.metadata.uid) or PodResourceInfo({})
        self._put(pod.metadata.uid, msgspec.structs.replace(before, pod_level=pod.spec.resources))

    def remove_pod(self, uid: str) -> None:
        """Forget a pod; the file is written with the next change."""
        self._pods.pop(uid, None)

    async def wait_durable(self) -> None:
        """Wait until the changes made so far are on the disk. Raises `OSError`."""
        wanted, loop = self._changes, asyncio.get_running_loop()
        async with self._lock:
            if self._written >= wanted:
                return
            included = self._changes
            content = encode_data({"entries": {uid: _encode(one) for uid, one in self._pods.items()}})
            await loop.run_in_executor(self._writer, self._store.write, CHECKPOINT, content)
            self._written = included

    def _put(self, uid: str, info: PodResourceInfo) -> None:
        if self._pods.get(uid) != info:
            self._pods[uid] = info
            self._changes += 1


def _encode(info: PodResourceInfo) -> dict[str, Any]:
    containers = {name: codec.to_plain(one) for name, one in info.containers.items()}
    pod_level = None if info.pod_level is None else codec.to_plain(info.pod_level)
    return {"ContainerResources": containers, "PodLevelResources": pod_level, "EmptyDirVolumeLimits": None}


def _decode(entry: dict[str, Any]) -> PodResourceInfo:
    containers = entry.get("ContainerResources") or {}
    pod_level = entry.get("PodLevelResources")
    return PodResourceInfo(
        {name: codec.from_plain(one, ResourceRequirements) for name, one in containers.items()},
        None if pod_level is None else codec.from_plain(pod_level, ResourceRequirements),
    )
