# SPDX-License-Identifier: Apache-2.0
"""Maps pod and node events to DaemonSets, and records pods in the expectations."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import DaemonSet
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.controllers.daemonset.nodes import Eligibility, target_node_of
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.expectations import Expectations

DAEMON_NODE: Final = "daemon node"


def daemon_node_of(pod: Pod) -> tuple[str, ...]:
    """Index the pods of daemon sets by their target node."""
    manager = controller_of(pod.metadata.owner_references)
    if manager is None or manager.kind != "DaemonSet":
        return ()
    node = target_node_of(pod)
    return (node,) if node else ()


class ExpectationsHandler:
    """Pod event handler that updates expectations by the owner's UID, so that a recreated set starts afresh."""

    def __init__(self, expectations: Expectations[str]) -> None:
        self._expectations = expectations

    def on_add(self, pod: Pod) -> None:
        """Record a created pod."""
        if pod.metadata.deletion_timestamp is not None:  # first seen while terminating: no creation
            self.on_delete(pod)
        elif (manager := controller_of(pod.metadata.owner_references)) is not None:
            self._expectations.creation_observed(manager.uid)

    def on_update(self, old: Pod, new: Pod) -> None:
        """Record a pod whose deletion has begun."""
        if new.metadata.deletion_timestamp is not None:
            self.on_delete(new)

    def on_delete(self, pod: Pod) -> None:
        """Record a deleted pod."""
        manager = controller_of(pod.metadata.owner_references)
        if manager is not None:
            self._expectations.deletion_observed(manager.uid, pod.metadata.uid)


class NodeEventMapper:
    """Maps a node's change to the sets that it affects, not to all sets, since there are many nodes."""

    def __init__(self, daemon_sets: Informer, pods: Informer, nodes: Informer) -> None:
        pods.add_indexer(DAEMON_NODE, daemon_node_of)
        self._daemon_sets = daemon_sets
        self._pods = pods
        self._nodes = nodes

    def keys_of(self, node: Node) -> list[ObjectKey]:
        """Return the sets that lack a pod on the node, have a misplaced one, or count misscheduled ones.

        If the node is gone, these are all sets that had or needed a pod there.
        """
        there = {
            manager.uid
            for pod in self._pods.by_index(DAEMON_NODE, node.metadata.name)
            if (manager := controller_of(pod.metadata.owner_references)) is not None
        }
        is_gone = self._nodes.get("", node.metadata.name) is None
        sets = self._daemon_sets.list()
        return [key_of(one) for one in sets if is_affected_by_node(one, node, one.metadata.uid in there, is_gone)]


def is_affected_by_node(daemon_set: DaemonSet, node: Node, has_pod: bool, is_gone: bool) -> bool:
    """Return True if a change of the node affects the set."""
    if not has_pod or not is_gone:
        is_wanted = Eligibility.of(daemon_set).evaluate(node).should_run
        return is_wanted is not has_pod or (has_pod and daemon_set.status.number_misscheduled > 0)
    return True


def affects_placement(old: Any, new: Any) -> bool:
    """Return True if labels or taints have changed, or the node is new or gone."""
    if old is None or new is None:
        return True
    return bool(old.metadata.labels != new.metadata.labels or old.spec.taints != new.spec.taints)


def is_status_only(old: Any, new: Any) -> bool:
    """Return True if only the status and irrelevant metadata of a set have changed."""
    if old is None or new is None or old.spec != new.spec:
        return False
    if old.status.collision_count != new.status.collision_count:  # written by the controller to trigger another sync
        return False
    return bool(_stable_metadata(old.metadata) == _stable_metadata(new.metadata))


def is_not_status_only(old: Any, new: Any) -> bool:
    """Return True if more than the status of a set has changed."""
    return not is_status_only(old, new)


def _stable_metadata(meta: ObjectMeta) -> ObjectMeta:
    """Return the metadata without the fields that every write changes."""
    return replace(meta, resource_version="", managed_fields=())
