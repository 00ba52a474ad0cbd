# SPDX-License-Identifier: Apache-2.0
"""The status line of `kubeloop up` on a real pseudo-terminal, and plain lines elsewhere."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.plane import NO_PORTS, environment
from tests.e2e.terminal import Screen, Terminal, program_on_terminal

UP = (sys.executable, "-m", "kubeloop", "up", "--port", "0", *NO_PORTS)


def settings(folder: Path, **changes: str) -> dict[str, str]:
    """Return the environment of a person at a terminal."""
    kept = {name: value for name, value in environment().items() if name not in ("CI", "NO_COLOR")}
    return {**kept, "TERM": "xterm-256color", "XDG_STATE_HOME": str(folder), **changes}


def bottom(screen: Screen) -> str:
    return screen.rows[-1]


def run_node(terminal: Terminal, *arguments: str) -> None:
    """Run `kubeloop node` against the cluster whose ready line is on the screen."""
    found = re.search(r"KUBECONFIG=(\S+)", terminal.output)
    assert found is not None
    command = [sys.executable, "-m", "kubeloop", "node", *arguments, "--kubeconfig", found[1]]
    subprocess.run(command, check=True, capture_output=True, env=environment(), timeout=GIVE_UP_SECONDS)


def test_line_follows_the_cluster_and_ends_with_a_summary(tmp_path: Path) -> None:
    with program_on_terminal(UP, settings(tmp_path), 200) as terminal:
        screen = terminal.wait(lambda screen: "nodes 1/1" in bottom(screen))
        assert re.fullmatch(r"kubeloop  pods 0/0  nodes 1/1  loops (\d+)/\1  errors 0  restarts 0", bottom(screen))
        assert "32" in screen.colors
        assert " is ready at https://127.0.0.1:" in screen.rows[-2]
        run_node(terminal, "add", "n2")
        terminal.wait(lambda screen: "nodes 2/2" in bottom(screen))
        terminal.interrupt()
        assert terminal.wait_exit() == 0
    assert "errors" not in "\n".join(screen.rows)
    head, state, restart, delete = screen.rows[-5:-1]
    assert re.fullmatch(r"Cluster 'kubeloop' ran for \d+s with \d+ objects\.", head)
    assert state == f"  State:   {tmp_path}/kubeloop/clusters/kubeloop"
    assert restart == "  Restart: kubeloop " + " ".join(UP[3:])
    assert delete == "  Delete:  kubeloop delete kubeloop"


def test_log_lines_appear_above_the_line(tmp_path: Path) -> None:
    with program_on_terminal((*UP, "--ephemeral", "-v", "4"), settings(tmp_path), 60_000) as terminal:
        terminal.wait(lambda screen: "nodes 1/1" in bottom(screen))
        before = len(terminal.screen.rows)
        run_node(terminal, "stop", "n1")
        run_node(terminal, "start", "n1")
        screen = terminal.wait(lambda screen: len(screen.rows) > before and "nodes 1/1" in bottom(screen))
        assert [row for row in screen.rows[before - 1 : -1] if not re.match(r"[DIWE]\d{4} ", row)] == []
        assert sum("restarts " in row for row in screen.rows) == 1
        terminal.interrupt()
        assert terminal.wait_exit() == 0
    assert "  State:   was in memory, and is gone" in screen.rows
    assert not any(row.startswith("  Delete") for row in screen.rows)


def test_narrow_terminal_has_the_first_parts_and_never_two_rows(tmp_path: Path) -> None:
    with program_on_terminal((*UP, "--ephemeral"), settings(tmp_path), 32) as terminal:
        screen = terminal.wait(lambda screen: bottom(screen) == "kubeloop  pods 0/0  nodes 1/1")
        terminal.resize(20)
        terminal.wait(lambda screen: bottom(screen) == "kubeloop  pods 0/0")
        assert sum("pods" in row for row in screen.rows) == 1
        terminal.resize(100)
        terminal.wait(lambda screen: bottom(screen).endswith("restarts 0"))
        assert sum("pods" in row for row in screen.rows) == 1


@pytest.mark.parametrize(
    ("changes", "flags"),
    [({"TERM": "dumb"}, ()), ({"CI": "true"}, ()), ({}, ("-o", "json"))],
    ids=["dumb", "ci", "output"],
)
def test_plain_lines_where_nobody_looks(tmp_path: Path, changes: dict[str, str], flags: tuple[str, ...]) -> None:
    with program_on_terminal((*UP, "--ephemeral", *flags), settings(tmp_path, **changes), 200) as terminal:
        terminal.wait(lambda screen: any("https://127.0.0.1:" in row for row in screen.rows) and bottom(screen) == "")
        terminal.interrupt()
        assert terminal.wait_exit() == 0
    assert "\x1b" not in terminal.output
    assert "restarts" not in terminal.output
    assert ("ran for" in terminal.output) == (not flags)


def test_no_color_is_respected(tmp_path: Path) -> None:
    with program_on_terminal((*UP, "--ephemeral"), settings(tmp_path, NO_COLOR="1"), 200) as terminal:
        screen = terminal.wait(lambda screen: "nodes 1/1" in bottom(screen))
        assert screen.colors == set()


def test_without_a_terminal_the_modules_are_not_loaded(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", *UP[1:], "--ephemeral"]
    imports = tmp_path / "imports"  # more than a pipe holds
    with (
        imports.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=settings(tmp_path)) as process,
    ):
        assert process.stdout is not None
        assert " is ready at " in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=GIVE_UP_SECONDS)
    loaded = imports.read_text()
    assert process.returncode == 0
    assert rest.startswith("Cluster 'kubeloop' ran for ")
    assert "kubeloop.cli.up.control_plane" in loaded
    assert "kubeloop.cli.up.status_line" not in loaded
    assert "kubeloop.cli.program.terminal_line" not in loaded
