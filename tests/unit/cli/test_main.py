# SPDX-License-Identifier: Apache-2.0
"""Tests of the command line itself: help, errors with the nearest valid word, completion, and help of every flag."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from kubeloop.cli.main import COMMANDS, build_parser, main


def test_program_alone_prints_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert all(f"  {name}" in shown for name in COMMANDS)


@pytest.mark.parametrize("flag", ["--version", "-V", "version"])
def test_version_is_printed(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    assert capsys.readouterr().out.startswith("kubeloop ")


def test_unknown_command_is_answered_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statsu"]) == 2
    assert "unknown command: statsu; did you mean status?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error", "usage"),
    [
        (["up", "--nodez", "3"], "unknown flag: --nodez; did you mean --nodes?", "usage: kubeloop up [flags]"),
        (["up", "--xyz=1"], "unknown flag: --xyz\n", "Run 'kubeloop up --help'"),
        (["stop", "a", "--al"], "unknown flag: --al; did you mean --all?", "usage: kubeloop stop"),
        (["node", "drain", "n1", "--timeut", "3"], "did you mean --timeout?", "usage: kubeloop node drain"),
        (["up", "--node-events", "some"], "choose from 'none', 'warnings', 'all'", "usage: kubeloop up"),
        (["up", "more"], "unexpected argument: more", "usage: kubeloop up"),
        (["up", "--name", "A B"], "'A B' is not a name", "usage: kubeloop up"),
    ],
)
def test_wrong_argument_is_answered_with_usage_and_advice(
    arguments: list[str], error: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    shown = capsys.readouterr().err
    assert caught.value.code == 2
    assert error in shown
    assert usage in shown


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from _parsers(one)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_has_a_help_text(command: str) -> None:
    without = [
        (parser.prog, action.option_strings or action.dest)
        for parser in _parsers(build_parser(command))
        for action in parser._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert without == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_can_be_formatted(command: str) -> None:
    for parser in _parsers(build_parser(command)):
        assert parser.prog in parser.format_help()


def test_completion_of_bash_offers_commands_actions_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    bash = shutil.which("bash")
    assert bash is not None

    def completed(*words: str) -> list[str]:
        line = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _kubeloop; echo ${{COMPREPLY[@]}}"
        done = subprocess.run([bash, "-c", f"{script}\n{line}"], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert completed("kubeloop", "sta") == ["status"]
    assert completed("kubeloop", "node", "dr") == ["drain"]
    assert completed("kubeloop", "up", "--deta") == ["--detach"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_of_other_shells_names_all_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
