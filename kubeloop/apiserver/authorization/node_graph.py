# SPDX-License-Identifier: Apache-2.0
"""Graph of nodes and objects: those that a node's pods refer to, also through claims and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeloop.api.pods.references import ReferencedObject, references_of, secrets_of_volume
from kubeloop.apiserver.admission import Lookup
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.store import Record, StoreEvent

# Kinds whose objects name their node themselves.
_KINDS_WITH_NODE_NAME = {
    "volumeattachments": ("storage.k8s.io", "v1"),
    "resourceslices": ("resource.k8s.io", "v1"),
    "podcertificaterequests": ("certificates.k8s.io", "v1"),
}


class NodeGraph:
    """Pods of each node with their references, watched from the first query on.

    Invariant: a pod's key is in `_pods[node]` exactly while `_node_of[key]` is that node.
    """

    def __init__(self, registry: StorageRegistry, objects: Lookup) -> None:
        self._storage = registry.storage_named("", "v1", "pods")
        self._find = objects.get_object
        self._pods: dict[str, dict[str, frozenset[ReferencedObject]]] = {}
        self._node_of: dict[str, str] = {}
        self._following = False

    def has_pod(self, node: str, namespace: str, name: str) -> bool:
        """Return True if the pod is on the node."""
        self._subscribe_once()
        return self._storage.key(namespace, name) in self._pods.get(node, ())

    def is_related(self, node: str, plural: str, namespace: str, name: str) -> bool:
        """Return True if the node needs the object."""
        if plural in _KINDS_WITH_NODE_NAME:
            return self._is_assigned_to_node(node, plural, namespace, name)
        if plural == "persistentvolumes":
            volume = self._find("persistentvolumes", "", name)
            return volume is not None and self._is_claimed(node, volume)
        wanted = ReferencedObject(plural, namespace, name)
        return self._is_referenced(node, wanted) or (plural == "secrets" and self._is_needed_by_volume(node, wanted))

    def _is_referenced(self, node: str, wanted: ReferencedObject) -> bool:
        self._subscribe_once()
        return any(wanted in references for references in self._pods.get(node, {}).values())

    def _is_claimed(self, node: str, volume: Any) -> bool:
        claim = volume.spec.claim_ref
        return claim is not None and self._is_referenced(
            node, ReferencedObject("persistentvolumeclaims", claim.namespace, claim.name)
        )

    def _is_needed_by_volume(self, node: str, secret: ReferencedObject) -> bool:
        claims = {
            one
            for references in self._pods.get(node, {}).values()
            for one in references
            if one.plural == "persistentvolumeclaims"
        }
        for one in claims:
            claim = self._find("persistentvolumeclaims", one.namespace, one.name)
            if claim is None or not claim.spec.volume_name:
                continue
            volume = self._find("persistentvolumes", "", claim.spec.volume_name)
            if volume is not None and self._is_claimed(node, volume) and secret in secrets_of_volume(volume):
                return True
        return False

    def _is_assigned_to_node(self, node: str, plural: str, namespace: str, name: str) -> bool:
        found = self._find(plural, namespace, name, *_KINDS_WITH_NODE_NAME[plural])
        return found is not None and found.spec.node_name == node

    def _subscribe_once(self) -> None:
        if self._following:
            return
        self._following = True
        store, prefix = self._storage.store, self._storage.prefix("")
        state = store.range(prefix)
        for record in state.records:
            self._add(record)
        store.subscribe(prefix, state.revision, self._on_events)

    def _on_events(self, events: Sequence[StoreEvent]) -> None:
        for event in events:
            self._remove(event.key)
            if event.record is not None:
                self._add(event.record)

    def _add(self, record: Record) -> None:
        pod = self._storage.serializer.decode_record(record)
        if pod.spec.node_name:
            self._node_of[record.key] = pod.spec.node_name
            self._pods.setdefault(pod.spec.node_name, {})[record.key] = references_of(pod)

    def _remove(self, key: str) -> None:
        node = self._node_of.pop(key, None)
        if node is not None:
            del self._pods[node][key]
            if not self._pods[node]:
                del self._pods[node]
