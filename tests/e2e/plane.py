# SPDX-License-Identifier: Apache-2.0
"""The real program as a child process: started, called over its port, stopped, killed, started again."""

from __future__ import annotations

import base64
import http.client
import json
import os
import selectors
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.bounds import GIVE_UP_SECONDS

SOURCE_ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "kubeloop.cli.main")
Seen = TypeVar("Seen")


def environment() -> dict[str, str]:
    """Return the environment of a child process: this checkout's code without user settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "KOPF"))}
    return {**kept, "PYTHONPATH": str(SOURCE_ROOT)}


def eventually(look: Callable[[], Seen], seconds: float = GIVE_UP_SECONDS) -> Seen:
    """Return the first true result of `look`; raise its last failure if there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            seen = look()
            if seen or time.monotonic() > deadline:
                assert seen, f"still {seen!r} after {seconds} s"
                return seen
        except (AssertionError, OSError, http.client.HTTPException):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Answer:
    """Response of the server."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Connection(http.client.HTTPSConnection):
    """Closes its socket when the server dies during the handshake, which the library's leaves to chance."""

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        context: ssl.SSLContext = self._context  # type: ignore[attr-defined]  # where the library keeps it
        try:
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock.do_handshake()
        except BaseException as error:
            self.close()
            _close_sockets_of(error)
            raise


def _close_sockets_of(error: BaseException) -> None:
    """Close a TLS socket that failed while it was made: only the frame that made it refers to it."""
    trace = error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            if isinstance(value, ssl.SSLSocket):
                value.close()
        trace = trace.tb_next


# Several planes run at a time: their components would report ports that are taken. A test asks for what it needs: its
# flags override these.
NO_PORTS = ("--controller-manager-port", "0", "--scheduler-port", "0")
_BARE = {"up": (*NO_PORTS, "--nodes", "0", "--cloud-provider", "none", "--no-default-storage-class")}


def _flags_for(command: str, folder: Path) -> tuple[str, ...]:
    if command == "up":
        return "--data-dir", str(folder / "data")
    return "--store", f"sqlite:{folder / 'store.db'}", "--cert-dir", str(folder / "pki"), "--bind-address", "127.0.0.1"


class Plane:
    """Data folder, and its server process if running."""

    def __init__(self, folder: Path, *flags: str, command: str = "up") -> None:
        self.folder = folder
        self.flags = (*_BARE.get(command, ()), *(flags or _flags_for(command, folder)))
        self.command = command
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.kubeconfig = folder / "kubeconfig"
        self._tls: ssl.SSLContext | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> str:
        """Start and wait for the ready line; returns it. The port stays the same over restarts."""
        assert self.process is None
        port_flag = "--port" if self.command == "up" else "--secure-port"
        arguments = [*PROGRAM, self.command, *self.flags, port_flag, str(self.port)]
        with (self.folder / "stderr").open("ab") as errors:
            self.process = subprocess.Popen(
                [*arguments, "--kubeconfig", str(self.kubeconfig)],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment(),
            )
        line = _first_line(self.process)
        if " is ready at " not in line:
            code = self.process.wait(GIVE_UP_SECONDS)
            self._forget()
            raise AssertionError(f"no start: exit code {code}, said {line!r}, {self.errors()}")
        if self._tls is None:
            self._tls, self.port = read_kubeconfig(self.kubeconfig, self.folder)
        return line

    def read_access(self) -> None:
        """Read address and credentials from the kubeconfig, once the process has written it."""
        self._tls, self.port = read_kubeconfig(self.kubeconfig, self.folder)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it and wait; the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        try:
            code = self.process.wait(GIVE_UP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self._forget()
        return code

    def kill(self) -> None:
        """The end of a process that gets no chance to do anything more."""
        self.stop(signal.SIGKILL)

    def close(self) -> None:
        if self.process is not None:
            self.stop()

    def _forget(self) -> None:
        assert self.process is not None
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def errors(self) -> str:
        """Return everything written to stderr."""
        return (self.folder / "stderr").read_text(errors="replace")

    @property
    def tls(self) -> ssl.SSLContext:
        assert self._tls is not None, "never started"
        return self._tls

    def connection(self, timeout: float = GIVE_UP_SECONDS) -> http.client.HTTPSConnection:
        """A connection of one's own, with the administrator's certificate."""
        return _Connection("127.0.0.1", self.port, timeout=timeout, context=self.tls)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request on a new connection; header names have underscores for dashes."""
        connection = self.connection()
        try:
            return call_on(connection, method, path, body, **headers)
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The document at a path that is there."""
        answer = self.call("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    def create(self, path: str, document: Any) -> Any:
        """The document as it was created."""
        answer = self.call("POST", path, document)
        assert answer.status == 201, answer.body
        return answer.json

    @contextmanager
    def watch(self, path: str, timeout: float = GIVE_UP_SECONDS) -> Iterator[Iterator[Any]]:
        """The events of a watch, until it or the block ends."""
        connection = self.connection(timeout)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield (json.loads(line) for line in iter(answer.readline, b""))
        finally:
            connection.close()


def call_on(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """Send a request on a persistent connection."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    if body is not None:
        sent.setdefault("Content-Type", "application/json")
    connection.request(method, path, body, sent)
    answer = connection.getresponse()
    return Answer(answer.status, answer.headers, answer.read())


def read_kubeconfig(path: Path, folder: Path) -> tuple[ssl.SSLContext, int]:
    """Trust and credentials of the administrator, and the port."""
    config = yaml.safe_load(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    files = {}
    for name in ("client-certificate", "client-key"):
        files[name] = folder / f"{name}.pem"
        files[name].write_bytes(base64.b64decode(user[f"{name}-data"]))
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    context.load_cert_chain(files["client-certificate"], files["client-key"])
    return context, int(cluster["server"].rpartition(":")[2])


def _first_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(GIVE_UP_SECONDS):
            process.kill()
            raise AssertionError(f"said nothing for {GIVE_UP_SECONDS} s")
    return process.stdout.readline().decode()


def config_map(name: str, **data: str) -> dict[str, Any]:
    """The simplest object there is."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
