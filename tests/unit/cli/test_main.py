# SPDX-License-Identifier: Apache-2.0
"""Tests of the command line itself: help, errors with the nearest valid word, completion, and help of every flag."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from kubeloop.cli.main import COMMANDS, Command, build_parser, main, parse_command


def test_program_alone_prints_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    for line in shown.splitlines():
        if line.startswith("  kubeloop ") and "COMMAND" not in line:
            parse_command(shlex.split(line)[1:])
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


EVERY = [pytest.param(one, id=one.prog) for name in COMMANDS for one in _parsers(build_parser(name))]


def _examples(parser: argparse.ArgumentParser) -> Iterator[list[str]]:
    """Yield the command lines of the program in the examples of a help text."""
    head, _, lines = (parser.epilog or "").partition("\n")
    assert head == "Examples:"
    for line in lines.splitlines():
        assert not line or line.startswith("  ")
        if "kubeloop" in line and not line.strip().startswith("#"):
            found = re.search(r"(?:^|<\()kubeloop ([^)>|]*)", line.strip())
            assert found is not None, line
            yield shlex.split(found[1])


@pytest.mark.parametrize("parser", EVERY)
def test_help_has_a_description_usage_and_examples_that_parse(parser: argparse.ArgumentParser) -> None:
    lines = parser.format_help().splitlines()
    assert lines[0] == (parser.description or "").splitlines()[0]
    assert f"  {parser.prog} " in "\n".join(lines)
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles[:2] == ["Usage:", "Examples:"]
    assert titles[-1] == "Flags:"
    examples = list(_examples(parser))
    assert any(f"kubeloop {' '.join(one)} ".startswith(f"{parser.prog} ") for one in examples)
    for one in examples:
        parse_command(one)


@pytest.mark.parametrize("parser", EVERY)
def test_summaries_descriptions_and_flags_are_written_alike(parser: argparse.ArgumentParser) -> None:
    description = parser.description or ""
    assert re.fullmatch(r"[A-Z].*\.", description, re.DOTALL), description
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            assert all(re.fullmatch(r"[A-Z].*[^.]", str(one.help)) for one in action._choices_actions)
        elif action.help != argparse.SUPPRESS:
            # A lower case word, or a name with several capital letters; no full stop.
            assert re.fullmatch(r"([a-z0-9]|\S*[A-Z]\S*[A-Z]).*[^.]", str(action.help)), action.help


@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_summary_is_a_phrase_with_a_capital_letter(command: Command) -> None:
    assert re.fullmatch(r"[A-Z][^.]*", command.summary)
    assert len(command.summary) <= 60


@pytest.mark.parametrize("command", ["up", "apiserver", "controller-manager", "scheduler", "kubelet"])
def test_flags_of_large_commands_are_grouped(command: str) -> None:
    parser = build_parser(command)
    shown = {one.dest for one in parser._actions if one.help != argparse.SUPPRESS}
    parser.format_help()
    grouped = [one.dest for group in parser._action_groups for one in group._group_actions]
    assert shown <= set(grouped)
    assert len(grouped) == len(set(grouped)) or command in ("apiserver", "kubelet")  # hidden flags share one
    remaining = {one.dest for one in parser._optionals._group_actions if one.help != argparse.SUPPRESS}
    assert remaining <= {"help", "version"}
    assert [group.title for group in parser._action_groups if len(group._group_actions) > 60] in ([], ["Flags"])


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
