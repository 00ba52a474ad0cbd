# SPDX-License-Identifier: Apache-2.0
"""Nodes as network namespaces on one bridge, pods as namespaces connected by the real CNI plugins, a control plane.

fabric: bridge 172.30.0.254, control plane      node n: 172.30.0.n, fd30::n, `kubeloop network`      pods: by CNI
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.bounds import GIVE_UP_SECONDS
from tests.realnode import network_cleanup
from tests.realnode.network_probe import PodServers, Probe, in_namespace

T = TypeVar("T")
PROGRAM = (sys.executable, "-m", "kubeloop.cli.main")
PLUGINS = "/usr/lib/cni"
_FABRIC_ADDRESS = "172.30.0.254"


class LabPod:
    """Pod of the lab: a network namespace with addresses."""

    def __init__(self, namespace: str, name: str, node: int, netns: str) -> None:
        self.namespace, self.name, self.node, self.netns = namespace, name, node, netns
        self.addresses: tuple[str, ...] = ()
        self.result: dict[str, Any] | None = None  # of the last CNI plugin
        self.container = f"{netns}-sandbox"

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    def address(self, version: int) -> str:
        """Return the address of an IP family."""
        return next(one for one in self.addresses if (":" in one) == (version == 6))


class NetworkLab:
    """Control plane, nodes and pods."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder = folder
        self.prefix = prefix
        self.fabric = f"{prefix}f"
        self.kubeconfig = folder / "kubeconfig"
        self.servers = PodServers()
        self.agents: dict[int, subprocess.Popen[bytes]] = {}
        self.pods: dict[str, LabPod] = {}
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}

    # Machines.

    def run(self, namespace: str, *command: str, check: bool = True) -> str:
        """Run a command in a network namespace and return its output."""
        full = ["nsenter", f"--net=/run/netns/{namespace}", *command]
        done = subprocess.run(full, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, env=self._environment)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def node(self, number: int) -> str:
        """Return the network namespace of a node."""
        return f"{self.prefix}n{number}"

    def build_fabric(self) -> None:
        """Create the bridge between nodes."""
        _add_namespace(self.fabric)
        self.run(self.fabric, "ip", "link", "add", "br0", "type", "bridge")
        self.run(self.fabric, "ip", "address", "add", f"{_FABRIC_ADDRESS}/24", "dev", "br0")
        self.run(self.fabric, "ip", "address", "add", "fd30::fe/64", "dev", "br0", "nodad")
        self.run(self.fabric, "ip", "link", "set", "br0", "up")

    def add_node(self, number: int, cidrs: tuple[str, ...] = (), address: str = "") -> None:
        """Create a node's namespace and its Node."""
        address = address or f"172.30.0.{number}"
        self.cable(number, address)
        self.add_node_object(number, cidrs, address)

    def cable(self, number: int, address: str) -> None:
        """Create a node's namespace, connected to the bridge."""
        name = self.node(number)
        _add_namespace(name)
        self.run(
            self.fabric, "ip", "link", "add", f"node{number}", "type", "veth", "peer", "name", "eth0", "netns", name
        )
        self.run(self.fabric, "ip", "link", "set", f"node{number}", "master", "br0", "up")
        self.run(name, "ip", "address", "add", f"{address}/24", "dev", "eth0")
        self.run(name, "ip", "address", "add", f"fd30::{number}/64", "dev", "eth0", "nodad")
        self.run(name, "ip", "link", "set", "eth0", "up")
        self.run(name, "ip", "route", "add", "default", "via", _FABRIC_ADDRESS)

    def add_node_object(self, number: int, cidrs: tuple[str, ...] = (), address: str = "") -> None:
        """Create a Node with pod CIDRs and addresses."""
        cidrs = cidrs or (f"10.244.{number}.0/24", f"fd44:0:0:{number}::/64")
        spec = {"podCIDR": cidrs[0], "podCIDRs": list(cidrs)}
        self.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}, "spec": spec})
        self.set_node_addresses(number, address or f"172.30.0.{number}", f"fd30::{number}")

    def set_node_addresses(self, number: int, *addresses: str) -> None:
        """Set the addresses of a node's status."""
        rows = [{"type": "InternalIP", "address": address} for address in addresses]
        patch = {"status": {"addresses": rows}}
        self.kubectl("patch", "node", f"n{number}", "--subresource=status", "--type=merge", "-p", json.dumps(patch))

    # Programs.

    @contextmanager
    def plane(self) -> Iterator[None]:
        """Run the control plane in the fabric."""
        ports = ("--controller-manager-port", "0", "--scheduler-port", "0", "--port", "0")
        files = ("--data-dir", str(self.folder / "data"), "--kubeconfig", str(self.kubeconfig), "--ephemeral")
        flags = (*ports, *files[2:], "--bind-address", _FABRIC_ADDRESS, "--nodes", "0", "--cloud-provider", "none")
        process = self.start_program(self.fabric, "up", *flags, log="plane.log")
        try:
            self.eventually(self.kubeconfig.exists)
            self.eventually(lambda: "ok" in self.kubectl("get", "--raw", "/readyz", check=False))
            yield
        finally:
            process.terminate()
            process.wait()

    def start_program(self, namespace: str, *arguments: str, log: str) -> subprocess.Popen[bytes]:
        """Start kubeloop in a network namespace."""
        with (self.folder / log).open("ab") as output:
            command = ["nsenter", f"--net=/run/netns/{namespace}", *PROGRAM, *arguments]
            return subprocess.Popen(command, stdout=output, stderr=output, env=self._environment)

    def start_agent(self, number: int, backend: str, *flags: str) -> None:
        """Start the network agent of a node."""
        folder = self.agent_folder(number)
        self.agents[number] = self.start_program(
            self.node(number),
            "network",
            *("--kubeconfig", str(self.kubeconfig), "--node-name", f"n{number}", "--backend", backend),
            *("--run-dir", str(folder / "run"), "--cni-conf-dir", str(folder / "net.d")),
            *("--cni-bin-dir", str(folder / "bin"), "--cni-data-dir", str(folder / "ipam"), *flags),
            log=f"agent{number}.log",
        )

    def agent_folder(self, number: int) -> Path:
        """Return the folder of a node's agent."""
        return self.folder / f"n{number}"

    def stop_agent(self, number: int, signal_number: int = signal.SIGTERM) -> None:
        """Stop the agent of a node; the node's network stays."""
        process = self.agents.pop(number)
        process.send_signal(signal_number)
        process.wait()

    def wait_ready(self, *numbers: int) -> None:
        """Wait until agents report that the pod network is ready."""
        for number in numbers:
            self.eventually(
                lambda number=number: "200" in fetch(self.node(number), "/readyz").partition("\r\n")[0], 90.0
            )  # type: ignore[misc]

    def stop(self) -> None:
        """Stop agents and servers."""
        for number in tuple(self.agents):
            self.stop_agent(number)
        self.servers.close()

    # API.

    def kubectl(self, *arguments: str, check: bool = True, stdin: str | None = None) -> str:
        """Run kubectl in the fabric and return its output."""
        command = [
            "nsenter",
            f"--net=/run/netns/{self.fabric}",
            "kubectl",
            "--kubeconfig",
            str(self.kubeconfig),
            *arguments,
        ]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, env=self._environment
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout if check else done.stdout + done.stderr

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def eventually(self, check: Callable[[], T], seconds: float = 60.0) -> T:
        """Wait until a check returns something true, and return it."""
        deadline = time.monotonic() + seconds
        while True:
            found = check()
            if found or time.monotonic() > deadline:
                assert found, self.logs()
                return found
            time.sleep(0.1)

    def logs(self) -> str:
        """Return the ends of all logs, for a failed test."""
        found = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{path.name}:\n{path.read_text()[-1500:]}" for path in found)

    # Pods.

    def add_pod(
        self, key: str, node: int, labels: dict[str, str] | None = None, ports: tuple[int, ...] = (80, 81)
    ) -> LabPod:
        """Create a pod: its object, then its namespace by CNI, its servers, and its status."""
        namespace, name = key.split("/")
        pod = self.pods[key] = LabPod(namespace, name, node, f"{self.prefix}-{namespace}-{name}")
        named = [{"name": f"serve-{port}", "containerPort": port, "protocol": "TCP"} for port in ports]
        named += [{"name": f"serve-{port}-udp", "containerPort": port, "protocol": "UDP"} for port in ports]
        spec = {
            "nodeName": f"n{node}",
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "ports": named}],
        }
        meta = {"name": name, "namespace": namespace, "labels": labels or {"pod": name}}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        _add_namespace(pod.netns)
        self.servers.add(pod.netns, ports, key)
        self.cni("ADD", pod)
        self.report_status(pod)
        return pod

    def report_status(self, pod: LabPod) -> None:
        """Report a pod's addresses as a kubelet does."""
        ips = [{"ip": address} for address in pod.addresses]
        patch = {"status": {"phase": "Running", "podIP": pod.addresses[0], "podIPs": ips}}
        arguments = ("patch", "pod", pod.name, "-n", pod.namespace, "--subresource=status", "--type=merge")
        self.kubectl(*arguments, "-p", json.dumps(patch))

    def remove_pod(self, key: str) -> None:
        """Delete a pod: its addresses, its namespace and its object."""
        pod = self.pods.pop(key)
        self.cni("DEL", pod)
        subprocess.run(["ip", "netns", "delete", pod.netns], check=True)
        self.kubectl("delete", "pod", pod.name, "-n", pod.namespace, "--grace-period=0", "--force")

    def cni(self, command: str, pod: LabPod) -> None:
        """Call the plugins of the node's CNI configuration, as a runtime does."""
        folder = self.agent_folder(pod.node)
        [path] = self.eventually(lambda: list((folder / "net.d").glob("*.conflist")))
        config = json.loads(path.read_text())
        result = pod.result
        plugins = config["plugins"] if command == "ADD" else config["plugins"][::-1]
        for plugin in plugins:
            given = {"cniVersion": config["cniVersion"], "name": config["name"], **plugin}
            given |= {"prevResult": result} if result else {}
            result = self._call_plugin(command, pod, given) or result
        if command == "ADD" and result is not None:
            pod.result = result
            pod.addresses = tuple(one["address"].partition("/")[0] for one in result["ips"])

    def _call_plugin(self, command: str, pod: LabPod, config: dict[str, Any]) -> dict[str, Any] | None:
        folders = f"{PLUGINS}:{self.agent_folder(pod.node) / 'bin'}"
        program = next(one for one in (Path(folder) / config["type"] for folder in folders.split(":")) if one.exists())
        arguments = f"IgnoreUnknown=1;K8S_POD_NAMESPACE={pod.namespace};K8S_POD_NAME={pod.name}"
        environment = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": pod.container,
            "CNI_NETNS": f"/run/netns/{pod.netns}",
            "CNI_IFNAME": "eth0",
            "CNI_PATH": folders,
            "CNI_ARGS": arguments,
            "PATH": os.environ["PATH"],
        }
        full = ["nsenter", f"--net=/run/netns/{self.node(pod.node)}", str(program)]
        done = subprocess.run(
            full, input=json.dumps(config), capture_output=True, text=True, env=environment, timeout=GIVE_UP_SECONDS
        )
        assert done.returncode == 0, f"{program} {command}: {done.stdout}{done.stderr}"
        found: dict[str, Any] | None = json.loads(done.stdout) if done.stdout.strip() else None
        return found

    def reaches(self, source: str, target: str, version: int = 4, port: int = 80) -> bool:
        """Return True if a pod gets an answer of another one by TCP."""
        probe = Probe(self.pods[source].netns, self.pods[target].address(version), port)
        return self.servers.probe([probe], 2.0)[probe] == target

    def wait_mesh(self, versions: tuple[int, ...] = (4, 6), seconds: float = 60.0) -> None:
        """Wait until every pod reaches every other pod."""
        pods = list(self.pods.values())
        probes = [Probe(one.netns, other.address(v), 80) for v in versions for one in pods for other in pods]
        self.eventually(lambda: all(self.servers.probe(probes, 2.0).values()), seconds)


