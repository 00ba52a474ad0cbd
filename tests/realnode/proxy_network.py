# SPDX-License-Identifier: Apache-2.0
"""A node, two pods and a client as network namespaces, with an API server and the service proxy on the node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.bounds import GIVE_UP_SECONDS
from tests.realnode import cleanup

T = TypeVar("T")
PROGRAM = (sys.executable, "-m", "kubeloop.cli.main")
NODE = "proxied"
NODE_IP, CLIENT_IP = "192.168.50.1", "192.168.50.2"
NODE_IP6, CLIENT_IP6 = "fd50::1", "fd50::2"
POD_IPS = {"pod1": "10.244.1.2", "pod2": "10.244.2.2"}
POD_IPS6 = {"pod1": "fd44:1::2", "pod2": "fd44:2::2"}
GATEWAYS = {"pod1": "10.244.1.1", "pod2": "10.244.2.1"}
PORT = 8080
# A rejection that arrives while the socket is still inside connect() only counts after the first retransmission.
_ATTEMPT_SECONDS = 2.5

# Answers each connection and datagram with its name and the peer's address; then repeats lines.
_SERVER = """
import socket, sys, threading
name, port = sys.argv[1], int(sys.argv[2])
def answer(peer):
    return f"{name} {peer[0].removeprefix('::ffff:')}\\n".encode()
def serve(one, peer):
    one.sendall(answer(peer))
    for line in one.makefile("rb"):
        one.sendall(line)
def udp():
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.bind(("::", port))
    while True:
        _, peer = sock.recvfrom(100)
        sock.sendto(answer(peer), peer)
listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
threading.Thread(target=udp, daemon=True).start()
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=listener.accept(), daemon=True).start()
"""
# Prints the answer to each of some connections, or the kind of failure.
_CLIENT = """
import socket, sys
host, port, protocol, seconds, times = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), int(sys.argv[5])
family = socket.AF_INET6 if ":" in host else socket.AF_INET
for _ in range(times):
    try:
        with socket.socket(family, socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM) as sock:
            sock.settimeout(seconds)
            sock.connect((host, port))
            if protocol == "udp":
                sock.send(b"x")
            print(sock.recv(100).decode().strip())
    except TimeoutError:
        print("timeout")
    except ConnectionRefusedError:
        print("refused")
    except OSError as error:
        print(error.strerror)
