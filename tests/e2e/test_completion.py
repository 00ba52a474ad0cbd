# SPDX-License-Identifier: Apache-2.0
"""Completion in real shells: the script is sourced, and Tab pressed on a pseudo-terminal."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.plane import environment
from tests.e2e.terminal import program_with_descriptor
from tests.skips import NEEDS_TOOL

# What is typed before Tab, and the words of the command line after it.
LINES = [
    ("kubeloop sta", "status"),
    ("kubeloop node dr", "node drain"),
    ("kubeloop node drain n1 --ti", "node drain n1 --timeout"),
    ("kubeloop up --deta", "up --detach"),
    ("kubeloop status --output js", "status --output json"),
    ("kubeloop up --node-events war", "up --node-events warnings"),
    ("kubeloop controller-manager stat", "controller-manager status"),
    ("kubeloop completion f", "completion fish"),
    ("kubeloop up --kubeconfig ./conf", "up --kubeconfig ./config.yaml"),
]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes the script of a shell to a file."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "config.yaml").touch()

    @cache
    def write(shell: str) -> Path:
        command = [sys.executable, "-m", "kubeloop", "completion", shell]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
        path = folder / shell
        path.write_text(done.stdout)
        return path

    return write


def path_of(shell: str) -> str:
    """Return the path of a shell, or skip the test."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{NEEDS_TOOL}{shell}")
    return found


# Shells are started without the user's files. The completed line is run by a function that prints its arguments.
PREPARATION = {
    "bash": (["--norc", "--noprofile", "-i"], "bind 'set bell-style none'"),
    "zsh": (["-f", "-i"], "autoload -U compinit && compinit -u -D; unsetopt beep prompt_cr prompt_sp"),
}


@pytest.mark.parametrize("shell", PREPARATION)
def test_tab_completes_commands_actions_flags_and_values(shell: str, script: Callable[[str], Path]) -> None:
    program, file = path_of(shell), script(shell)
    flags, preparation = PREPARATION[shell]
    settings = {**environment(), "TERM": "dumb", "PS1": "> ", "HOME": str(file.parent), "HISTFILE": ""}
    typed = [f"cd {file.parent}", preparation, f"source {file}", 'kubeloop() { echo "[ran $*]"; }']
    typed += [f"{line}\t" for line, _ in LINES]
    with program_with_descriptor([program, *flags], settings) as read_until:
        for number, line in enumerate(typed):
            shown = read_until(f"{line}\n", f"echo done-$(({number} + 0))\n", f"done-{number}\r\n")
            if line.endswith("\t"):
                expected = dict(LINES)[line.rstrip("\t")]
                assert [one.strip() for one in re.findall(r"\[ran (.*?)\]", shown)] == [expected]


@pytest.mark.parametrize(("line", "completed"), LINES)
def test_fish_completes_commands_actions_flags_and_values(
    line: str, completed: str, script: Callable[[str], Path]
) -> None:
    program, file = path_of("fish"), script("fish")
    settings = {**environment(), "HOME": str(file.parent), "XDG_CONFIG_HOME": str(file.parent)}
    command = [program, "--no-config", "-c", f"source {file}; complete -C '{line}'"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=settings, cwd=file.parent, timeout=GIVE_UP_SECONDS, check=True
    )
    offered = [one.partition("\t")[0] for one in done.stdout.splitlines()]
    assert offered == [completed.rpartition(" ")[2]], os.linesep.join(offered)
