# SPDX-License-Identifier: Apache-2.0
"""Lists of a job's indexes such as `1,3-5,7`: their syntax, and overlaps between two of them."""

from __future__ import annotations

import re

from kubeloop.api.meta.field_path import quote


class IndexListError(ValueError):
    """Raised for a malformed list; the message is shown to clients."""


def count_indexes(text: str, completions: int) -> int:
    """Return the number of indexes in a list; raises IndexListError."""
    total = 0
    last: int | None = None
    for part in text.split(",") if text else ():
        low, high = _interval(part, completions)
        if last is not None and last >= low:
            raise IndexListError(f"non-increasing order, previous: {last}, current: {low}")
        total += high - low + 1
        last = high
    return total


def overlap(completed: str, failed: str, completions: int) -> int | None:
    """Return the first index that is in both lists; malformed parts are ignored, other checks report them."""
    ours, theirs = _readable(completed, completions), _readable(failed, completions)
    common = [max(a, c) for a, b in ours for c, d in theirs if a <= d and c <= b]
    return min(common, default=None)


def _readable(text: str, completions: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        try:
            found.append(_interval(part, completions))
        except IndexListError:
            continue
    return found


def _interval(text: str, completions: int) -> tuple[int, int]:
    parts = text.split("-")
    if len(parts) > 2:
        raise IndexListError(
            f"the fragment {quote(text)} violates the requirement that an index interval can have at most "
            "two parts separated by '-'"
        )
    numbers = [_index(part, completions) for part in parts]
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise IndexListError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def _index(text: str, completions: int) -> int:
    # Beyond 18 digits Go's integers end; nothing that long is below the completions anyway.
    found = re.fullmatch("([+-]?)0*([0-9]{1,18})", text)
    if found is None:
        raise IndexListError(f"cannot convert string to integer for index: {quote(text)}")
    index = int(found[1] + found[2])
    if index >= completions:
        raise IndexListError(f"too large index: {quote(text)}")
    return index
