"""The nodes that load balancers lead to, found once for all services after a change of any node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api.generated.core_v1 import Node
from kubeloop.cloud.service_lb.policy import Hosts, hosts_of, is_host, matters
from kubeloop.runtime.informer.informer import Informer


class HostSet:
    """A handler of nodes' changes; whoever wants to hear of new hosts sets `tell`."""

    def __init__(self, nodes: Informer) -> None:
        self._nodes = nodes
        self._found: tuple[Node, ...] | None = None  # None after a change
        self._hosts: Hosts = frozenset()
        self.tell: Callable[[], None] = lambda: None

    def nodes(self) -> tuple[Node, ...]:
        if self._found is None:
            self._found = tuple(one for one in self._nodes.list() if is_host(one))
            self._hosts = hosts_of(self._found)
        return self._found

    def hosts(self) -> Hosts:
        self.nodes()
        return self._hosts

    def on_add(self, _: Any) -> None:
        self._found = None
        self.tell()

    def on_update(self, old: Any, new: Any) -> None:
        self._found = None
        if matters(old, new):
            self.tell()

    def on_delete(self, _: Any) -> None:
        self._found = None
        self.tell()
