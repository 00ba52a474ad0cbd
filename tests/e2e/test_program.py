"""The real program: how it starts, refuses to start, stops, and comes back."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_SECONDS = 30
_NAMESPACE = b'{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kept"}}'


class Program:
    """A running `kubeloop`, from its ready line to its end."""

    def __init__(self, arguments: list[str]) -> None:
        command = [sys.executable, "-m", "kubeloop.cli.main", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline().rstrip("\n")

    @property
    def port(self) -> int:
        return int(self.line.split(" is ready at https://")[1].split(":")[1])

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=_SECONDS)
        return self.process.returncode, errors

    def request(self, folder: Path, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """As the administrator, whose keys are in the data folder."""
        context = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
        context.load_cert_chain(folder / "pki" / "admin.crt", folder / "pki" / "admin.key")
        connection = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=_SECONDS)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def program(data: Path) -> Iterator[Program]:
    running = Program(["up", "--data-dir", str(data), "--port", "0"])
    yield running
    running.process.kill()
    running.process.communicate()


def refused(arguments: list[str]) -> str:
    """The one line that a start which can't be ends with."""
    command = [sys.executable, "-m", "kubeloop.cli.main", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    assert ended.returncode == 1
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    return lines[0]


def test_ready_line_says_where_the_server_is_and_which_kubeconfig_to_use(program: Program, data: Path) -> None:
    assert program.line.endswith(f"is ready at https://127.0.0.1:{program.port}: export KUBECONFIG={data}/admin.conf")
    assert (data / "admin.conf").stat().st_mode & 0o777 == 0o600
    assert program.request(data, "GET", "/readyz") == (200, b"ok")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_program_cleanly_and_silently(number: int, program: Program) -> None:
    assert program.stop(number) == (0, "")


def test_state_comes_back_with_the_next_start(program: Program, data: Path) -> None:
    status, created = program.request(data, "POST", "/api/v1/namespaces", _NAMESPACE)
    assert status == 201
    program.stop()
    again = Program(["up", "--data-dir", str(data), "--port", "0"])
    try:
        status, found = again.request(data, "GET", "/api/v1/namespaces/kept")
    finally:
        again.stop()
    assert (status, found) == (200, created)


def test_second_instance_on_the_same_data_is_refused(program: Program, data: Path) -> None:
    assert str(program.process.pid) in refused(["up", "--data-dir", str(data), "--port", "0"])


def test_used_port_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refused(["up", "--data-dir", str(tmp_path), "--port", port])
    assert line == f"kubeloop: cannot listen on 127.0.0.1:{port}: address already in use"


def test_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = refused(["up", "--data-dir", str(tmp_path / "file" / "data"), "--port", "0"])
    assert line == f"kubeloop: {tmp_path}/file/data: not a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "permission denied" in refused(["up", "--data-dir", str(tmp_path / "data"), "--port", "0"])


def test_damaged_store_is_refused(program: Program, data: Path) -> None:
    program.stop()
    (data / "store.db").write_bytes(b"this was a database once " * 100)
    assert "store.db" in refused(["up", "--data-dir", str(data), "--port", "0"])


def test_damaged_key_is_refused(program: Program, data: Path) -> None:
    program.stop()
    (data / "pki" / "ca.key").write_bytes(b"")
    assert "ca.key" in refused(["up", "--data-dir", str(data), "--port", "0"])


def test_kubeconfig_that_is_none_is_left_alone_and_the_start_refused(tmp_path: Path) -> None:
    target = tmp_path / "precious.txt"
    target.write_text("precious")
    line = refused(["up", "--data-dir", str(tmp_path / "data"), "--port", "0", "--kubeconfig", str(target)])
    assert "precious.txt" in line
    assert target.read_text() == "precious"


def test_ephemeral_plane_leaves_nothing_behind() -> None:
    running = Program(["up", "--ephemeral", "--port", "0"])
    kubeconfig = Path(running.line.rsplit("KUBECONFIG=", 1)[1])
    existed = kubeconfig.exists()
    assert running.stop() == (0, "")
    assert existed
    assert not kubeconfig.parent.exists()


def test_nodes_that_cannot_be_had_yet_are_told_of() -> None:
    running = Program(["up", "--ephemeral", "--port", "0", "--nodes", "3"])
    code, errors = running.stop()
    assert code == 0
    assert errors == "kubeloop: --nodes 3 has no effect: this version runs no nodes yet\n"


def test_api_server_alone_takes_tokens_from_a_file(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,boss,1,"system:masters"\n')
    flags = ["--store=memory", "--secure-port=0", "--bind-address=127.0.0.1", f"--cert-dir={tmp_path / 'pki'}"]
    running = Program(["apiserver", *flags, f"--token-auth-file={tokens}", "--anonymous-auth=false"])
    try:
        assert ask_with_token(running, tmp_path, "secret") == 200
        assert ask_with_token(running, tmp_path, "guess") == 401
        assert ask_with_token(running, tmp_path, "") == 401
    finally:
        assert running.stop() == (0, "")


def ask_with_token(running: Program, folder: Path, token: str) -> int:
    context = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
    connection = http.client.HTTPSConnection("localhost", running.port, context=context, timeout=_SECONDS)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("GET", "/api/v1/namespaces", headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status
