# SPDX-License-Identifier: Apache-2.0
"""Pods by node: those assigned according to the API server, and those assumed after a decision."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.scheduler.cache.cluster import ClusterState
from kubeloop.scheduler.cache.pod_info import PodInfo, SignatureCache, has_same_resources


class PodPlacement(NamedTuple):
    """Pod on a node; assumed until the API server confirms the binding."""

    info: PodInfo
    node: str
    assumed: bool


class AssumptionListener(Protocol):
    """Receiver of the decisions for pods."""

    def handle_assumed(self, pod: Pod, node: str) -> None:
        """Handle a pod that was assumed on a node."""

    def handle_forgotten(self, pod: Pod) -> None:
        """Handle an assumed pod that was forgotten."""


class AssumedPods:
    """Tracks the assigned and assumed pods of the cluster state; the next attempt sees an assumed pod at once."""

    def __init__(
        self, cluster: ClusterState, templates: SignatureCache, listener: AssumptionListener | None = None
    ) -> None:
        self._cluster = cluster
        self._templates = templates
        self._listener = listener
        self._places: dict[str, PodPlacement] = {}  # by uid

    def __len__(self) -> int:
        return len(self._places)

    @property
    def assumed_count(self) -> int:
        """Number of assumed pods."""
        return sum(one.assumed for one in self._places.values())

    def is_assumed(self, uid: str) -> bool:
        """Return True if the pod is assumed and not confirmed."""
        place = self._places.get(uid)
        return place is not None and place.assumed

    def get(self, uid: str) -> PodPlacement | None:
        """Return the placement of a pod by uid, or None."""
        return self._places.get(uid)

    def assume_pod(self, info: PodInfo, node: str) -> None:
        """Add a pod to a node before the API server confirms it."""
        self._places[info.uid] = PodPlacement(info, node, True)
        self._cluster.add_pod(info, node)
        if self._listener is not None:
            self._listener.handle_assumed(info.pod, node)

    def forget_pod(self, uid: str) -> None:
        """Remove an assumed pod whose binding failed."""
        place = self._places.get(uid)
        if place is not None and place.assumed:
            self._drop(uid, place)
            if self._listener is not None:
                self._listener.handle_forgotten(place.info.pod)

    def add_pod(self, pod: Pod) -> None:
        """Add or update a pod that is assigned according to the API server."""
        uid, node = pod.metadata.uid, pod.spec.node_name
        place = self._places.get(uid)
        if place is not None:
            if place.node == node and has_same_resources(place.info.pod, pod):
                self._same_place(uid, place, pod)
                return
            self._drop(uid, place)
        info = self._templates.pod_info(pod)
        self._places[uid] = PodPlacement(info, node, False)
        self._cluster.add_pod(info, node)

    def _same_place(self, uid: str, place: PodPlacement, pod: Pod) -> None:
        """Update a pod that uses the same resources on the same node.

        The most frequent case: binding itself copies the topology labels of the node to the pod.
        """
        info = place.info
        if info.pod.metadata.labels == pod.metadata.labels:
            info.replace_pod(pod)
        else:
            info = self._templates.pod_info_relabelled(place.info, pod)
            self._cluster.relabel_pod(place.info, info, place.node)
        self._places[uid] = PodPlacement(info, place.node, False)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod."""
        place = self._places.get(uid)
        if place is not None:
            self._drop(uid, place)

    def _drop(self, uid: str, place: PodPlacement) -> None:
        del self._places[uid]
        self._cluster.remove_pod(place.info, place.node)
