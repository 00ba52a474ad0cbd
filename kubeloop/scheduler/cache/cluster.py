# SPDX-License-Identifier: Apache-2.0
"""Cluster state: all nodes as arrays with one row per node, and their pods; updated incrementally, read by plugins.

Rows are reused after their node is deleted; `in_use` marks the others. Every change of a row is appended to a
log, so that caches of results by row can find the rows to recompute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Node, Taint
from kubeloop.scheduler.cache import resources
from kubeloop.scheduler.cache.counts import RowCounts
from kubeloop.scheduler.cache.images import ImageStates
from kubeloop.scheduler.cache.labels import NodeLabels
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.cache.port_use import HostPortInfo
from kubeloop.scheduler.cache.selector_counts import SelectorCounts

Rows = slice | NDArray[np.intp]
Numbers = NDArray[np.int64]

ALL = slice(None)
NAME_FIELD = "metadata.name"  # treated like a label; no real node label can collide with this use
_FIRST_SIZE = 16
_LOG_LIMIT = 65_536


class ClusterState:
    """Nodes with their allocatable and requested resources, labels, taints and pods."""

    def __init__(self) -> None:
        self.size = _FIRST_SIZE
        self.in_use: NDArray[np.bool_] = np.zeros(self.size, bool)
        self.unschedulable: NDArray[np.bool_] = np.zeros(self.size, bool)
        self.taints: NDArray[np.int32] = np.zeros(self.size, np.int32)  # index into `taint_sets`
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.pod_count: Numbers = np.zeros(self.size, np.int64)
        self.allowed_pod_number: Numbers = np.zeros(self.size, np.int64)
        self.allocatable: dict[str, Numbers] = {}
        self.requested: dict[str, Numbers] = {}
        self.nonzero_requested: dict[str, Numbers] = {}  # non-zero requests of cpu and memory, as for scoring
        self.labels = NodeLabels(self.size)
        self.names = NodeLabels(self.size)
        self.ports = HostPortInfo(self.size)
        self.images = ImageStates(self.size)
        self.selector_counts = SelectorCounts(self.size)
        self.terms = RowCounts(self.size)  # number of pods with an affinity term, by node
        self.claims = RowCounts(self.size)  # number of pods using a volume claim, by node
        self.nodes: dict[int, Node] = {}
        self.pods: dict[int, dict[str, PodInfo]] = {}  # by row and uid
        self.row_set_version = 0  # incremented when rows are added or removed
        self.node_version = 0  # number of changes of node objects
        self._rows: dict[str, int] = {}
        self._free = list(range(self.size - 1, -1, -1))
        self._pods_without_node: dict[str, dict[str, PodInfo]] = {}  # pods whose node is not known (yet, or any more)
        self._taint_numbers: dict[tuple[Taint, ...], int] = {(): 0}
        self._log: list[int] = []
        self._log_start = 0

    # Nodes.

    def __len__(self) -> int:
        return len(self._rows)

    def row_of(self, name: str) -> int | None:
        """Return the row of a node, or None."""
        return self._rows.get(name)

    def name_of(self, row: int) -> str:
        """Return the node name of a row."""
        return self.nodes[row].metadata.name

    def rows_in_use(self) -> NDArray[np.intp]:
        """Return the rows in use."""
        return np.flatnonzero(self.in_use)

    def set_node(self, node: Node) -> None:
        """Add or update a node."""
        name = node.metadata.name
        row = self._rows.get(name)
        is_new = row is None
        if row is None:
            row = self._rows[name] = self._take_row()
            self.in_use[row] = True
            self.names.set(row, {NAME_FIELD: name})
            self.pods[row] = {}
        old = self.nodes.get(row)
        self.nodes[row] = node
        self._fill(row, old, node)
        self.node_version += 1
        self._log_change(row)
        if is_new:
            self.row_set_version += 1
            for info in self._pods_without_node.pop(name, {}).values():
                self._add_to_row(row, info)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods are kept in case it comes back."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        left = self.pods[row]
        for info in tuple(left.values()):
            self._subtract_from_row(row, info)
        if infos := {info.uid: info for info in left.values()}:
            self._pods_without_node[name] = infos
        del self.pods[row]
        node = self.nodes.pop(row)
        self.in_use[row] = False
        self.unschedulable[row] = False
        self.taints[row] = 0
        self.allowed_pod_number[row] = 0
        for column in self.allocatable.values():
            column[row] = 0
        self.labels.clear(row)
        self.names.clear(row)
        self.images.update_row(row, node.status.images, ())
        self._free.append(row)
        self.row_set_version += 1
        self.node_version += 1
        self._log_change(row)

    def _fill(self, row: int, old: Node | None, node: Node) -> None:
        self.unschedulable[row] = node.spec.unschedulable
        self.taints[row] = self._taint_number(node.spec.taints)
        have = resources.to_amounts(node.status.allocatable)
        self.allowed_pod_number[row] = have.pop(resources.PODS, 0)
        for name in (*self.allocatable, *(name for name in have if name not in self.allocatable)):
            self._column(self.allocatable, name)[row] = have.get(name, 0)
        if old is None or old.metadata.labels != node.metadata.labels:
            self.labels.set(row, node.metadata.labels)
        self.images.update_row(row, () if old is None else old.status.images, node.status.images)

    def _taint_number(self, taints: tuple[Taint, ...]) -> int:
        plain = tuple(Taint(key=one.key, value=one.value, effect=one.effect) for one in taints)
        number = self._taint_numbers.get(plain)
        if number is None:
            number = self._taint_numbers[plain] = len(self.taint_sets)
            self.taint_sets.append(plain)
        return number

    # Pods.

    def add_pod(self, info: PodInfo, node: str) -> None:
        """Add an assigned or assumed pod to a node."""
        row = self._rows.get(node)
        if row is None:
            self._pods_without_node.setdefault(node, {})[info.uid] = info
        else:
            self._add_to_row(row, info)

    def remove_pod(self, info: PodInfo, node: str) -> None:
        """Remove a pod from a node."""
        row = self._rows.get(node)
        if row is not None:
            if info.uid in self.pods[row]:
                self._subtract_from_row(row, info)
                del self.pods[row][info.uid]
        elif (left := self._pods_without_node.get(node)) is not None:
            left.pop(info.uid, None)
            if not left:
                del self._pods_without_node[node]

    def relabel_pod(self, old: PodInfo, new: PodInfo, node: str) -> None:
        """Replace a pod whose labels, but not resources, have changed."""
        row = self._rows.get(node)
        if row is None:
            self._pods_without_node.setdefault(node, {})[new.uid] = new
            return
        self.pods[row][new.uid] = new
        self.selector_counts.add(row, old, -1)
        self.selector_counts.add(row, new, 1)
        self._log_change(row)

    def _add_to_row(self, row: int, info: PodInfo) -> None:
        self.pods[row][info.uid] = info
        self._count(row, info, 1)

    def _subtract_from_row(self, row: int, info: PodInfo) -> None:
        self._count(row, self.pods[row][info.uid], -1)

    def _count(self, row: int, info: PodInfo, sign: int) -> None:
        template = info.signature
        self.pod_count[row] += sign
        for name, amount in info.requests.items():
            self._column(self.requested, name)[row] += sign * amount
        for name, amount in template.nonzero_cpu_memory:
            self._column(self.nonzero_requested, name)[row] += sign * amount
        if template.host_ports:
            self.ports.add(row, template.host_ports, sign)
        self.selector_counts.add(row, info, sign)
        for term in template.pod_affinity_terms:
            self.terms.add(term, row, sign)
        for claim in template.claims:
            self.claims.add(claim, row, sign)
        self._log_change(row)

    # Rows.

    def resource_column(self, columns: dict[str, Numbers], name: str) -> Numbers:
        """Return the column of a resource; zeros if no node or pod has it."""
        return self._column(columns, name)

    def _column(self, columns: dict[str, Numbers], name: str) -> Numbers:
        found = columns.get(name)
        if found is None:
            found = columns[name] = np.zeros(self.size, np.int64)
        return found

    def _take_row(self) -> int:
        if not self._free:
            self._grow()
        return self._free.pop()

    def _grow(self) -> None:
        old, self.size = self.size, self.size * 2
        self._free = list(range(self.size - 1, old - 1, -1))
        self.in_use = _grown(self.in_use, self.size)
        self.unschedulable = _grown(self.unschedulable, self.size)
        self.taints = _grown(self.taints, self.size)
        self.pod_count = _grown(self.pod_count, self.size)
        self.allowed_pod_number = _grown(self.allowed_pod_number, self.size)
        for columns in (self.allocatable, self.requested, self.nonzero_requested):
            for name, column in columns.items():
                columns[name] = _grown(column, self.size)
        for part in (self.labels, self.names, self.ports, self.images, self.selector_counts, self.terms, self.claims):
            part.grow(self.size)

    # The log.

    @property
    def log_position(self) -> int:
        """Log position after the last change."""
        return self._log_start + len(self._log)

    def rows_changed_since(self, position: int) -> Iterable[int] | None:
        """Return the rows changed after a log position; None if the log does not reach back that far."""
        if position < self._log_start:
            return None
        return self._log[position - self._log_start :]

    def _log_change(self, row: int) -> None:
        self._log.append(row)
        if len(self._log) > _LOG_LIMIT:
            half = _LOG_LIMIT // 2
            self._log_start += half
            del self._log[:half]


def _grown(column: NDArray[Any], size: int) -> NDArray[Any]:
    grown = np.zeros(size, column.dtype)
    grown[: len(column)] = column
    return grown
