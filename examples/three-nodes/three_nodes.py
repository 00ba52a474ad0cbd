# SPDX-License-Identifier: Apache-2.0
"""Three real nodes on one machine, with a guestbook across them.

n1 is a control plane with its own node (`kubeloop up --runtime`); n2 and n3 join it by `kubeloop kubelet`, `kubeloop
network` and `kubeloop proxy`. Each node is a network namespace with a containerd of its own; a bridge connects them:

    sudo python three_nodes.py                  # tunnels between nodes (VXLAN)
    sudo python three_nodes.py --backend bgp    # routes by BIRD 2

It needs root, containerd, runc, the standard CNI plugins, a static busybox, iproute2, nftables and kubectl. Nothing is
pulled from a registry, and no packet leaves the machine. Everything is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from images import PAUSE, build_images

NODES = ("n1", "n2", "n3")
PREFIX = f"three-nodes-{os.getpid()}"
FABRIC, FABRIC_ADDRESS = f"{PREFIX}-fabric", "172.30.0.254"
KUBELOOP = (sys.executable, "-m", "kubeloop")
PLUGINS = next((one for one in map(Path, ("/opt/cni/bin", "/usr/lib/cni")) if (one / "ptp").exists()), Path())
NODE_PORT = 30080
GIVE_UP_SECONDS = 120.0
CONTAINERD = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[ttrpc]
  address = "{folder}/containerd.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{folder}/plugins"
    conf_dir = "{folder}/net.d"
"""
# Settings of the whole machine stay as they are.
PROXY = ("conntrack-max-per-core=0", "conntrack-tcp-timeout-established=0s", "conntrack-tcp-timeout-close-wait=0s")
# The machine's disk may be nearly full.
KUBELET = ("eviction-hard=memory.available<1Mi", "image-gc-high-threshold=100")


class Node:
    """A network namespace with a containerd."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        self.namespace = f"{PREFIX}-{name}"
        self.address = f"172.30.0.{name[1:]}"
        self.endpoint = f"unix://{self.folder}/containerd.sock"
        self.environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "xdg"), "HOME": str(self.folder)}

    def run(self, *command: str) -> str:
        """Run a command in the namespace and return its output."""
        done = subprocess.run(enter(self.namespace, *command), capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self, program: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a program in the namespace; its output goes to a log."""
        with (self.folder / f"{program}.log").open("wb") as log:
            return subprocess.Popen(enter(self.namespace, *command), stdout=log, stderr=log, env=self.environment)

    def kubelet_flags(self) -> tuple[str, ...]:
        """Return the flags of the node's kubelet, without dashes."""
        return (f"hostname-override={self.name}", f"cgroup-root=/{self.namespace}", *KUBELET)


def enter(namespace: str, *command: str) -> list[str]:
    """Return a command line that runs in a network namespace."""
    return ["nsenter", f"--net=/run/netns/{namespace}", *command]


def wait_for(look: Callable[[], bool], what: str) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not look():
        if time.monotonic() > deadline:
            raise RuntimeError(f"gave up waiting: {what}")
        time.sleep(0.2)


# Machines.


def build_network(nodes: list[Node], cleanup: ExitStack) -> None:
    """Create the namespaces and the bridge between them."""
    for namespace in (FABRIC, *(node.namespace for node in nodes)):
        subprocess.run(["ip", "netns", "add", namespace], check=True)
        cleanup.callback(subprocess.run, ["ip", "netns", "delete", namespace], check=True)
        subprocess.run(enter(namespace, "ip", "link", "set", "lo", "up"), check=True)
    in_fabric = enter(FABRIC, "ip")
    subprocess.run([*in_fabric, *["link", "add", "br0", "type", "bridge"]], check=True)
    subprocess.run([*in_fabric, *f"address add {FABRIC_ADDRESS}/24 dev br0".split()], check=True)
    subprocess.run([*in_fabric, *["link", "set", "br0", "up"]], check=True)
    for node in nodes:
        cable = f"link add {node.name} type veth peer name eth0 netns {node.namespace}"
        subprocess.run([*in_fabric, *cable.split()], check=True)
        subprocess.run([*in_fabric, *f"link set {node.name} master br0 up".split()], check=True)
        node.run("ip", "address", "add", f"{node.address}/24", "dev", "eth0")
        node.run("ip", "link", "set", "eth0", "up")
        node.run("ip", "route", "add", "default", "via", FABRIC_ADDRESS)


