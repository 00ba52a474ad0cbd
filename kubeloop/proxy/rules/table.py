# SPDX-License-Identifier: Apache-2.0
"""Desired contents of one table, kept in memory: parts of ports are replaced one by one, changes are collected. Pure.

Two ports may claim the same element, such as an external IP that two Services name: the port with the lesser name has
it, whatever the order of events, and the other gets it when the first is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from kubeloop.proxy.rules.port_rules import ElementKey, ElementValue, PortRules
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.shared_chains import SharedChain
from kubeloop.proxy.rules.statements import Rules
from kubeloop.proxy.service_port import NamespacedName, ServicePortName

T = TypeVar("T")
# Owner of the elements that belong to no Service.
NODE: Final = ServicePortName(NamespacedName("", ""), "", "")
_EMPTY: Final = PortRules()


class TableChanges(NamedTuple):
    """Differences between two contents of a table: what has to be deleted, and what added."""

    deleted_elements: Mapping[str, list[str]]  # keys by set or map
    added_elements: Mapping[str, list[tuple[str, ElementValue]]]
    deleted_chains: list[str]
    written_chains: Mapping[str, Rules]  # new ones, and those whose rules have changed
    deleted_sets: list[str]
    added_sets: Mapping[str, int]

    def __bool__(self) -> bool:
        return any(self)


class ProxyTable:
    """Desired contents of one family's table."""

    def __init__(self, settings: TableSettings) -> None:
        self.settings = settings
        self._ports: dict[ServicePortName, PortRules] = {}
        self._by_service: dict[NamespacedName, set[ServicePortName]] = {}
        self._elements = _OwnedElements()
        self._node_elements: dict[ElementKey, ElementValue] = {}
        self._chains: dict[str, Rules] = {}
        self._sets: dict[str, int] = {}
        self._shared: Counter[SharedChain] = Counter()
        # Values before the first change since the last `take_changes`.
        self._chains_before: dict[str, Rules | None] = {}
        self._sets_before: dict[str, int | None] = {}
        self._set_owners: dict[str, ServicePortName] = {}
        self.lacks_internal = 0
        self.lacks_external = 0

    # Reading.

    @property
    def ports(self) -> Mapping[ServicePortName, PortRules]:
        """Parts of all ports."""
        return self._ports

    def ports_of(self, service: NamespacedName) -> frozenset[ServicePortName]:
        """Return the ports of a Service that have a part."""
        return frozenset(self._by_service.get(service, ()))

    @property
    def chains(self) -> Mapping[str, Rules]:
        """Rules of all chains."""
        return self._chains

    @property
    def affinity_sets(self) -> Mapping[str, int]:
        """Sets of clients, with the seconds after which a client is forgotten."""
        return self._sets

    def element(self, container: str, key: str) -> tuple[ServicePortName, ElementValue] | None:
        """Return owner and value of an element, or None."""
        return self._elements.get(ElementKey(container, key))

    def elements(self) -> Iterator[tuple[ElementKey, ElementValue]]:
        """Yield all elements."""
        return self._elements.items()

    # Writing.

    def set_chains(self, chains: Mapping[str, Rules]) -> None:
        """Set the chains that belong to no Service."""
        for name, rules in chains.items():
            self._set_chain(name, rules)

    def set_node_elements(self, keys: Iterable[ElementKey]) -> None:
        """Set the elements that belong to no Service."""
        elements = dict.fromkeys(keys, ElementValue())
        self._elements.set_owned(NODE, self._node_elements, elements)
        self._node_elements = elements

    def set_port(self, name: ServicePortName, rules: PortRules | None) -> None:
        """Set the part of a port, or remove it."""
        old, new = self._ports.get(name, _EMPTY), rules or _EMPTY
        if rules is not None:
            self._ports[name] = rules
            self._by_service.setdefault(name.service, set()).add(name)
        elif self._ports.pop(name, None) is not None:
            self._by_service[name.service].discard(name)
            if not self._by_service[name.service]:
                del self._by_service[name.service]
        self._elements.set_owned(name, old.elements, new.elements)
        self._set_sets(name, old, new)
        for chain in [*old.chains, *new.chains]:
            self._set_chain(chain, new.chains.get(chain))
        self._count_shared(old.shared_chains, new.shared_chains)
        self.lacks_internal += new.lacks_internal - old.lacks_internal
        self.lacks_external += new.lacks_external - old.lacks_external

    def take_changes(self) -> TableChanges:
        """Return all changes since the last call."""
        deleted, added = self._elements.take_changes()
        chains = _changes(self._chains_before, self._chains)
        sets = _changes(self._sets_before, self._sets)
        written = {name: new for name, _, new in chains if new is not None}
        written |= self._users_of([name for name, old, new in sets if old is not None and new is not None])
        found = TableChanges(
            deleted,
            added,
            [name for name, _, new in chains if new is None],
            written,
            [name for name, old, _ in sets if old is not None],
            {name: new for name, _, new in sets if new is not None},
        )
        self._chains_before, self._sets_before = {}, {}
        return found

    def _set_chain(self, name: str, rules: Rules | None) -> None:
        _set(self._chains, self._chains_before, name, rules)

    def _set_sets(self, owner: ServicePortName, old: PortRules, new: PortRules) -> None:
        for name in {**old.affinity_sets, **new.affinity_sets}:
            after = new.affinity_sets.get(name)
            _set(self._sets, self._sets_before, name, after)
            if after is None:
                self._set_owners.pop(name, None)
            else:
                self._set_owners[name] = owner

    def _users_of(self, sets: Iterable[str]) -> dict[str, Rules]:
        """Return the chains of ports whose sets are created again: while rules use a set, it cannot be deleted."""
        owners = {self._set_owners[name] for name in sets}
        return {name: self._chains[name] for owner in owners for name in self._ports[owner].chains}

    def _count_shared(self, old: frozenset[SharedChain], new: frozenset[SharedChain]) -> None:
        for chain in new - old:
            self._shared[chain] += 1
            if self._shared[chain] == 1:
                self._set_chain(chain.name, chain.rules(self.settings))
        for chain in old - new:
            self._shared[chain] -= 1
            if not self._shared[chain]:
                del self._shared[chain]
                self._set_chain(chain.name, None)


