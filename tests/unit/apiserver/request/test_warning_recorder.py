# SPDX-License-Identifier: Apache-2.0
"""Warnings of a request have upstream's limits."""

from __future__ import annotations

from kubeloop.apiserver.request.warning_recorder import WarningRecorder


def recorded(*texts: str) -> list[str]:
    recorder = WarningRecorder()
    for text in texts:
        recorder.add(text)
    return list(recorder)


def test_each_warning_is_recorded_once_in_order() -> None:
    assert recorded("b", "a", "", "b") == ["b", "a"]
    assert not WarningRecorder()


def test_warnings_are_whole_as_long_as_all_fit() -> None:
    texts = ["a" * 2000, "b" * 2000, "c" * 96]
    assert recorded(*texts) == texts


def test_beyond_the_limit_all_are_truncated() -> None:
    assert recorded("a" * 3000, "b" * 1097, "c" * 300) == ["a" * 256, "b" * 256, "c" * 256]
    assert recorded("a" * 5000) == ["a" * 256]


def test_the_number_is_bounded() -> None:
    texts = recorded(*(f"{number:06}" + "x" * 300 for number in range(100_000)))
    assert len(texts) == 16
    assert all(len(text) == 256 for text in texts)
