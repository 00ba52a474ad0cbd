# SPDX-License-Identifier: Apache-2.0
"""Recycles a volume by a pod that wipes it, and makes it available again after success."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from kubeloop.api.errors import AlreadyExists, NotFound
from kubeloop.api.generated.core_v1 import (
    Container,
    HostPathVolumeSource,
    NFSVolumeSource,
    PersistentVolume,
    Pod,
    PodSpec,
    Volume,
    VolumeMount,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta, Preconditions
from kubeloop.api.pods.volumes import PODS_BY_CLAIM, capacity_of_volume, has_released_volumes
from kubeloop.client import Client
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.persistentvolume_binder.binding_writer import BindingWriter
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer

NAMESPACE: Final = "default"
PREFIX: Final = "recycler-for-"
FAILED: Final = "VolumeFailedRecycle"
_IMAGE: Final = "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6"
_WIPE: Final = 'test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1'
_GIBI: Final = 1024**3


class RecyclerTimeout(NamedTuple):
    """Time limit for wiping, in seconds: a minimum, and an increment for each Gi."""

    minimum: int
    per_gibi: int


class VolumeRecycler:
    """Recycles released volumes."""

    def __init__(
        self,
        client: Client,
        writer: BindingWriter,
        caches: tuple[Informer, AssumeCache],  # pods, claims
        config: ManagerConfig,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._writer = writer
        self._pods, self._claims = caches
        self._config = config
        self._recorder = recorder
        self._begun: dict[str, str] = {}  # UIDs of the pods created here, by volume

    async def recycle(self, volume: PersistentVolume) -> bool:
        """Advance by one step; changes of the recycler pod enqueue the volume again."""
        if users := self._users(volume):
            self._recorder.event(volume, "Normal", FAILED, f"Volume is used by pods: {','.join(users)}")
            return True
        wiper = recycler_pod(volume, self._config)
        if wiper is None:
            await self._writer.mark_volume_failed(volume, FAILED, "No recycler plugin found for the volume!")
            return True
        pod: Pod | None = self._pods.get(NAMESPACE, wiper.metadata.name)
        if pod is None:
            return await self._begin(volume, wiper)
        if pod.metadata.uid != self._begun.get(volume.metadata.name):
            # Left by another process, or by a user who wants to prevent the wiping.
            await self._end(volume, pod)
            return await self._fail(volume, "old recycler pod found, will retry later")
        return await self._look(volume, pod)

    async def _begin(self, volume: PersistentVolume, wiper: Pod) -> bool:
        name = volume.metadata.name
        if name in self._begun:
            if not await self._is_gone(wiper.metadata.name):
                return True  # the cache will show it
            del self._begun[name]
            return await self._fail(volume, "failed to recycle volume: recycler pod was deleted")
        try:
            made = await self._client.create(wiper)
        except AlreadyExists:
            return True
        self._begun[name] = made.metadata.uid
        return True

    async def _look(self, volume: PersistentVolume, pod: Pod) -> bool:
        if pod.status.phase == "Succeeded":
            await self._end(volume, pod)
            self._recorder.event(volume, "Normal", "VolumeRecycled", "Volume recycled")
            await self._writer.unbind(volume)
            return False
        if pod.status.phase == "Failed":
            await self._end(volume, pod)
            why = pod.status.message or "pod failed, pod.Status.Message unknown"
            return await self._fail(volume, f"failed to recycle volume: {why}")
        return True

    async def _end(self, volume: PersistentVolume, pod: Pod) -> None:
        this_one = Preconditions(uid=pod.metadata.uid)
        with suppress(NotFound):
            await self._client.delete(Pod, pod.metadata.name, NAMESPACE, preconditions=this_one)
        self._begun.pop(volume.metadata.name, None)

    async def _fail(self, volume: PersistentVolume, why: str) -> bool:
        await self._writer.mark_volume_failed(volume, FAILED, f"Recycle failed: {why}")
        return True

    async def _is_gone(self, name: str) -> bool:
        try:
            await self._client.get(Pod, name, NAMESPACE)
        except NotFound:
            return True
        return False

    def _users(self, volume: PersistentVolume) -> list[str]:
        """Return the pods that still use the volume, unless they use a new claim of the same name."""
        reference = volume.spec.claim_ref
        if reference is None or self._claims.get(reference.namespace, reference.name) is not None:
            return []
        pods = self._pods.by_index(PODS_BY_CLAIM, f"{reference.namespace}/{reference.name}")
        return sorted(f"{one.metadata.namespace}/{one.metadata.name}" for one in pods if not has_released_volumes(one))


def recycler_pod(volume: PersistentVolume, config: ManagerConfig) -> Pod | None:
    """Build the recycler pod; None for volume types that can't be recycled."""
    spec = volume.spec
    if spec.host_path is not None:
        source = Volume(name="vol", host_path=HostPathVolumeSource(path=spec.host_path.path))
        patience = RecyclerTimeout(
            config.pv_recycler_minimum_timeout_hostpath, config.pv_recycler_timeout_increment_hostpath
        )
    elif spec.nfs is not None:
        source = Volume(name="vol", nfs=NFSVolumeSource(server=spec.nfs.server, path=spec.nfs.path))
        patience = RecyclerTimeout(config.pv_recycler_minimum_timeout_nfs, config.pv_recycler_increment_timeout_nfs)
    else:
        return None
    container = Container(
        name="pv-recycler",
        image=_IMAGE,
        command=("/bin/sh",),
        args=("-c", _WIPE),
        volume_mounts=(VolumeMount(name="vol", mount_path="/scrub"),),
    )
    return Pod(
        metadata=ObjectMeta(name=PREFIX + volume.metadata.name, namespace=NAMESPACE),
        spec=PodSpec(
            restart_policy="Never",
            active_deadline_seconds=recycle_timeout(volume, patience),
            volumes=(source,),
            containers=(container,),
        ),
    )


def recycle_timeout(volume: PersistentVolume, patience: RecyclerTimeout) -> int:
    """Return the time limit for wiping."""
    return max(patience.minimum, capacity_of_volume(volume).value() // _GIBI * patience.per_gibi)