def node_routes(lab: NetworkLab, number: int) -> set[str]:
    """Return the routes of the agent, or of its BIRD, on a node."""
    lines = [line for family in ("-4", "-6") for line in lab.run(lab.node(number), "ip", family, "route").splitlines()]
    return {line.split(" metric")[0].strip() for line in lines if "proto 75" in line or "proto bird" in line}


def bgp_sessions(lab: NetworkLab, number: int) -> dict[str, str]:
    """Return the states of a node's BGP sessions."""
    socket_path = str(lab.agent_folder(number) / "run" / "bird.ctl")
    shown = lab.run(lab.node(number), "birdc", "-s", socket_path, "show", "protocols")
    rows = [line.split() for line in shown.splitlines()]
    return {row[0]: row[5] if len(row) > 5 else row[3] for row in rows if len(row) > 3 and row[1] == "BGP"}


def fetch(namespace: str, path: str) -> str:
    """Return the answer of an agent's status port; empty if nothing listens."""

    def ask() -> str:
        try:
            with socket.create_connection(("127.0.0.1", 10261), 5.0) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n".encode())
                return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        except OSError:
            return ""

    return in_namespace(namespace, ask)


def _add_namespace(name: str) -> None:
    subprocess.run(["ip", "netns", "add", name], check=True)
    subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)


@contextmanager
def run_lab(folder: Path, nodes: int) -> Iterator[NetworkLab]:
    """Build a lab with nodes, and remove everything at the end."""
    prefix = f"kl{os.getpid() % 100000}{'abcdefghij'[int(time.monotonic()) % 10]}"
    network_cleanup.watch(prefix)
    lab = NetworkLab(folder, prefix)
    try:
        lab.build_fabric()
        with lab.plane():
            for number in range(1, nodes + 1):
                lab.add_node(number)
            try:
                yield lab
            finally:
                lab.stop()
    finally:
        network_cleanup.clean(prefix)
