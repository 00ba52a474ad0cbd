# SPDX-License-Identifier: Apache-2.0
"""The measured program: a child process with durable writes in its own folder."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.connection import Connection


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used: unlike its duration, it hardly depends on other load."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the memory in use of a process, as Linux counts it."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True, slots=True)
class Program:
    """A server that answers."""

    folder: Path
    pid: int
    port: int
    start_seconds: float

    def tls(self) -> ssl.SSLContext:
        """Return a connection with the administrator's certificate."""
        pki = self.folder / "pki"
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        return context

    def resident_mib(self) -> float:
        """Memory in use, as Linux counts it."""
        return resident_mib(self.pid)


def running(folder: Path, store: str = "sqlite", nodes: int = 0) -> AbstractAsyncContextManager[Program]:
    """Start in a folder with a store and nodes, wait for `/readyz`, and stop at the end."""
    where = ["--data-dir", str(folder), "--port", "0", "--store", store]
    return _started(folder, ["up", *where, "--nodes", str(nodes)])


def another_server(first: Program, store: str) -> AbstractAsyncContextManager[Program]:
    """An API server alone, with the keys of one that runs already."""
    keys = first.folder / "pki"
    files = {
        "tls-cert-file": "apiserver.crt",
        "tls-private-key-file": "apiserver.key",
        "client-ca-file": "ca.crt",
        "service-account-signing-key-file": "sa.key",
        "service-account-key-file": "sa.pub",
    }
    flags = [f"--{name}={keys / file}" for name, file in files.items()]
    issuer = "--service-account-issuer=https://kubernetes.default.svc"
    where = ["--store", store, "--secure-port", "0", "--bind-address", "127.0.0.1"]
    return _started(first.folder, ["apiserver", *where, *flags, issuer])


def under_callgrind(folder: Path, tree: Path, report: Path) -> AbstractAsyncContextManager[Program]:
    """Start the program of a checkout under valgrind, which counts no instructions until it is told to."""
    tool = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={report}"]
    where = ["--data-dir", str(folder), "--port", "0", "--controller-manager-port", "0", "--nodes", "0"]
    return _started(folder, ["up", *where], tool, {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"})


@asynccontextmanager
async def _started(
    folder: Path, arguments: list[str], wrapper: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> AsyncIterator[Program]:
    began = time.perf_counter()
    command = [*wrapper, sys.executable, "-m", "kubeloop.cli.main", *arguments]
    environment = {**os.environ, **(variables or {})}
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        port = int(line.partition("https://127.0.0.1:")[2].partition(":")[0])
        started = Program(folder, process.pid, port, 0.0)
        connection = await Connection.open(port, started.tls())
        await connection.call("GET", "/readyz")
        yield Program(folder, process.pid, port, time.perf_counter() - began)
        connection.close()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()
