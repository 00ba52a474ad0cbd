# SPDX-License-Identifier: Apache-2.0
"""Real etcd servers on loopback for tests: one member, or a cluster of them, each killed and started at will."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kubeloop.chaos.plane import etcd_program, free_ports
from kubeloop.store.etcd.config import EtcdConfig

_FAST = ("--heartbeat-interval", "50", "--election-timeout", "500")


class EtcdTls(NamedTuple):
    """TLS files of a member, and the CA of its clients."""

    authority: Path
    certificate: Path
    key: Path


class EtcdMember:
    """Server process with its data."""

    def __init__(self, name: str, folder: Path, tls: EtcdTls | None = None) -> None:
        self.name = name
        self._folder = folder
        self._tls = tls
        self.client_port, self.peer_port = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    @property
    def peer(self) -> str:
        return f"{self.name}=http://127.0.0.1:{self.peer_port}"

    def start(self, members: Sequence[EtcdMember]) -> None:
        client, peer = f"http://{self.endpoint}", f"http://127.0.0.1:{self.peer_port}"
        if self._tls is not None:
            client = client.replace("http:", "https:")
        flags = {
            "name": self.name,
            "data-dir": str(self._folder / self.name),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(member.peer for member in members),
            "log-level": "error",
        }
        given = [part for name, value in flags.items() for part in (f"--{name}", value)]
        if self._tls is not None:
            authority, certificate, key = map(str, self._tls)
            given += ["--client-cert-auth", "--trusted-ca-file", authority]
            given += ["--cert-file", certificate, "--key-file", key]
        command = [etcd_program(), *given, "--unsafe-no-fsync", *_FAST]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class EtcdCluster:
    """Cluster of members; a store waits until they respond."""

    def __init__(self, folder: Path, size: int = 1, tls: EtcdTls | None = None) -> None:
        self.members = [EtcdMember(f"m{number}", folder, tls) for number in range(size)]

    def __enter__(self) -> EtcdCluster:
        for member in self.members:
            member.start(self.members)
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()

    def config(self, prefix: str = "/", local_prefix: str = "/") -> EtcdConfig:
        return EtcdConfig(tuple(member.endpoint for member in self.members), prefix, local_prefix)
