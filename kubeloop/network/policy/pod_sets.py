# SPDX-License-Identifier: Apache-2.0
"""Sets that change with pods: peers by selector, endpoints by port name. A pod touches its elements only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kubeloop.network.policy.compiled_policy import PortName, peers_set_name
from kubeloop.network.policy.expressions import FAMILIES, endpoint_element, family_name
from kubeloop.network.policy.model import PeerSelector, PodEndpoint
from kubeloop.network.policy.table import NftablesTable, SetSpec
from kubeloop.runtime.objects.keys import ObjectKey

_Place = tuple[str, str]  # set and element


class PodElements:
    """Elements of a table by the pod that they belong to."""

    def __init__(self, table: NftablesTable) -> None:
        self._table = table
        self._elements: dict[ObjectKey, dict[_Place, str]] = {}

    def update(self, key: ObjectKey, new: dict[_Place, str]) -> None:
        """Replace the elements of a pod; without any, the pod is forgotten."""
        old = self._elements.get(key, {})
        if new == old:
            return
        for place in old.keys() - new.keys():
            self._table.discard(*place)
        for place, verdict in new.items():
            if old.get(place) != verdict:
                self._table.put(*place, verdict)
        if new:
            self._elements[key] = new
        else:
            self._elements.pop(key, None)


class PeerSet:
    """Addresses of the pods that a selector matches, in one set for each IP family."""

    def __init__(self, selector: PeerSelector, table: NftablesTable) -> None:
        self.selector = selector
        self._names = _add_sets(table, peers_set_name(selector), False)
        self._elements = PodElements(table)
        self._table = table

    def update(self, key: ObjectKey, pod: PodEndpoint | None, namespace_labels: Mapping[str, str] | None) -> None:
        """Update the elements of a pod; None if it was deleted."""
        is_member = pod is not None and self.selector.matches(pod, namespace_labels)
        addresses = pod.addresses if pod is not None and is_member else ()
        self._elements.update(key, {(self._names[one.version], str(one)): "" for one in addresses})

    def remove(self) -> None:
        """Remove the sets."""
        _remove_sets(self._table, self._names.values())


class NamedPortSet:
    """Addresses and numbers of a named port of all pods, in one set for each IP family."""

    def __init__(self, port: PortName, table: NftablesTable) -> None:
        self._port = port
        self._names = _add_sets(table, port.set_name, True)
        self._elements = PodElements(table)
        self._table = table

    def update(self, key: ObjectKey, pod: PodEndpoint | None) -> None:
        """Update the elements of a pod; None if it was deleted."""
        self._elements.update(key, dict.fromkeys(self._places(pod), "") if pod is not None else {})

    def _places(self, pod: PodEndpoint) -> Iterator[_Place]:
        for port in pod.ports:
            if (port.protocol, port.name) == self._port:
                for address in pod.addresses:
                    yield self._names[address.version], endpoint_element(address, port.number)

    def remove(self) -> None:
        """Remove the sets."""
        _remove_sets(self._table, self._names.values())


def _add_sets(table: NftablesTable, name: str, has_port: bool) -> dict[int, str]:
    names = {}
    for family in FAMILIES:
        names[family.version] = family_name(name, family.version)
        table.add_set(SetSpec(names[family.version], family.endpoint_type if has_port else family.address_type))
    return names


def _remove_sets(table: NftablesTable, names: Iterable[str]) -> None:
    for name in names:
        table.remove_set(name)
