# SPDX-License-Identifier: Apache-2.0
"""Nominator: pods nominated to nodes; others of no higher priority leave them that room."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.scheduler.cache.pod_info import PodInfo


class Nominator:
    """Nominated pods by node."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, PodInfo]] = {}  # by node and uid
        self._node_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._node_of)

    def add_nominated_pod(self, info: PodInfo, node: str) -> None:
        """Nominate a pod to a node; "" removes its nomination."""
        self.delete_nominated_pod(info.uid)
        if node:
            self._nodes.setdefault(node, {})[info.uid] = info
            self._node_of[info.uid] = node

    def delete_nominated_pod(self, uid: str) -> None:
        """Remove the nomination of a pod."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            pods = self._nodes[node]
            del pods[uid]
            if not pods:
                del self._nodes[node]

    def nominated_node(self, uid: str) -> str:
        """Return the nominated node of a pod; "" if there is none."""
        return self._node_of.get(uid, "")

    def nominated_pods_for_node(self, node: str) -> Sequence[PodInfo]:
        """Return the pods nominated to a node."""
        return tuple(self._nodes.get(node, {}).values())

    def higher_priority_pods_by_node(self, pod: PodInfo) -> dict[str, list[PodInfo]]:
        """Return by node the other nominated pods of equal or higher priority."""
        found: dict[str, list[PodInfo]] = {}
        for node, pods in self._nodes.items():
            first = [one for one in pods.values() if one.uid != pod.uid and one.priority >= pod.priority]
            if first:
                found[node] = first
        return found
