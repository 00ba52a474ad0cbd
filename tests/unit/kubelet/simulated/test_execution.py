# SPDX-License-Identifier: Apache-2.0
"""Tests of commands in simulated containers, and of terminals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from kubeloop.api.kubelet_requests import TerminalSize
from kubeloop.kubelet.simulated.commands import CommandContext, is_interactive, run_command
from kubeloop.kubelet.simulated.files import MAX_TOTAL_BYTES, FileSystemFull, InMemoryFiles


class Client:
    """Client that sends a few inputs and records the output."""

    def __init__(self, *said: bytes, tty: bool = False) -> None:
        self.stdin, self.tty = bool(said), tty
        self.size: TerminalSize | None = TerminalSize(80, 24) if tty else None
        self._said = list(said)
        self.out = self.err = b""

    async def read(self) -> bytes:
        return self._said.pop(0) if self._said else b""

    async def write(self, data: bytes) -> None:
        self.out += data

    async def write_error(self, data: bytes) -> None:
        self.err += data


def around(files: InMemoryFiles | None = None) -> CommandContext:
    return CommandContext("web", {"HOSTNAME": "web", "COLOUR": "blue"}, files or InMemoryFiles())


def run(command: Iterable[str], client: Client, files: InMemoryFiles | None = None) -> int:
    return asyncio.run(run_command(tuple(command), around(files), client))


@pytest.mark.parametrize(
    ("command", "said", "code"),
    [
        (["echo", "one", "two"], b"one two\n", 0),
        (["/bin/hostname"], b"web\n", 0),
        (["env"], b"HOSTNAME=web\nCOLOUR=blue\n", 0),
        (["printenv", "COLOUR"], b"blue\n", 0),
        (["printenv", "SHAPE"], b"", 1),
        (["false"], b"", 1),
        (["sh", "-c", "echo $COLOUR ${HOSTNAME} $SHAPE"], b"blue web $SHAPE\n", 0),
        (["sh", "-c", "false || echo saved && exit 7"], b"saved\n", 7),
        (["sh", "-c", "false && echo never; true"], b"", 0),
        (["sh", "-c", "echo kept > /tmp/x; echo more >> /tmp/x; cat /tmp/x; ls /tmp"], b"kept\nmore\nx\n", 0),
        (["sh", "-c", "mkdir -p /data/in && touch /data/in/a && ls /data /data/in && rm -r /data"], b"in\na\n", 0),
        (["sh", "-c", "test -d /tmp && test -e /tmp && test -f /tmp"], b"", 1),
        (["pwd"], b"/\n", 0),
    ],
)
def test_commands_are_executed(command: list[str], said: bytes, code: int) -> None:
    client = Client()
    assert (run(command, client), client.out, client.err) == (code, said, b"")


@pytest.mark.parametrize(
    ("command", "complaint", "code"),
    [
        (["nginx", "-t"], b"nginx: not found (simulated container)\n", 127),
        (["cat", "/none"], b"cat: can't open '/none': No such file or directory\n", 1),
        (["ls", "/none"], b"ls: /none: No such file or directory\n", 1),
        (["rm", "/none"], b"rm: can't remove '/none': No such file or directory\n", 1),
        (["tar", "cf", "-", "/none"], b"tar: /none: No such file or directory\n", 1),
        (["stty", "size"], b"stty: standard input: Not a tty\n", 1),
    ],
)
def test_failing_commands_write_to_stderr(command: list[str], complaint: bytes, code: int) -> None:
    client = Client()
    assert (run(command, client), client.out, client.err) == (code, b"", complaint)


def test_piped_input_is_streamed() -> None:
    client = Client(b"one", b"two")
    assert (run(["cat"], client), client.out) == (0, b"onetwo")


def test_shell_reads_its_script_line_by_line_until_exit() -> None:
    client = Client(b"echo on", b"e\nhostname\nexit 4\necho never\n")
    assert (run(["sh"], client), client.out) == (4, b"one\nweb\n")


def test_terminal_echoes_and_supports_editing() -> None:
    client = Client(b"ecko\x7f\x7fho hi\r", b"half a line\x03", b"stty size\r", b"\x04", tty=True)
    assert run(["sh"], client) == 0
    shown = client.out.decode().replace("\b \b", "<").splitlines()
    assert shown == ["/ # ecko<<ho hi", "hi", "/ # half a line^C", "/ # stty size", "24 80", "/ # "]


def test_tar_round_trips() -> None:
    files, client = InMemoryFiles(), Client()
    files.write("/data/a", b"one")
    files.write("/data/deep/b", b"two")
    assert run(["tar", "cf", "-", "/data"], client, files) == 0
    other = InMemoryFiles()
    assert run(["tar", "-xmf", "-", "-C", "/copy"], Client(client.out), other) == 0
    assert (other.read("/copy/data/a"), other.read("/copy/data/deep/b")) == (b"one", b"two")
    assert other.is_folder("/copy/data/deep")
    broken = Client(b"no archive")
    assert run(["tar", "xf", "-"], broken, other) == 1
    assert broken.err.startswith(b"tar: ")


def test_container_storage_is_limited() -> None:
    files, client = InMemoryFiles(), Client(b"x")
    files.write("/a", bytes(MAX_TOTAL_BYTES))
    with pytest.raises(FileSystemFull):
        files.write("/b", b"x")
    files.write("/a", bytes(MAX_TOTAL_BYTES))
    assert run(["tee", "/b"], client, files) == 1
    assert client.err == b"No space left on device\n"
    files.remove("/a")
    files.write("/b", b"x")


@pytest.mark.parametrize(
    ("command", "waits"),
    [((), True), (("sh",), True), (("cat",), True), (("sh", "-c", "x"), False), (("nginx",), False)],
)
def test_shells_and_cat_wait_for_input(command: tuple[str, ...], waits: bool) -> None:
    assert is_interactive(command) is waits
