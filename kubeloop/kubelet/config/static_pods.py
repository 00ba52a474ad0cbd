# SPDX-License-Identifier: Apache-2.0
"""Keeps a mirror pod in the API for each static pod manifest of a folder and of a URL, on each node.

Watches: pods, nodes.
Owns: mirror pods.
Writes: creates a mirror pod for each manifest on each node; deletes those whose manifest is gone or has changed.
Wakes itself: every twenty seconds (`fileCheckFrequency`), to read the folder.
Differs from upstream: the mirror pod itself is run, so that deleting it restarts its containers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from hashlib import md5
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from kubeloop.api import codec
from kubeloop.api.errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound
from kubeloop.api.generated.core_v1 import Node, Pod, PodStatus, Toleration
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference, Preconditions
from kubeloop.api.scalars.times import format_micro_time
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.eviction.eviction_rank import MIRROR_POD_ANNOTATION
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.runtime.controller import Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of

FILE_CHECK_SECONDS = 20.0
ALL_STATIC_PODS = ObjectKey("", "static pods")  # the single key: all static pods are reconciled together
BY_MIRROR = "mirror"
HTTP = "http"  # kind of source
HASH, SEEN, SOURCE = "kubernetes.io/config.hash", "kubernetes.io/config.seen", "kubernetes.io/config.source"

log = logging.getLogger(__name__)


class RemotePods(Protocol):
    """Pods of a URL, which is read in the background."""

    @property
    def location(self) -> str:
        """URL of the pods."""

    @property
    def pods(self) -> list[Pod] | None:
        """Pods as last read; None before the first time."""


class StaticPodSources(NamedTuple):
    """Sources of static pods: a folder or file that is read in an interval of seconds, and a URL."""

    folder: Path | None = None
    seconds: float = FILE_CHECK_SECONDS
    remote: RemotePods | None = None


class StaticPod(NamedTuple):
    """Manifest with its kind of source: file or http, which only has a location if it is a URL."""

    manifest: Pod
    source: str = "file"
    location: str = ""


class StaticPodController:
    """Reconciles mirror pods with the manifests of all sources."""

    def __init__(
        self,
        client: Client,
        pods: Informer,
        served_nodes: ServedNodes,
        sources: StaticPodSources,
        clock: Clock,
    ) -> None:
        self._client = client
        self._pods = pods
        self._served_nodes = served_nodes
        self._sources = sources
        self._clock = clock
        pods.add_indexer(BY_MIRROR, index_mirror_pods)

    async def reconcile(self, _: ObjectKey) -> Result | None:
        """Create and delete mirror pods."""
        wanted = self._desired_mirror_pods(self._static_pods())
        there: dict[ObjectKey, Pod] = {key_of(pod): pod for pod in self._pods.by_index(BY_MIRROR, "true")}
        for key, pod in there.items():
            new = wanted.get(key)
            is_ours = self._served_nodes.get_reachable(pod.spec.node_name) is not None
            if (
                is_ours
                and not self._is_unread(pod)
                and (
                    new is None or new.metadata.annotations[HASH] != pod.metadata.annotations.get(MIRROR_POD_ANNOTATION)
                )
            ):
                await self._delete(pod)
        for key, pod in wanted.items():
            if key not in there:
                await self._create(pod)
        return Result(requeue_after=self._sources.seconds)

    def _static_pods(self) -> list[StaticPod]:
        folder, remote = self._sources.folder, self._sources.remote
        found = [StaticPod(one) for one in read_manifests(folder)] if folder is not None else []
        known = remote.pods if remote is not None else None
        if remote is not None and known is not None:
            found += [StaticPod(one, HTTP, remote.location) for one in known]
        return found

    def _is_unread(self, pod: Pod) -> bool:
        """Return True for a mirror pod of a URL that has not been read since the start."""
        remote = self._sources.remote
        return remote is not None and remote.pods is None and pod.metadata.annotations.get(SOURCE) == HTTP

    def _desired_mirror_pods(self, static: Iterable[StaticPod]) -> dict[ObjectKey, Pod]:
        nodes = [node for node in self._served_nodes if not self._served_nodes.state_of(node)]
        seen = format_micro_time(self._clock.now())
        mirrors = (make_mirror_pod(one, node, seen) for one in static for node in nodes)
        found: dict[ObjectKey, Pod] = {}
        for pod in mirrors:
            found.setdefault(key_of(pod), pod)  # of pods with one name, that of a file
        return found

    async def _create(self, pod: Pod) -> None:
        try:
            await self._client.create(pod)
        except AlreadyExists:  # the previous pod is not deleted yet
            log.debug("another pod has the name of static pod %s", key_of(pod))
        except (BadRequest, Forbidden, Invalid) as error:  # other static pods are not affected
            log.error("Failed creating a mirror pod for static pod %s: %s", key_of(pod), error)

    async def _delete(self, pod: Pod) -> None:
        meta = pod.metadata
        try:
            uid = Preconditions(uid=meta.uid)
            await self._client.delete(Pod, meta.name, meta.namespace, grace_seconds=0, preconditions=uid)
        except NotFound:
            return


def make_mirror_pod(static: StaticPod, node: Node, seen: str) -> Pod:
    """Return the mirror pod of a manifest on a node; those of files tolerate all taints that evict."""
    manifest, source, location = static
    meta, name = manifest.metadata, node.metadata.name
    place = f"{name}{location}".encode()
    digest = md5(codec.encode(manifest) + place, usedforsecurity=False).hexdigest()
    owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid, controller=True)
    annotations = {**meta.annotations, HASH: digest, MIRROR_POD_ANNOTATION: digest, SEEN: seen, SOURCE: source}
    stays = (Toleration(operator="Exists", effect="NoExecute"),) if source != HTTP else ()
    return Pod(
        metadata=ObjectMeta(
            name=f"{meta.name}-{name}",
            namespace=meta.namespace or "default",
            labels=meta.labels,
            annotations=annotations,
            owner_references=(owner,),
        ),
        spec=msgspec.structs.replace(manifest.spec, node_name=name, tolerations=(*manifest.spec.tolerations, *stays)),
        status=PodStatus(),
    )


def index_mirror_pods(pod: Pod) -> tuple[str, ...]:
    """Return the index value of mirror pods; index function."""
    return ("true",) if MIRROR_POD_ANNOTATION in pod.metadata.annotations else ()


def read_manifests(folder: Path) -> list[Pod]:
    """Return the pods of a folder's files, or of one file; a file that cannot be read is logged and skipped."""
    import yaml  # slow to import, so it is imported only when needed

    pods = []
    files = sorted(folder.iterdir()) if folder.is_dir() else [folder] if folder.is_file() else []
    for file in files:
        if file.name.startswith(".") or not file.is_file():
            continue
        try:
            pods.append(parse_manifest(yaml.safe_load(file.read_text())))
        except (OSError, ValueError, yaml.YAMLError, msgspec.MsgspecError) as error:
            log.error("static pod %s: %s", file, error)
    return pods


def parse_manifest(document: Any) -> Pod:
    """Return the pod of a parsed manifest. Raises `ValueError`."""
    if not isinstance(document, Mapping) or document.get("kind") != "Pod":
        raise ValueError("it contains no Pod")
    pod = codec.from_plain(document, Pod)
    if not pod.metadata.name or not pod.spec.containers:
        raise ValueError("a pod needs a name and containers")
    return pod
