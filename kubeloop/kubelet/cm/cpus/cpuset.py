# SPDX-License-Identifier: Apache-2.0
"""Sets of CPUs in the notation of the kernel, such as `0-3,8`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

CpuSet = frozenset[int]
EMPTY: CpuSet = frozenset()


class InvalidCpuSet(ValueError):
    """Raised for text that is not a list of CPUs and ranges."""


def parse_cpuset(text: str) -> CpuSet:
    """Return the set that a text describes; empty for an empty text. Raises `InvalidCpuSet`."""
    return frozenset(cpu for part in text.split(",") for cpu in _parse_range(part)) if text else EMPTY


def format_cpuset(cpus: Iterable[int]) -> str:
    """Return the text of a set, with as few ranges as possible."""
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in _ranges(sorted(cpus)))


def _parse_range(text: str) -> range:
    first, dash, last = text.partition("-")
    if not (_is_number(first) and (not dash or _is_number(last))):
        raise InvalidCpuSet(f'invalid list of CPUs: "{text}"')
    low, high = int(first), int(last or first)
    if low > high:
        raise InvalidCpuSet(f"invalid range {text} ({low} > {high})")
    return range(low, high + 1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _ranges(cpus: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for at in range(1, len(cpus) + 1):
        if at == len(cpus) or cpus[at] != cpus[at - 1] + 1:
            yield cpus[start], cpus[at - 1]
            start = at
