# SPDX-License-Identifier: Apache-2.0
"""Content of one nftables table with a journal: renders the whole table, or only the changes since the last time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

_ELEMENTS_PER_COMMAND: Final = 500  # keeps the lines of a script short


class SetSpec(NamedTuple):
    """Declaration of a set, or of a map of verdicts."""

    name: str
    key_type: str  # as nft writes it: ipv4_addr, ipv4_addr . inet_service
    is_interval: bool = False
    is_map: bool = False

    @property
    def keyword(self) -> str:
        """Keyword of the object in nft's language."""
        return "map" if self.is_map else "set"

    def declare(self) -> str:
        """Return the declaration's body."""
        value = " : verdict" if self.is_map else ""
        flags = " flags interval;" if self.is_interval else ""
        return f"{{ type {self.key_type}{value};{flags} }}"


class FilterMatch(NamedTuple):
    """Condition of a rule: an expression with its value, or the set that must, or must not, contain it."""

    expression: str
    value: str
    negated: bool = False

    def render(self) -> str:
        """Return the condition in nft's language."""
        return f"{self.expression} {'!= ' if self.negated else ''}{self.value}"


@dataclass(frozen=True, slots=True)
class FilterRule:
    """Rule of a chain: all matches must hold. The verdict is accept, drop, jump CHAIN, goto CHAIN or vmap @MAP."""

    matches: tuple[FilterMatch, ...]
    verdict: str
    has_counter: bool = False

    def render(self) -> str:
        """Return the rule in nft's language."""
        counter = ("counter",) if self.has_counter else ()
        return " ".join((*(match.render() for match in self.matches), *counter, self.verdict))


class Hook(NamedTuple):
    """Base chain declaration: the hook and the priority."""

    name: str
    priority: str

    def declare(self) -> str:
        """Return the declaration's body."""
        return f"{{ type filter hook {self.name} priority {self.priority}; policy accept; }}"


Elements = dict[str, str]  # key to verdict; the verdict is empty in a set


