# SPDX-License-Identifier: Apache-2.0
"""Describes a cluster for the report of a failed test: last reconciles, causes of the last writes, pending work.

Every list is bounded, and nothing here runs the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.registry.cause_journal import WriteCause
from kubeloop.runtime.causes.cause import Origin, Origins
from kubeloop.runtime.causes.journal import JournalEntry
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.manager import Loop
from kubeloop.testing.pending_work import describe_pending_work

_MAX_RECONCILES = 20
_MAX_WRITES = 20
_MAX_ORIGINS = 3  # of each entry


def describe_cluster(loops: Sequence[Loop], server: ApiServer) -> str:
    """Return what the loops did last, why the last writes were made, and what the cluster waits for."""
    parts = {
        "Last reconciles with an effect": map(_reconcile_line, _last_reconciles(loops)),
        "Last writes": map(_write_line, server.object_store.causes.latest(_MAX_WRITES)),
        "Pending work": describe_pending_work(loops, server.registry),
    }
    return "\n".join(_section(title, list(lines)) for title, lines in parts.items())


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines or ["none"])])


# Reconciles.


def _last_reconciles(loops: Iterable[Loop]) -> list[JournalEntry]:
    """Return the last reconciles of all loops that wrote something or did not succeed, oldest first."""
    journals = {id(one.journal): one.journal for one in loops if isinstance(one, Controller)}  # some are shared
    effects = (
        entry
        for journal in journals.values()
        for entry in journal.entries()
        if entry.writes or entry.result != "success"
    )
    return nlargest(_MAX_RECONCILES, effects, key=lambda one: (one.time, one.number))[::-1]


def _reconcile_line(entry: JournalEntry) -> str:
    writes = ", ".join(
        f"{one.verb} {one.resource} {_address(one.namespace, one.name)} → {one.outcome}" for one in entry.writes
    )
    did = f"wrote {writes}" if writes else "wrote nothing"
    return f"{_time_of(entry)} {entry.controller} {entry.key}: {entry.result}, {did}{_because(entry.origins)}"


def _because(origins: Origins) -> str:
    shown = [f"{one.kind} {_address(one.namespace, one.name)} {one.event}" for one in origins[-_MAX_ORIGINS:]]
    return f", because of {', '.join(shown)}" if shown else ""


# Writes.


def _write_line(write: WriteCause) -> str:
    what = write.key.removeprefix("/registry/")
    return f"{_time_of(write)} {write.revision}: {write.verb} {what} by {write.agent or write.user}{_cause_of(write)}"


def _cause_of(write: WriteCause) -> str:
    cause = write.to_document().get("cause")
    if not isinstance(cause, Mapping):
        return ""
    origins = tuple(Origin(*one) for one in cause.get("origins", ()))
    return f" ({cause.get('controller')} of {cause.get('key')}{_because(origins)})"


def _time_of(entry: Any) -> str:
    return str(entry.time.strftime("%H:%M:%S.%f")[:-3])


def _address(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
