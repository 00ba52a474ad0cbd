# SPDX-License-Identifier: Apache-2.0
"""Tests of simulated command lines."""

from __future__ import annotations

import pytest

from kubeloop.kubelet.simulated.shell import ENDLESS, command_behavior


@pytest.mark.parametrize(
    ("command", "seconds", "code"),
    [
        (["true"], 0, 0),
        (["/bin/true"], 0, 0),
        (["false"], 0, 1),
        (["sleep", "5"], 5, 0),
        (["sleep", "1m", "0.5"], 60.5, 0),
        (["sleep", "soon"], 0, 1),
        (["echo", "hi"], 0, 0),
        (["sh", "-c", "exit 3"], 0, 3),
        (["sh", "-c", "exit 300"], 0, 44),
        (["/bin/bash", "-ec", "sleep 2; false"], 2, 1),
        (["sh", "-c", "true && exit 4"], 0, 4),
        (["sh", "-c", "false && exit 4"], 0, 1),
        (["sh", "-c", "false || exit 5"], 0, 5),
        (["sh", "-c", "true || exit 5; exit 6"], 0, 6),
        (["sh", "-c", "echo working\nsleep 3\nexit"], 3, 0),
        (["sh", "-c", "python work.py; exit 7"], 0, 7),
        (["sh", "-c", "exec sleep 9"], 9, 0),
        (["sh", "-c", "sh -c 'exit 2'"], 0, 2),
        (["sh", "-c", "sleep 1 # then nothing"], 1, 0),
        (["sh", "-c", ""], 0, 0),
    ],
)
def test_known_commands_have_their_exit_code(command: list[str], seconds: float, code: int) -> None:
    course = command_behavior(command)
    assert (course.seconds, course.exit_code) == (seconds, code)


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["nginx"],
        ["sleep", "infinity"],
        ["sh"],
        ["bash", "run.sh"],
        ["sh", "-c", "nginx -g 'daemon off;'"],
        ["sh", "-c", "while true; do sleep 1; done"],
        ["sh", "-c", "echo started; exec server"],
        ["python", "-c", "exit(1)"],
    ],
)
def test_unknown_commands_keep_running(command: list[str]) -> None:
    assert command_behavior(command).seconds is None


def test_lines_are_written_on_schedule() -> None:
    course = command_behavior(["sh", "-c", "echo one; sleep 2; echo 'two three' && sh -c 'sleep 1; echo four'; exit 1"])
    assert course.lines == ((0.0, "one"), (2.0, "two three"), (3.0, "four"))
    assert command_behavior(["server"]) is ENDLESS
