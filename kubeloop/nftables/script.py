# SPDX-License-Identifier: Apache-2.0
"""Builds scripts in nft's language from names and values: one statement a line, in the order of the calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

NAME_LENGTH: Final = 256  # bytes of a name, with the terminating zero: `NFT_NAME_MAXLEN`
COMMENT_LENGTH: Final = 128  # bytes of a comment: `NFTNL_UDATA_COMMENT_MAXLEN`
_CHUNK: Final = 1000  # elements of one statement: a parse error then shows a line that can be read


class BaseChain(NamedTuple):
    """Type, hook and priority of a chain that the kernel calls."""

    type: str
    hook: str
    priority: str


class SetElement(NamedTuple):
    """Element of a set or a map: parts are joined by ` . `; a set's element has no value."""

    key: str
    value: str = ""
    comment: str = ""

    def text(self) -> str:
        """Return the element in nft's language."""
        comment = f" comment {quote(self.comment)}" if self.comment else ""
        return f"{self.key}{comment} : {self.value}" if self.value else f"{self.key}{comment}"


class TableScript:
    """Script for one table."""

    def __init__(self, family: str, table: str) -> None:
        self._table = f"{family} {table}"
        self._lines: list[str] = []

    def __len__(self) -> int:
        return len(self._lines)

    def text(self) -> str:
        """Return the statements."""
        return "".join(f"{line}\n" for line in self._lines)

    def add_table(self, comment: str = "") -> None:
        """Add the table, unless it exists."""
        self._add("table", "", _options(comment=comment))

    def delete_table(self) -> None:
        """Delete the table with everything in it; it must exist."""
        self._lines.append(f"delete table {self._table}")

    def add_chain(self, name: str, base: BaseChain | None = None, comment: str = "") -> None:
        """Add a chain, unless it exists."""
        hook = f"type {base.type} hook {base.hook} priority {base.priority}" if base is not None else ""
        self._add("chain", name, _options(hook, comment=comment))

    def flush_chain(self, name: str) -> None:
        """Delete the rules of a chain."""
        self._lines.append(f"flush chain {self._table} {name}")

    def delete_chain(self, name: str) -> None:
        """Delete a chain, which must have no rules and no references."""
        self._lines.append(f"delete chain {self._table} {name}")

    def add_rule(self, chain: str, text: str, comment: str = "") -> None:
        """Append a rule to a chain."""
        self._lines.append(f"add rule {self._table} {chain} {text}{f' comment {quote(comment)}' if comment else ''}")

    def add_set(self, name: str, type: str, *options: str, comment: str = "") -> None:
        """Add a set, unless it exists; the type is `type …` or `typeof …`."""
        self._add("set", name, _options(type, *options, comment=comment))

    def add_map(self, name: str, type: str, *options: str, comment: str = "") -> None:
        """Add a map, unless it exists; the type is `type … : …` or `typeof … : …`."""
        self._add("map", name, _options(type, *options, comment=comment))

    def delete_set(self, name: str) -> None:
        """Delete a set, which no rule may use."""
        self._lines.append(f"delete set {self._table} {name}")

    def add_elements(self, name: str, elements: Iterable[SetElement]) -> None:
        """Add elements to a set or a map."""
        self._elements("add", name, [element.text() for element in elements])

    def delete_elements(self, name: str, keys: Iterable[str]) -> None:
        """Delete elements from a set or a map; each must be in it."""
        self._elements("delete", name, list(keys))

    def _elements(self, verb: str, name: str, texts: Sequence[str]) -> None:
        for start in range(0, len(texts), _CHUNK):
            part = ", ".join(texts[start : start + _CHUNK])
            self._lines.append(f"{verb} element {self._table} {name} {{ {part} }}")

    def _add(self, kind: str, name: str, options: str) -> None:
        self._lines.append(" ".join(part for part in ("add", kind, self._table, name, options) if part))


def quote(text: str) -> str:
    """Return a comment in quotes, cut to the longest that the kernel stores; it cannot contain quotes."""
    kept = text.replace('"', "'").encode()[:COMMENT_LENGTH].decode(errors="ignore")
    return f'"{kept}"'


def _options(*options: str, comment: str = "") -> str:
    """Return options in braces, or nothing."""
    found = [option for option in options if option]
    if comment:
        found.append(f"comment {quote(comment)}")
    return f"{{ {'; '.join(found)}; }}" if found else ""