class _OwnedElements:
    """Elements with their owners."""

    def __init__(self) -> None:
        self._effective: dict[ElementKey, tuple[ServicePortName, ElementValue]] = {}
        self._waiting: dict[ElementKey, dict[ServicePortName, ElementValue]] = {}  # claims of other owners
        self._before: dict[ElementKey, ElementValue | None] = {}

    def get(self, key: ElementKey) -> tuple[ServicePortName, ElementValue] | None:
        return self._effective.get(key)

    def items(self) -> Iterator[tuple[ElementKey, ElementValue]]:
        return ((key, value) for key, (_, value) in self._effective.items())

    def set_owned(
        self, owner: ServicePortName, old: Mapping[ElementKey, ElementValue], new: Mapping[ElementKey, ElementValue]
    ) -> None:
        """Replace the elements that an owner claims."""
        for key in old:
            if key not in new:
                self._note(key)
                self._release(key, owner)
        for key, value in new.items():
            if old.get(key) != value:
                self._note(key)
                self._claim(key, owner, value)

    def take_changes(self) -> tuple[dict[str, list[str]], dict[str, list[tuple[str, ElementValue]]]]:
        """Return deleted keys and added elements by container; a changed element is in both."""
        deleted: dict[str, list[str]] = {}
        added: dict[str, list[tuple[str, ElementValue]]] = {}
        for key, before in self._before.items():
            found = self._effective.get(key)
            after = found[1] if found is not None else None
            if before == after:
                continue
            if before is not None:
                deleted.setdefault(key.container, []).append(key.key)
            if after is not None:
                added.setdefault(key.container, []).append((key.key, after))
        self._before = {}
        return deleted, added

    def _note(self, key: ElementKey) -> None:
        if key not in self._before:
            found = self._effective.get(key)
            self._before[key] = found[1] if found is not None else None

    def _claim(self, key: ElementKey, owner: ServicePortName, value: ElementValue) -> None:
        found = self._effective.get(key)
        if found is None or found[0] == owner:
            self._effective[key] = (owner, value)
        elif owner < found[0]:
            self._waiting.setdefault(key, {})[found[0]] = found[1]
            self._waiting[key].pop(owner, None)
            self._effective[key] = (owner, value)
        else:
            self._waiting.setdefault(key, {})[owner] = value

    def _release(self, key: ElementKey, owner: ServicePortName) -> None:
        waiting = self._waiting.get(key, {})
        if self._effective[key][0] != owner:
            del waiting[owner]
        elif waiting:
            heir = min(waiting)
            self._effective[key] = (heir, waiting.pop(heir))
        else:
            del self._effective[key]
        if key in self._waiting and not waiting:
            del self._waiting[key]


def _set(current: dict[str, T], before: dict[str, T | None], name: str, value: T | None) -> None:
    """Set or remove a value, and note the one before the first change."""
    old = current.get(name)
    if old == value:
        return
    before.setdefault(name, old)
    if value is None:
        del current[name]
    else:
        current[name] = value


def _changes(before: Mapping[str, T | None], current: Mapping[str, T]) -> list[tuple[str, T | None, T | None]]:
    """Return name, old and new value of everything that differs."""
    rows: list[tuple[str, Any, Any]] = [(name, old, current.get(name)) for name, old in before.items()]
    return [(name, old, new) for name, old, new in rows if old != new]
