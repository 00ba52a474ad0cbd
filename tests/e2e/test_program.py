# SPDX-License-Identifier: Apache-2.0
"""Tests of the program's output: its ready line, and the error line of a failed start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.plane import NO_PORTS, environment

PROGRAM = [sys.executable, "-m", "kubeloop.cli.main"]


def up_and_down(*arguments: str) -> tuple[str, int, str]:
    """The ready line, and after a SIGTERM the exit code and everything on stderr."""
    command = [*PROGRAM, "up", "--port", "0", *NO_PORTS, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment()) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=GIVE_UP_SECONDS)
    assert rest == ""
    return line.rstrip("\n"), process.returncode, errors


def refused(*arguments: str) -> str:
    """The one line that a start which can't be ends with."""
    command = [*PROGRAM, "up", "--port", "0", *NO_PORTS, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, env=environment())
    assert ended.returncode == 1
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    return lines[0]


def test_ready_line_has_url_and_kubeconfig(tmp_path: Path) -> None:
    line, code, errors = up_and_down("--data-dir", str(tmp_path))
    assert " is ready at https://127.0.0.1:" in line
    assert line.endswith(f": export KUBECONFIG={tmp_path}/admin.conf")
    assert (code, errors) == (0, "")


def test_corrupt_key_is_named(tmp_path: Path) -> None:
    up_and_down("--data-dir", str(tmp_path))
    (tmp_path / "pki" / "ca.key").write_bytes(b"")
    assert refused("--data-dir", str(tmp_path)) == f"kubeloop: {tmp_path}/pki/ca.key: contains no usable private key"


def test_invalid_kubeconfig_is_not_overwritten_and_the_start_fails(tmp_path: Path) -> None:
    target = tmp_path / "precious.txt"
    target.write_text("precious")
    assert "precious.txt" in refused("--data-dir", str(tmp_path / "data"), "--kubeconfig", str(target))
    assert target.read_text() == "precious"


def test_nodes_start_and_stop_silently() -> None:
    _, code, errors = up_and_down("--ephemeral", "--nodes", "3")
    assert (code, errors) == (0, "")