"""


class ProxyNetwork:
    """Namespaces, the API server and the proxy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self._proxy_kubeconfig = folder / "proxy-kubeconfig"
        self._names = {one: f"kubeloop-{os.getpid()}-{one}" for one in ("node", "client", "pod1", "pod2")}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
        self._proxy: subprocess.Popen[bytes] | None = None

    # Life.

    @contextmanager
    def run(self) -> Iterator[None]:
        """Create everything; remove it at the end."""
        for name in self._names.values():
            cleanup.watch(name, self.folder)
            subprocess.run(["ip", "netns", "add", name], check=True)
        try:
            self._connect()
            for pod in POD_IPS:
                self._serve(pod)
            self._start_plane()
            yield
        finally:
            for process in (*self._processes, *([self._proxy] if self._proxy else [])):
                process.kill()
                process.wait()
            for name in self._names.values():
                cleanup.clean(name, self.folder)

    def _connect(self) -> None:
        for place in self._names:
            self.sh(place, "ip link set lo up")
            self.sh(
                place,
                "echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad; echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad",
            )
        self._link("client", (NODE_IP, CLIENT_IP, 24), (NODE_IP6, CLIENT_IP6, 64))
        for pod, address in POD_IPS.items():
            gateway6 = POD_IPS6[pod][:-1] + "1"
            self._link(pod, (GATEWAYS[pod], address, 24), (gateway6, POD_IPS6[pod], 64))
        # The kernel limits the rate of the packets that tell of a rejection.
        self.sh("node", "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit; echo 0 > /proc/sys/net/ipv6/icmp/ratelimit")
        # A machine has a default route: without one, its own packets to Services would have no way before the NAT.
        self.sh("node", "ip link add out type veth peer name nowhere; ip link set out up; ip link set nowhere up")
        for own, gateway in (("172.30.0.1/24", "172.30.0.2"), ("fd30::1/64", "fd30::2")):
            self.sh("node", f"ip address add {own} dev out; ip route add default via {gateway}")
        self.sh("node", "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")

    def _link(self, place: str, *addresses: tuple[str, str, int]) -> None:
        """Connect a namespace to the node, which is its gateway."""
        there = self._names[place]
        self.sh("node", f"ip link add {place} type veth peer name eth0 netns {there}; ip link set {place} up")
        self.sh(place, "ip link set eth0 up")
        for node, own, length in addresses:
            self.sh("node", f"ip address add {node}/{length} dev {place}")
            self.sh(place, f"ip address add {own}/{length} dev eth0; ip route add default via {node}")

    def _serve(self, pod: str) -> None:
        command = self.enter(pod, sys.executable, "-S", "-c", _SERVER, pod, str(PORT))
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout as output:
            assert output.readline() == b"ready\n"
        self._processes.append(process)

    def _start_plane(self) -> None:
        files = ("--kubeconfig", str(self.kubeconfig), "--cert-dir", str(self.folder / "pki"))
        services = ("--service-cluster-ip-range", "10.96.0.0/16,fd96::/112")
        flags = (*files, *services, "--store", "memory", "--secure-port", "0", "--bind-address", "127.0.0.1")
        self._processes.append(self.start_program("apiserver", *flags, log="plane.log"))
        self.eventually(self.kubeconfig.exists)
        self.eventually(lambda: "ok" in self.kubectl("get", "--raw", "/readyz", check=False))
        self._proxy_kubeconfig.write_text(yaml.safe_dump(_impersonated(yaml.safe_load(self.kubeconfig.read_text()))))
        self.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        addresses = [{"type": "InternalIP", "address": one} for one in (NODE_IP, NODE_IP6)]
        self.set_status("/api/v1/nodes/" + NODE, {"addresses": addresses})

    # The proxy.

    def start_proxy(self, *flags: str) -> None:
        """Start the proxy."""
        self._proxy = self.start_program(
            "proxy",
            *("--kubeconfig", str(self._proxy_kubeconfig), "--hostname-override", NODE),
            *("--cluster-cidr", "10.244.0.0/16,fd44::/16", "--iptables-min-sync-period", "0s"),
            # Limits of connection tracking belong to the machine, not to a namespace.
            *("--conntrack-max-per-core", "0", "--conntrack-tcp-timeout-established", "0s"),
            *("--conntrack-tcp-timeout-close-wait", "0s", "--oom-score-adj", "0", *flags),
            log="proxy.log",
        )

    def stop_proxy(self, number: int = signal.SIGTERM) -> None:
        """Stop the proxy; the tables stay."""
        if self._proxy is not None:
            self._proxy.send_signal(number)
            self._proxy.wait(GIVE_UP_SECONDS)
            self._proxy = None

    def list_table(self, family: str = "ip", table: str = "kube-proxy") -> str:
        """Return the contents of a table, or an empty text."""
        return self.sh("node", f"nft list table {family} {table}", check=False)

    # Objects.

    def service(self, name: str, address: str, *, protocol: str = "TCP", **spec: Any) -> dict[str, Any]:
        """Return a Service without a selector."""
        port = {"name": "p", "port": 80, "targetPort": PORT, "protocol": protocol}
        if "nodePort" in spec:
            port["nodePort"] = spec.pop("nodePort")
        family = "IPv6" if ":" in address else "IPv4"
        spec = {"clusterIP": address, "clusterIPs": [address], "ipFamilies": [family], "ports": [port], **spec}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}

    def endpoints(
        self, name: str, *pods: str, protocol: str = "TCP", local: tuple[str, ...] = (), family: str = "IPv4"
    ) -> dict[str, Any]:
        """Return the EndpointSlice of a Service with some pods, of which some are on this node."""
        addresses = POD_IPS if family == "IPv4" else POD_IPS6
        rows = [
            {
                "addresses": [addresses[pod]],
                "nodeName": NODE if pod in local else "elsewhere",
                "conditions": {"ready": True},
            }
            for pod in pods
        ]
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
            "addressType": family,
            "ports": [{"name": "p", "port": PORT, "protocol": protocol}],
            "endpoints": rows,
        }

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "--validate=false", "-f", "-", stdin=text)

    def set_status(self, path: str, status: dict[str, Any]) -> None:
        """Replace the status of an object."""
        found = json.loads(self.kubectl("get", "--raw", path))
        text = json.dumps({**found, "status": {**found.get("status", {}), **status}})
        self.kubectl("replace", "--raw", f"{path}/status", "-f", "-", stdin=text)

    def kubectl(self, *arguments: str, check: bool = True, stdin: str | None = None) -> str:
        """Run kubectl on the node and return its output."""
        command = self.enter("node", "kubectl", "--kubeconfig", str(self.kubeconfig), *arguments)
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, env=self._environment
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    # Traffic.

    def ask(self, place: str, host: str, port: int = 80, protocol: str = "tcp") -> str:
        """Connect from a place; returns `pod address`, `refused`, `timeout` or another error."""
        (found,) = self.answers(place, host, port, protocol, times=1)
        return found

    def answers(self, place: str, host: str, port: int = 80, protocol: str = "tcp", times: int = 24) -> set[str]:
        """Return the outcomes of some connections."""
        arguments = (host, str(port), protocol, str(_ATTEMPT_SECONDS), str(times))
        command = self.enter(place, sys.executable, "-S", "-c", _CLIENT, *arguments)
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=GIVE_UP_SECONDS)
        return set(done.stdout.splitlines())

    def answering(self, place: str, host: str, port: int = 80, protocol: str = "tcp") -> set[str]:
        """Return the pods that answer some connections."""
        return {one.split(" ")[0] for one in self.answers(place, host, port, protocol)}

    def wait_answer(self, wanted: str, place: str, host: str, port: int = 80, protocol: str = "tcp") -> None:
        """Wait until a connection from a place has an outcome that begins with a text."""
        self.eventually(lambda: self.ask(place, host, port, protocol).startswith(wanted))

    # Tools.

    def enter(self, place: str, *command: str) -> list[str]:
        """Return a command line that runs in a namespace."""
        return ["nsenter", f"--net=/run/netns/{self._names[place]}", *command]

    def sh(self, place: str, script: str, *, check: bool = True) -> str:
        """Run a shell script in a namespace and return its output."""
        done = subprocess.run(self.enter(place, "sh", "-c", script), capture_output=True, text=True)
        assert not check or done.returncode == 0, f"{script}: {done.stderr}"
        return done.stdout

    def start_program(self, *arguments: str, log: str) -> subprocess.Popen[bytes]:
        """Start kubeloop on the node."""
        with (self.folder / log).open("ab") as file:
            return subprocess.Popen(
                self.enter("node", *PROGRAM, *arguments), stdout=file, stderr=file, env=self._environment
            )

    def run_program(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run kubeloop on the node to its end."""
        command = self.enter("node", *PROGRAM, *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, env=self._environment)

    def eventually(self, look: Callable[[], T | None]) -> T:
        """Wait until something is true and return it."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while not (found := look()):
            if time.monotonic() > deadline:
                logs = "\n".join(one.read_text()[-4000:] for one in sorted(self.folder.glob("*.log")))
                raise AssertionError(f"{logs}\n{self.list_table()}")
            time.sleep(0.05)
        return found


def _impersonated(config: dict[str, Any]) -> dict[str, Any]:
    """Return a kubeconfig of the user that only has the permissions of kube-proxy."""
    users = [{**one, "user": {**one["user"], "as": "system:kube-proxy"}} for one in config["users"]]
    return {**config, "users": users}
