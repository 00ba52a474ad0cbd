# SPDX-License-Identifier: Apache-2.0
"""Comparison of folded answers, at three levels: status, reason, whole body."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tools.differential.case import Answer

_SHOWN = 160
_INDEX = re.compile(r"\[\d+\]")
_QUOTED = re.compile(r'\\*"[^"]*"|\d+')


class Level(IntEnum):
    """Levels at which two answers can differ, the most serious first."""

    STATUS = 0
    REASON = 1
    BODY = 2


@dataclass(frozen=True, slots=True)
class Difference:
    """First step of a case whose answers differ, with the places that differ."""

    step: int
    level: Level
    places: tuple[str, ...]

    def signature(self) -> tuple[Level, str]:
        """Return what differences of one cause have in common: level and place, without indexes and values."""
        if self.level is Level.STATUS:
            return self.level, self.places[0] + _QUOTED.sub("_", self.places[1])
        return self.level, _QUOTED.sub("_", _INDEX.sub("[]", self.places[0]))


def first_difference(ours: Sequence[Answer], theirs: Sequence[Answer]) -> Difference | None:
    """Return the first difference between the folded answers of two servers."""
    for step, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if found := difference(step, one, other):
            return found
    return None


def difference(step: int, ours: Answer, theirs: Answer) -> Difference | None:
    """Return the difference between two folded answers to one step."""
    if ours.status != theirs.status:
        numbers = f"status: {theirs.status} expected, {ours.status} found"
        return Difference(step, Level.STATUS, (numbers, _message(theirs.body), _message(ours.body)))
    if (want := _reason(theirs)) != (found := _reason(ours)):
        return Difference(step, Level.REASON, (f"reason: {want} expected, {found} found", _short(ours.body)))
    places = tuple(_differing_places(theirs.body, ours.body, ""))
    if ours.warnings != theirs.warnings:
        places += (f"warnings: {list(theirs.warnings)} expected, {list(ours.warnings)} found",)
    if ours.content_type != theirs.content_type:
        places += (f"content type: {theirs.content_type} expected, {ours.content_type} found",)
    return Difference(step, Level.BODY, places) if places else None


def _reason(answer: Answer) -> tuple[str, list[tuple[str, str]]] | None:
    """Return the reason of a Status, and reason and field of its causes."""
    body = answer.body
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return None
    causes = (body.get("details") or {}).get("causes") or []
    return str(body.get("reason")), sorted((str(one.get("reason")), str(one.get("field"))) for one in causes)


def _differing_places(want: Any, found: Any, path: str) -> Iterator[str]:
    if isinstance(want, dict) and isinstance(found, dict):
        for key in sorted(want.keys() | found.keys()):
            place = f"{path}.{key}"
            if key not in found:
                yield f"{place}: missing, {_short(want[key])} expected"
            elif key not in want:
                yield f"{place}: not expected, {_short(found[key])} found"
            else:
                yield from _differing_places(want[key], found[key], place)
    elif isinstance(want, list) and isinstance(found, list):
        if len(want) != len(found):
            yield f"{path}: {len(want)} items expected, {len(found)} found"
        for index, (one, other) in enumerate(zip(want, found, strict=False)):
            yield from _differing_places(one, other, f"{path}[{index}]")
    elif type(want) is not type(found) or want != found:
        yield f"{path or '.'}: {_short(want)} expected, {_short(found)} found"


def _message(body: Any) -> str:
    """Return the message of a Status, or the kind of another body."""
    if not isinstance(body, dict):
        return _short(body)
    message = body.get("message") if body.get("kind") == "Status" else None
    return message if isinstance(message, str) else f"a {body.get('kind')}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
