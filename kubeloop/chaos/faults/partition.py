# SPDX-License-Identifier: Apache-2.0
"""Network of a control plane: every process on its own host, which can be cut off from all the others.

    kl-…  (this process, the balancer, the clients)          kl-…-etcd-0      kl-…-apiserver-2
      bridge 10.87.0.1 ──────────────────────────── veth ──── 10.87.0.10  …    10.87.0.15   …

Hosts are network namespaces, which requires root on Linux. A host that is cut off keeps its link: packets are
dropped, as in a partitioned network, and connections hang instead of breaking.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_NETWORK = 0x40000000  # CLONE_NEWNET
_PREFIX = "10.87.0."
_FIRST_HOST = 10
_NAMES = Path("/run/netns")
HUB = f"{_PREFIX}1"


class NetworkUnavailable(RuntimeError):
    """Missing permissions or tools for network namespaces."""


class Network:
    """Hosts by name, connected by a bridge."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hub = f"kl-{os.getpid()}"
        self._numbers = {host: number for number, host in enumerate(hosts)}

    def address(self, host: str) -> str:
        """Return the address of a host."""
        return f"{_PREFIX}{_FIRST_HOST + self._numbers[host]}"

    def on(self, host: str, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command line that runs a command on a host."""
        return "ip", "netns", "exec", self._name(host), *command

    def cut_off(self, host: str) -> None:
        """Disconnect a host."""
        _ip(f"-n {self._hub} link set {self._port(host)} nomaster")

    def join(self, host: str) -> None:
        """Reconnect a host."""
        _ip(f"-n {self._hub} link set {self._port(host)} master bridge")

    def make(self) -> None:
        """Create all hosts and the hub that connects them."""
        hub = self._hub
        _ip(f"netns add {hub}")
        _ip(f"-n {hub} link set lo up")
        _ip(f"-n {hub} link add bridge type bridge")
        _ip(f"-n {hub} address add {HUB}/24 dev bridge")
        _ip(f"-n {hub} link set bridge up")
        for host in self._numbers:
            name, port = self._name(host), self._port(host)
            _ip(f"netns add {name}")
            _ip(f"-n {hub} link add {port} type veth peer name eth0 netns {name}")
            _ip(f"-n {hub} link set {port} master bridge up")
            _ip(f"-n {name} link set lo up")
            _ip(f"-n {name} address add {self.address(host)}/24 dev eth0")
            _ip(f"-n {name} link set eth0 up")

    def enter(self) -> None:
        """Move this process, and the processes it starts, to the hub."""
        handle = os.open(_NAMES / self._hub, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(handle, _NETWORK):
                raise NetworkUnavailable(f"cannot enter a network namespace: {os.strerror(ctypes.get_errno())}")
        finally:
            os.close(handle)

    def remove(self) -> None:
        """Delete all namespaces."""
        for name in (*map(self._name, self._numbers), self._hub):
            if (_NAMES / name).exists():
                _ip(f"netns delete {name}")

    def _name(self, host: str) -> str:
        return f"{self._hub}-{host}"

    def _port(self, host: str) -> str:
        return f"port{self._numbers[host]}"


@contextmanager
def network_of(hosts: Sequence[str]) -> Iterator[Network]:
    """Create a network and enter it; it is deleted at the end."""
    network = Network(hosts)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        network.make()
        network.enter()
        yield network
    finally:
        ctypes.CDLL(None, use_errno=True).setns(here, _NETWORK)
        os.close(here)
        network.remove()


def _ip(words: str) -> None:
    try:
        done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, timeout=10)
    except OSError as error:
        raise NetworkUnavailable(f"the program `ip`, which creates the network, was not found: {error}") from None
    if done.returncode:
        raise NetworkUnavailable(f"cannot create a network: ip {words}: {done.stderr.strip()}")
