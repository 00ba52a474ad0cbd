# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own etcd and kube-apiserver as envtest starts them: binaries that the caller has, on loopback."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.program import cpu_seconds, resident_mib
from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.client.http.readiness import insecure_context, is_ready

_POLL_SECONDS = 0.05
_PROBE_SECONDS = 30.0
_PATIENCE = 300.0
_ISSUER = "https://kubernetes.default.svc"


@dataclass(frozen=True, slots=True)
class UpstreamBinaries:
    """Paths of the programs that envtest runs."""

    kube_apiserver: str
    etcd: str


@dataclass(frozen=True, slots=True)
class UpstreamServer:
    """Ready kube-apiserver with its etcd."""

    pids: tuple[int, ...]
    start_seconds: float

    def resident_mib(self) -> float:
        """Memory in use of both processes, as Linux counts it."""
        return sum(map(resident_mib, self.pids))

    def cpu_seconds(self) -> float:
        """Processor time that both processes have used."""
        return sum(map(cpu_seconds, self.pids))


@asynccontextmanager
async def upstream_server(binaries: UpstreamBinaries, folder: Path) -> AsyncIterator[UpstreamServer]:
    """Start both programs, wait for `/readyz`, and stop them at the end; keys are created before the clock starts."""
    client, peer, secure = (_free_port() for _ in range(3))
    pki = ensure_pki(folder / "pki", ["127.0.0.1", "localhost"], datetime.now(UTC))
    began = time.perf_counter()
    with (folder / "log").open("ab") as log:
        store = await asyncio.create_subprocess_exec(
            binaries.etcd, *_etcd_flags(folder, client, peer), stdout=log, stderr=log
        )
        server = await asyncio.create_subprocess_exec(
            binaries.kube_apiserver, *_server_flags(folder, pki, secure, client), stdout=log, stderr=log
        )
    try:
        async with asyncio.timeout(_PATIENCE):
            await _wait_ready(secure, server)
        yield UpstreamServer((store.pid, server.pid), time.perf_counter() - began)
    finally:
        for process in (server, store):
            if process.returncode is None:
                process.terminate()
                await process.wait()


def _etcd_flags(folder: Path, client: int, peer: int) -> Iterator[str]:
    mine, others = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    yield f"--data-dir={folder / 'etcd'}"
    yield f"--listen-client-urls={mine}"
    yield f"--advertise-client-urls={mine}"
    yield f"--listen-peer-urls={others}"
    yield f"--initial-advertise-peer-urls={others}"
    yield f"--initial-cluster=default={others}"
    yield "--unsafe-no-fsync=true"


def _server_flags(folder: Path, pki: Pki, port: int, etcd_port: int) -> Iterator[str]:
    yield f"--etcd-servers=http://127.0.0.1:{etcd_port}"
    yield f"--secure-port={port}"
    yield "--bind-address=127.0.0.1"
    yield "--advertise-address=192.0.2.1"  # loopback is refused; nothing is sent there
    yield f"--cert-dir={folder / 'certificates'}"
    yield f"--client-ca-file={pki.ca}"
    yield f"--tls-cert-file={pki.serving_certificate}"
    yield f"--tls-private-key-file={pki.serving_key}"
    yield f"--service-account-key-file={pki.folder / 'sa.pub'}"
    yield f"--service-account-signing-key-file={pki.account_key}"
    yield f"--service-account-issuer={_ISSUER}"
    yield "--service-cluster-ip-range=10.0.0.0/24"
    yield "--authorization-mode=RBAC"
    yield "--disable-admission-plugins=ServiceAccount"
    yield "--allow-privileged=true"


async def _wait_ready(port: int, server: asyncio.subprocess.Process) -> None:
    context, ended = insecure_context(), asyncio.create_task(server.wait())
    try:
        while not ended.done():
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_PROBE_SECONDS):
                    if await is_ready(("127.0.0.1", port), context):
                        return
            await asyncio.sleep(_POLL_SECONDS)
        raise RuntimeError(f"kube-apiserver ended with code {ended.result()}")
    finally:
        ended.cancel()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
