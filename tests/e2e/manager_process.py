# SPDX-License-Identifier: Apache-2.0
"""The controller manager as a child process beside an API server."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.plane import GIVE_UP_SECONDS, PROGRAM, Answer, Plane, _Connection, _first_line, call_on, environment


class ManagerProcess:
    """Manager of a plane that can be restarted on the same port."""

    def __init__(self, plane: Plane, folder: Path, *flags: str) -> None:
        self.plane = plane
        self.folder = folder
        self.flags = flags
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)

    def start(self) -> None:
        assert self.process is None
        arguments = [*PROGRAM, "controller-manager", "--kubeconfig", str(self.plane.kubeconfig), *self.flags]
        arguments += ["--secure-port", str(self.port), "--bind-address", "127.0.0.1", "--cert-dir", str(self.folder)]
        with (self.folder / "stderr").open("ab") as errors:
            self.process = subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=errors, env=environment(), cwd=self.folder
            )
        line = _first_line(self.process)
        assert " is ready at " in line, (line, self.errors())

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it and wait; the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        assert self.process is not None
        try:
            return self.process.wait(GIVE_UP_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    def close(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)  # a stopped one would never end
            self.stop(signal.SIGKILL)

    def errors(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")

    def get(self, path: str, *, as_admin: bool = True) -> Answer:
        """Return the response of the port."""
        tls = ssl.create_default_context(cafile=str(self.folder / "kube-controller-manager.crt"))
        if as_admin:
            tls.load_cert_chain(self.plane.folder / "client-certificate.pem", self.plane.folder / "client-key.pem")
        connection = _Connection("127.0.0.1", self.port, timeout=GIVE_UP_SECONDS, context=tls)
        try:
            return call_on(connection, "GET", path)
        finally:
            connection.close()

    def status(self, *flags: str) -> subprocess.CompletedProcess[str]:
        """The status command."""
        arguments = [*PROGRAM, "controller-manager", "status", "--server", f"https://127.0.0.1:{self.port}", *flags]
        arguments += ["--kubeconfig", str(self.plane.kubeconfig)]
        arguments += ["--certificate-authority", str(self.folder / "kube-controller-manager.crt")]
        return subprocess.run(arguments, capture_output=True, text=True, env=environment(), timeout=GIVE_UP_SECONDS)

    def loops(self) -> dict[str, Any]:
        """Return the controllers by name from the status command."""
        answer = self.status("-o", "json")
        assert answer.stdout, answer.stderr
        return {loop["name"]: loop for loop in json.loads(answer.stdout)["loops"]}

    def is_leading(self) -> bool:
        answer = self.get("/loops")
        assert answer.status == 200, answer.body
        return bool(answer.json["leading"])


def free_port() -> int:
    """Return a free port; 0 would mean no port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
