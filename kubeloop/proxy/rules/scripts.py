# SPDX-License-Identifier: Apache-2.0
"""Scripts for nft: the whole table, the changes of a table, the removal of chains, the deletion of the table. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kubeloop.nftables.script import SetElement, TableScript
from kubeloop.proxy.ip_family import IPFamily
from kubeloop.proxy.rules.base_table import BASE_CHAINS, add_base_chain, add_containers
from kubeloop.proxy.rules.names import TABLE
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.statements import Rules
from kubeloop.proxy.rules.table import ProxyTable, TableChanges

_AFFINITY_SET: Final = re.compile(r"^\tset (affinity-\S+) \{\n(.*?)^\t\}", re.MULTILINE | re.DOTALL)
_ELEMENTS: Final = re.compile(r"elements = \{([^}]*)\}")
_TIMEOUT: Final = re.compile(r"^\t\ttimeout (\S+)$", re.MULTILINE)
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def table_script(table: ProxyTable, clients: Mapping[str, str]) -> str:
    """Return a script that replaces the table of the kernel; `clients` are elements of affinity sets to be kept."""
    settings = table.settings
    script = TableScript(settings.family.nft, TABLE)
    script.add_table()  # so that it can be deleted
    script.delete_table()
    script.add_table("rules for kube-proxy")
    add_containers(script, settings)
    for name in table.chains:
        add_base_chain(script, name)
    _add_sets(script, settings.family, table.affinity_sets, clients)
    _add_rules(script, settings, table.chains)
    elements: dict[str, list[SetElement]] = {}
    for (container, key), (value, comment) in table.elements():
        elements.setdefault(container, []).append(SetElement(key, value, comment))
    for container, rows in elements.items():
        script.add_elements(container, rows)
    return script.text()


def changes_script(settings: TableSettings, changes: TableChanges) -> str:
    """Return a script with the changes of a table. Deleted chains are only emptied: see `stale_chains_script`."""
    script = TableScript(settings.family.nft, TABLE)
    for name in changes.written_chains:
        script.add_chain(name, BASE_CHAINS.get(name))
    for name in (*changes.written_chains, *changes.deleted_chains):
        script.flush_chain(name)
    for container, keys in changes.deleted_elements.items():
        script.delete_elements(container, keys)
    for name in changes.deleted_sets:
        script.delete_set(name)
    _add_sets(script, settings.family, changes.added_sets, {})
    _add_rules(script, settings, changes.written_chains)
    for container, rows in changes.added_elements.items():
        script.add_elements(container, [SetElement(key, *value) for key, value in rows])
    return script.text()


def stale_chains_script(family: IPFamily, chains: Iterable[str]) -> str:
    """Return a script that deletes empty chains.

    Kernels before 6.2 release a chain only some time after the element that referred to it has been deleted.
    """
    script = TableScript(family.nft, TABLE)
    for name in chains:
        script.delete_chain(name)
    return script.text()


def delete_table_script(family: IPFamily) -> str:
    """Return a script that deletes the table, whether or not it exists."""
    script = TableScript(family.nft, TABLE)
    script.add_table()
    script.delete_table()
    return script.text()


def list_sets_script(family: IPFamily) -> str:
    """Return a script that lists the sets of the table with their elements; it must exist."""
    return f"list sets table {family.nft} {TABLE}\n"


def affinity_clients(listing: str, wanted: Mapping[str, int]) -> dict[str, str]:
    """Return the elements of listed affinity sets that are still wanted with the same timeout, as nft's text."""
    found: dict[str, str] = {}
    for name, body in _AFFINITY_SET.findall(listing):
        timeout, elements = _TIMEOUT.search(body), _ELEMENTS.search(body)
        if timeout is not None and elements is not None and wanted.get(name) == _seconds(timeout.group(1)):
            found[name] = " ".join(elements.group(1).split())
    return found


def _seconds(text: str) -> int:
    """Return the seconds of a time such as `1d3h30m`."""
    return sum(int(number) * unit for name, unit in _UNITS for number in re.findall(rf"(\d+){name}(?!s)", text))


def _add_sets(script: TableScript, family: IPFamily, sets: Mapping[str, int], clients: Mapping[str, str]) -> None:
    for name, seconds in sets.items():
        script.add_set(name, f"type {family.address_type}", "flags dynamic,timeout", f"timeout {seconds}s")
        if name in clients:
            script.add_elements(name, [SetElement(clients[name])])


def _add_rules(script: TableScript, settings: TableSettings, chains: Mapping[str, Rules]) -> None:
    for name, rules in chains.items():
        for rule in rules:
            script.add_rule(name, rule.text(settings.family), rule.comment)
