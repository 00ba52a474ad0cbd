# SPDX-License-Identifier: Apache-2.0
"""Freed memory is returned, and what is in use is left alone."""

from __future__ import annotations

import pytest

from kubeloop.apiserver.background.memory_trim import MemoryTrimmer, load_malloc_trim, resident_bytes

MIB = 1 << 20


class ProcessMemory:
    """Memory of a process: what is in use, and what the C library keeps."""

    def __init__(self) -> None:
        self.used, self.kept, self.trims = 100 * MIB, 0, 0
        self.trimmer = MemoryTrimmer(self.trim, lambda: self.used + self.kept)

    def trim(self, padding: int) -> int:
        assert padding == 0
        self.trims += 1
        self.kept = 0
        return 1

    def pass_periods(self, count: int) -> None:
        for _ in range(count):
            if self.trimmer.is_worthwhile():
                self.trimmer.run()


def test_an_idle_process_is_left_alone() -> None:
    process = ProcessMemory()
    process.pass_periods(1_000)
    assert process.trims == 0


def test_memory_is_returned_after_a_peak_even_if_a_trim_came_during_it() -> None:
    process = ProcessMemory()
    process.used += 1_000 * MIB
    process.pass_periods(1)
    assert (process.trims, process.kept) == (1, 0)
    process.used, process.kept = 100 * MIB, 1_000 * MIB
    process.pass_periods(2)
    assert process.kept == 0


def test_memory_in_use_is_trimmed_ever_more_seldom() -> None:
    process = ProcessMemory()
    process.used += 1_000 * MIB
    process.pass_periods(1_000)
    assert process.trims < 30
    process.kept = 100 * MIB
    process.pass_periods(1)
    assert process.kept == 0


def test_without_the_function_nothing_happens() -> None:
    trimmer = MemoryTrimmer(None, lambda: 1)
    assert not trimmer.is_worthwhile()
    trimmer.run()


def test_glibc_has_the_function() -> None:
    trim = load_malloc_trim()
    if trim is None:
        pytest.skip("another C library")
    trim(0)
    assert resident_bytes() > MIB
