# SPDX-License-Identifier: Apache-2.0
"""Directions in annotations."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeloop.kubelet.simulated.script import DIRECTIONS, PREFIX, Interval, Script, has_directions


def script(container: str = "app", **texts: str) -> Script:
    return Script({PREFIX + key.replace("_", "-"): text for key, text in texts.items()}, container)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5.0), ("2.5", 2.5), ("1m30s", 90.0), ("200ms", 0.2), ("", None), ("soon", None)]
)
def test_times_are_durations_or_seconds(text: str, seconds: float | None) -> None:
    assert script(exit_after=text).seconds("exit-after") == seconds


@pytest.mark.parametrize(
    ("text", "intervals"),
    [
        ("", ()),
        ("always", ((0.0, None),)),
        ("10s-20s", ((10.0, 20.0),)),
        ("5-", ((5.0, None),)),
        ("-5s", ((0.0, 5.0),)),
        ("1s-2s, 3s-4s", ((1.0, 2.0), (3.0, 4.0))),
        ("nonsense", ()),
    ],
)
def test_intervals_define_states_over_time(text: str, intervals: tuple[Interval, ...]) -> None:
    assert script(fail_readiness=text).intervals("fail-readiness") == intervals


def test_directive_for_a_container_overrides_the_general_one() -> None:
    annotations = {PREFIX + "exit-code": "1", PREFIX + "exit-code.app": "2"}
    assert Script(annotations, "app").number("exit-code") == 2
    assert Script(annotations, "other").number("exit-code") == 1


def test_invalid_directives_are_ignored() -> None:
    assert script(exit_code="one").number("exit-code") is None
    assert script(cpu="much").quantity("cpu") is None
    assert has_directions({PREFIX + "cpu": "1"})
    assert not has_directions({"example.com/cpu": "1"})


def test_every_directive_is_documented() -> None:
    text = (Path(__file__).parents[4] / "docs" / "nodes.md").read_text()
    assert [one for one in sorted(DIRECTIONS) if f"`{one}`" not in text] == []
