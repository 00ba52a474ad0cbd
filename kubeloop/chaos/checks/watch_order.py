# SPDX-License-Identifier: Apache-2.0
"""Checks that watches delivered every change once, in order, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from kubeloop.chaos.checks.history import ClientOperation


class SeenEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Event of a watch."""

    type: str  # ADDED, MODIFIED or DELETED
    key: str
    mark: str
    revision: int


def watch_problems(
    watches: Mapping[str, Sequence[SeenEvent]], operations: Iterable[ClientOperation], present: Mapping[str, str]
) -> list[str]:
    """Return the problems of watches that covered all operations.

    `present` has the mark of every object that exists in the end.
    """
    acknowledged = [one for one in operations if one.outcome == "ok" and one.action in ("create", "update")]
    everything = {event.revision: event for events in watches.values() for event in events}
    return [
        f"the watch of {name} {problem}"
        for name, events in watches.items()
        for problem in (
            *_disorder(events),
            *_differences(events, everything),
            *_losses(events, acknowledged),
            *_wrong_ends(events, present),
        )
    ]


def _disorder(events: Sequence[SeenEvent]) -> Iterable[str]:
    for before, after in pairwise(events):
        if after.revision <= before.revision:
            yield f"delivered revision {after.revision} after {before.revision}"


def _differences(events: Sequence[SeenEvent], everything: Mapping[int, SeenEvent]) -> Iterable[str]:
    """Yield differences between a watch and the union of all."""
    told = {event.revision: event for event in events}
    for revision, event in everything.items():
        if revision not in told:
            yield f"missed {event.type} of {event.key} at revision {revision}"
        elif told[revision] != event:
            yield f"delivered {told[revision]} where another watch delivered {event}"


def _losses(events: Sequence[SeenEvent], acknowledged: Sequence[ClientOperation]) -> Iterable[str]:
    times = Counter((event.key, event.mark) for event in events if event.type != "DELETED")
    for operation in acknowledged:
        if (count := times[operation.key, operation.mark]) != 1:
            yield f"delivered the {operation.action} that made {operation.key} {operation.mark} {count} times"


def _wrong_ends(events: Sequence[SeenEvent], present: Mapping[str, str]) -> Iterable[str]:
    ends: dict[str, str] = {}
    for event in events:
        if event.type == "DELETED":
            ends.pop(event.key, None)
        else:
            ends[event.key] = event.mark
    for key in sorted(ends.keys() | present.keys()):
        if ends.get(key) != present.get(key):
            yield f"ended with {key} as {ends.get(key, 'absent')}, but it is {present.get(key, 'absent')}"