class NftablesTable:
    """Sets, maps and chains of a table of family inet, and the journal of changes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sets: dict[str, SetSpec] = {}
        self.elements: dict[str, Elements] = {}
        self.chains: dict[str, tuple[FilterRule, ...]] = {}
        self._hooks: dict[str, Hook] = {}
        # Journal: for everything that was touched since the last time, its state then (None if it did not exist).
        self._old_sets: dict[str, SetSpec | None] = {}
        self._old_elements: dict[tuple[str, str], str | None] = {}
        self._old_chains: dict[str, tuple[FilterRule, ...] | None] = {}

    # Changes.

    def add_set(self, spec: SetSpec, elements: Iterable[str] = ()) -> None:
        """Add a set with elements; one that exists gets the elements only."""
        if spec.name not in self.sets:
            self._old_sets.setdefault(spec.name, None)
            self.sets[spec.name] = spec
            self.elements[spec.name] = {}
        for element in elements:
            self.put(spec.name, element)

    def remove_set(self, name: str) -> None:
        """Remove a set with its elements."""
        for element in tuple(self.elements[name]):
            self.discard(name, element)
        self._old_sets.setdefault(name, self.sets[name])
        del self.sets[name], self.elements[name]

    def put(self, name: str, element: str, verdict: str = "") -> None:
        """Put an element into a set or map."""
        elements = self.elements[name]
        self._old_elements.setdefault((name, element), elements.get(element))
        elements[element] = verdict

    def discard(self, name: str, element: str) -> None:
        """Remove an element if it is there."""
        elements = self.elements[name]
        self._old_elements.setdefault((name, element), elements.get(element))
        elements.pop(element, None)

    def set_chain(self, name: str, rules: tuple[FilterRule, ...], hook: Hook | None = None) -> None:
        """Add a chain, or replace the rules of one."""
        self._old_chains.setdefault(name, self.chains.get(name))
        self.chains[name] = rules
        if hook is not None:
            self._hooks[name] = hook

    def remove_chain(self, name: str) -> None:
        """Remove a chain."""
        self._old_chains.setdefault(name, self.chains[name])
        del self.chains[name]

    # Scripts.

    def render_full(self) -> str:
        """Return a script that replaces the whole table in one transaction, and forget the journal."""
        self._forget()
        lines = [f"add table inet {self.name}", f"delete table inet {self.name}", f"add table inet {self.name}"]
        lines += [f"add {spec.keyword} {self._in(spec.name)} {spec.declare()}" for spec in self.sets.values()]
        lines += [self._declare_chain(name) for name in self.chains]
        lines += [line for name in self.chains for line in self._add_rules(name)]
        lines += [line for name, elements in self.elements.items() for line in self._add_elements(name, elements)]
        return "\n".join(lines) + "\n"

    def render_changes(self) -> str:
        """Return a script with the changes since the last script, empty without any, and forget the journal."""
        lines = [*self._declarations(), *self._changed_rules(), *self._changed_elements(), *self._removals()]
        self._forget()
        return "".join(f"{line}\n" for line in lines)

    def _forget(self) -> None:
        self._old_sets, self._old_elements, self._old_chains = {}, {}, {}

    def _in(self, name: str) -> str:
        return f"inet {self.name} {name}"

    def _declarations(self) -> Iterator[str]:
        for name, old_set in self._old_sets.items():
            if old_set is None and name in self.sets:
                spec = self.sets[name]
                yield f"add {spec.keyword} {self._in(name)} {spec.declare()}"
        for name, old in self._old_chains.items():
            if old is None and name in self.chains:
                yield self._declare_chain(name)

    def _declare_chain(self, name: str) -> str:
        hook = self._hooks.get(name)
        return f"add chain {self._in(name)}{f' {hook.declare()}' if hook is not None else ''}"

    def _changed_rules(self) -> Iterator[str]:
        for name, old in self._old_chains.items():
            if old and self.chains.get(name) != old:
                yield f"flush chain {self._in(name)}"
        for name, old in self._old_chains.items():
            if name in self.chains and self.chains[name] != old:
                yield from self._add_rules(name)

    def _add_rules(self, name: str) -> Iterator[str]:
        return (f"add rule {self._in(name)} {rule.render()}" for rule in self.chains[name])

    def _changed_elements(self) -> Iterator[str]:
        removed: dict[str, Elements] = {}
        added: dict[str, Elements] = {}
        for (name, element), old in self._old_elements.items():
            new = self.elements.get(name, {}).get(element)
            if new == old:
                continue
            if old is not None:
                removed.setdefault(name, {})[element] = ""
            if new is not None:
                added.setdefault(name, {})[element] = new
        for name, elements in removed.items():
            if name in self.sets or self._old_sets.get(name) is not None:
                yield from self._change_elements("delete", name, elements)
        for name, elements in added.items():
            yield from self._add_elements(name, elements)

    def _add_elements(self, name: str, elements: Mapping[str, str]) -> Iterator[str]:
        return self._change_elements("add", name, elements)

    def _change_elements(self, verb: str, name: str, elements: Mapping[str, str]) -> Iterator[str]:
        rows = [f"{key} : {verdict}" if verdict else key for key, verdict in elements.items()]
        for start in range(0, len(rows), _ELEMENTS_PER_COMMAND):
            part = ", ".join(rows[start : start + _ELEMENTS_PER_COMMAND])
            yield f"{verb} element {self._in(name)} {{ {part} }}"

    def _removals(self) -> Iterator[str]:
        for name, old in self._old_chains.items():
            if old is not None and name not in self.chains:
                yield f"delete chain {self._in(name)}"
        for name, old_set in self._old_sets.items():
            if old_set is not None and name not in self.sets:
                yield f"delete {old_set.keyword} {self._in(name)}"