def start_containerd(node: Node, images: list[Path], cleanup: ExitStack) -> None:
    """Start the container runtime of a node and import the images."""
    for folder in ("plugins", "net.d"):
        (node.folder / folder).mkdir(parents=True)
    for plugin in PLUGINS.iterdir():
        (node.folder / "plugins" / plugin.name).symlink_to(plugin)
    (node.folder / "config.toml").write_text(CONTAINERD.format(folder=node.folder, pause=PAUSE))
    process = node.start("containerd", "containerd", "--config", str(node.folder / "config.toml"))
    cleanup.callback(end, process)
    ctr = ("ctr", "--address", str(node.folder / "containerd.sock"))

    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"containerd of {node.name} has ended")
        return subprocess.run([*ctr, "version"], capture_output=True).returncode == 0

    wait_for(answers, f"containerd of {node.name}")
    for image in images:
        node.run(*ctr, "--namespace", "k8s.io", "images", "import", str(image))


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def remove_traces(node: Node) -> None:
    """Kill what is left of a node's containers after a failure; remove mounts and control groups."""
    groups = [one for one in Path("/sys/fs/cgroup").rglob(node.namespace) if one.is_dir()]
    namespace = os.stat(f"/run/netns/{node.namespace}").st_ino
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and os.stat(entry / "ns/net").st_ino == namespace:
                os.kill(int(entry.name), signal.SIGKILL)
    for group in groups:
        for listing in group.rglob("cgroup.procs"):
            for process in listing.read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((one for one in mounts if one.startswith(f"{node.folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], capture_output=True)
    for group in groups:
        for path, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                os.rmdir(path)


# Cluster.


def start_cluster(nodes: list[Node], backend: str, cleanup: ExitStack) -> Path:
    """Start the control plane on the first node, and the programs of the others; returns the kubeconfig."""
    first = nodes[0]
    kubeconfig = first.folder / "admin.conf"
    arguments = [f"--kubelet-arg={one}" for one in first.kubelet_flags()]
    arguments += [f"--proxy-arg={one}" for one in PROXY] + [f"--network-arg=backend={backend}"]
    flags = ("--ephemeral", "--bind-address", first.address, "--runtime", first.endpoint, "--cloud-provider", "none")
    process = first.start("up", *KUBELOOP, "up", *flags, "--kubeconfig", str(kubeconfig), *arguments)
    cleanup.callback(end, process)

    def is_started() -> bool:
        if process.poll() is not None:
            raise RuntimeError((first.folder / "up.log").read_text()[-2000:])
        return "is ready at" in (first.folder / "up.log").read_text()

    wait_for(is_started, "the control plane")
    for node in nodes[1:]:
        join(node, kubeconfig, backend, cleanup)
    return kubeconfig


def join(node: Node, kubeconfig: Path, backend: str, cleanup: ExitStack) -> None:
    """Start the programs of a node that joins the cluster."""
    access = ("--kubeconfig", str(kubeconfig))
    network = (
        *("--node-name", node.name, "--backend", backend, "--run-dir", str(node.folder / "run")),
        *("--cni-conf-dir", str(node.folder / "net.d"), "--cni-bin-dir", str(node.folder / "plugins")),
        *("--cni-data-dir", str(node.folder / "addresses")),
    )
    kubelet = (
        *(f"--{one}" for one in node.kubelet_flags()),
        *("--container-runtime-endpoint", node.endpoint, "--root-dir", str(node.folder / "kubelet")),
        *("--pod-logs-dir", str(node.folder / "logs"), "--cluster-dns", "10.96.0.10"),
    )
    proxy = (
        *("--hostname-override", node.name, "--cluster-cidr", "10.244.0.0/16", "--oom-score-adj", "0"),
        *(f"--{one}" for one in PROXY),
    )
    for program, flags in (("network", network), ("proxy", proxy), ("kubelet", kubelet)):
        cleanup.callback(end, node.start(program, *KUBELOOP, program, *access, *flags))


class Kubectl:
    """kubectl on the first node."""

    def __init__(self, node: Node, kubeconfig: Path) -> None:
        self._node = node
        self._command = ("kubectl", "--kubeconfig", str(kubeconfig))

    def __call__(self, *arguments: str) -> str:
        return self._node.run(*self._command, *arguments)

    def wait(self, what: str, *arguments: str) -> None:
        """Run kubectl until it succeeds."""

        def succeeds() -> bool:
            with suppress(RuntimeError):
                self(*arguments)
                return True
            return False

        wait_for(succeeds, what)


# Guestbook.


def deploy(kubectl: Kubectl, nodes: list[Node]) -> None:
    """Deploy the guestbook, and wait until all its pods are ready, one front end on each node."""
    kubectl("apply", "-f", str(Path(__file__).with_name("guestbook.yaml")))
    for name in ("front", "back"):
        kubectl("rollout", "status", f"deployment/{name}", "--timeout=120s")
    rows = kubectl("get", "pods", "-l", "app=front", "-o", "jsonpath={.items[*].spec.nodeName}").split()
    if sorted(rows) != sorted(node.name for node in nodes):
        raise RuntimeError(f"the front ends run on {rows}")


def check(nodes: list[Node]) -> None:
    """Sign the guestbook at the node port of each node, and read all entries at every one."""
    for node in nodes:
        wait_for(partial(signed, node), f"the guestbook at {node.name}")
    wanted = {f"hello-from-{node.name}" for node in nodes}
    for node in nodes:
        page = fetch(node, "")
        if not wanted <= set(page.split()):
            raise RuntimeError(f"the guestbook at {node.name} has only: {page}")
        print(f"{node.name}: the guestbook has {len(wanted)} entries")


def signed(node: Node) -> bool:
    """Sign the guestbook at a node; returns True if the entry is in the answer."""
    return f"hello-from-{node.name}" in fetch(node, f"?hello-from-{node.name}")


def fetch(node: Node, query: str) -> str:
    """Return a page of the guestbook; empty without an answer."""
    url = f"http://{node.address}:{NODE_PORT}/cgi-bin/guestbook{query}"
    done = subprocess.run(
        enter(FABRIC, "/bin/busybox", "timeout", "10", "wget", "-qO-", url), capture_output=True, text=True
    )
    return done.stdout


@contextmanager
def working_folder() -> Iterator[Path]:
    """Create a folder, which is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="three-nodes-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def show_logs(nodes: list[Node]) -> None:
    """Print the ends of all logs, after a failure."""
    for path in sorted(path for node in nodes for path in node.folder.glob("*.log")):
        print(f"== {path.parent.name}/{path.name}\n{path.read_text()[-1500:]}", file=sys.stderr)


def main() -> int:
    """Run the example; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run a guestbook on three real nodes on this machine.")
    backends = ("vxlan", "host-gw", "bgp")
    parser.add_argument("--backend", choices=backends, default="vxlan", help="backend of the pod network")
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("it creates network namespaces: run it as root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with working_folder() as folder, ExitStack() as cleanup:
        nodes = [Node(name, folder) for name in NODES]
        try:
            build_network(nodes, cleanup)
            images = build_images(folder)
            for node in nodes:
                cleanup.callback(remove_traces, node)
                start_containerd(node, images, cleanup)
            kubectl = Kubectl(nodes[0], start_cluster(nodes, options.backend, cleanup))
            names = [f"node/{node.name}" for node in nodes]
            kubectl.wait("the nodes", "wait", "--for=condition=Ready", "--timeout=30s", *names)
            print(kubectl("get", "nodes", "-o", "wide"))
            deploy(kubectl, nodes)
            print(kubectl("get", "pods,services", "-o", "wide"))
            check(nodes)
            kubectl("delete", "-f", str(Path(__file__).with_name("guestbook.yaml")), "--wait=true")
            pods = ("get", "pods", "-o", "name")
            wait_for(lambda: not kubectl(*pods).strip(), "the end of the pods")
        except (RuntimeError, subprocess.CalledProcessError) as error:
            show_logs(nodes)
            print(f"three_nodes: {error}", file=sys.stderr)
            return 1
        print(json.dumps({"backend": options.backend, "nodes": len(nodes), "guestbook": "works"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
