"""Which pod is where: those that the API server says have a node, and those that are about to."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.scheduler.cache.cluster import ClusterState
from kubeloop.scheduler.cache.pod_info import PodInfo, Templates, takes_the_same


class Place(NamedTuple):
    """A pod on a node; assumed until the API server says so too."""

    info: PodInfo
    node: str
    assumed: bool


class Placements:
    """Keeps the cluster's pods true. A decision is seen at once by the next; reads own writes."""

    def __init__(self, cluster: ClusterState, templates: Templates) -> None:
        self._cluster = cluster
        self._templates = templates
        self._places: dict[str, Place] = {}  # by uid

    def __len__(self) -> int:
        return len(self._places)

    @property
    def assumed(self) -> int:
        return sum(one.assumed for one in self._places.values())

    def is_assumed(self, uid: str) -> bool:
        place = self._places.get(uid)
        return place is not None and place.assumed

    def get(self, uid: str) -> Place | None:
        return self._places.get(uid)

    def assume(self, info: PodInfo, node: str) -> None:
        self._places[info.uid] = Place(info, node, True)
        self._cluster.add_pod(info, node)

    def forget(self, uid: str) -> None:
        """What was assumed has not come true."""
        place = self._places.get(uid)
        if place is not None and place.assumed:
            self._drop(uid, place)

    def put(self, pod: Pod) -> None:
        """The API server says that the pod has this node, and is as this."""
        uid, node = pod.metadata.uid, pod.spec.node_name
        place = self._places.get(uid)
        if place is not None:
            if place.node == node and takes_the_same(place.info.pod, pod):
                self._same_place(uid, place, pod)
                return
            self._drop(uid, place)
        info = self._templates.info(pod)
        self._places[uid] = Place(info, node, False)
        self._cluster.add_pod(info, node)

    def _same_place(self, uid: str, place: Place, pod: Pod) -> None:
        """Binding itself gives pods the labels of their node's zone: the most frequent of all changes."""
        info = place.info
        if info.pod.metadata.labels == pod.metadata.labels:
            info.pod = pod
        else:
            info = self._templates.relabelled(place.info, pod)
            self._cluster.relabel_pod(place.info, info, place.node)
        self._places[uid] = Place(info, place.node, False)

    def remove(self, uid: str) -> None:
        place = self._places.get(uid)
        if place is not None:
            self._drop(uid, place)

    def _drop(self, uid: str, place: Place) -> None:
        del self._places[uid]
        self._cluster.remove_pod(place.info, place.node)
