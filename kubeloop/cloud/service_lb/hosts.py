# SPDX-License-Identifier: Apache-2.0
"""Nodes that load balancers use, computed once for all Services after each node change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api.generated.core_v1 import Node
from kubeloop.cloud.service_lb.policy import Hosts, hosts_of, is_host, should_sync_node
from kubeloop.runtime.informer.informer import Informer


class HostSet:
    """Node event handler; calls `tell` when the hosts change."""

    def __init__(self, nodes: Informer) -> None:
        self._nodes = nodes
        self._found: tuple[Node, ...] | None = None  # None after a change
        self._hosts: Hosts = frozenset()
        self.on_change: Callable[[], None] = lambda: None

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes."""
        if self._found is None:
            self._found = tuple(one for one in self._nodes.list() if is_host(one))
            self._hosts = hosts_of(self._found)
        return self._found

    def hosts(self) -> Hosts:
        """Return the identities of the nodes."""
        self.nodes()
        return self._hosts

    def on_add(self, _: Any) -> None:
        """Report a new node."""
        self._found = None
        self.on_change()

    def on_update(self, old: Any, new: Any) -> None:
        """Report a changed node if it affects the hosts."""
        self._found = None
        if should_sync_node(old, new):
            self.on_change()

    def on_delete(self, _: Any) -> None:
        """Report a deleted node."""
        self._found = None
        self.on_change()
