# SPDX-License-Identifier: Apache-2.0
"""Two real nodes on one machine: each has a network namespace, a containerd and a kubelet of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.realnode.containerd import Containerd, run_containerd
from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, facts_of, pod, serve

pytestmark = pytest.mark.realnode
ADDRESSES = ("10.99.0.1", "10.99.0.2")
SUBNETS = ("10.85.1.0/24", "10.85.2.0/24")
NAMES = ("real1", "real2")
GONE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
HOLDER = """
import sys, time
from pathlib import Path
from tests.realnode.containerd import run_containerd
with run_containerd(Path(sys.argv[1]), []) as found:
    print(found.namespace, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def nodes(tmp_path_factory: pytest.TempPathFactory, archives: list[Path]) -> Iterator[tuple[RealNode, RealNode]]:
    """Two nodes; the control plane is beside the first."""
    with ExitStack() as parts:
        made: list[RealNode] = []
        for name, address, subnet in zip(NAMES, ADDRESSES, SUBNETS, strict=True):
            folder = tmp_path_factory.mktemp("two") / name
            runtime = parts.enter_context(run_containerd(folder, archives, subnet))
            (folder / "node").mkdir()
            made.append(RealNode(runtime, folder / "node", name, address))
        one, two = made
        connect(one.runtime, two.runtime)
        parts.enter_context(one.plane())
        shutil.copy(one.kubeconfig, two.kubeconfig)
        for node in made:
            node.start_kubelet()
            parts.callback(node.stop_kubelet)
        one.eventually(lambda: ready(one) == set(NAMES))
        yield one, two
        one.remove_pods()
        two.eventually(lambda: not two.leftovers())


def connect(one: Containerd, two: Containerd) -> None:
    """Connect two namespaces by a cable, with routes to each other's pods."""
    one.run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", two.namespace)
    for runtime, (own, other), subnet in ((one, ADDRESSES, SUBNETS[1]), (two, ADDRESSES[::-1], SUBNETS[0])):
        runtime.run("ip", "address", "add", f"{own}/24", "dev", "cable")
        runtime.run("ip", "link", "set", "cable", "up")
        runtime.run("ip", "route", "add", subnet, "via", other)


def ready(node: RealNode) -> set[str]:
    """The names of the nodes that are ready."""
    shown = node.kubectl("get", "nodes", "--no-headers").splitlines()
    return {line.split()[0] for line in shown if line.split()[1] == "Ready"}


def on(name: str, node: str, seconds: int | None = None, **spec: Any) -> dict[str, Any]:
    """A pod on a node, which stays on a lost node for some seconds or for ever."""
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    tolerations = [{"key": key, "operator": "Exists", "effect": "NoExecute", **limit} for key in GONE]
    probed = serve(readinessProbe={"httpGet": {"path": "/page", "port": 8080}, "periodSeconds": 1})
    return pod(name, probed, nodeSelector={"kubernetes.io/hostname": node}, tolerations=tolerations, **spec)


def test_pods_of_both_nodes_and_the_loss_of_one(nodes: tuple[RealNode, RealNode]) -> None:
    one, two = nodes
    one.apply(on("web1", "real1"), on("stays", "real2"), on("moves", "real2", 0))
    web, before = one.wait_ready("web1"), facts_of(one.wait_ready("stays"))
    one.wait_ready("moves")
    address = one.pod("stays")["status"]["podIP"]
    assert (address[:8], web["status"]["podIP"][:8]) == ("10.85.2.", "10.85.1.")
    assert one.kubectl("exec", "web1", "--", "wget", "-qO-", f"http://{address}:8080/page") == "hi\n"
    assert two.kubectl("exec", "stays", "--", "cat", "/data/page") == "hi\n"

    two.runtime.run("ip", "link", "set", "cable", "down")
    one.eventually(lambda: ready(one) == {"real1"})
    one.eventually(lambda: "deletionTimestamp" in one.pod("moves")["metadata"])
    assert len(two.runtime.list_containers()) == 4, "containers of a lost node run on"
    one.apply(pod("meanwhile", container("c", "sleep 1000"), nodeSelector={"kubernetes.io/hostname": "real1"}))
    one.wait_ready("meanwhile")

    two.runtime.run("ip", "link", "set", "cable", "up")
    two.runtime.run("ip", "route", "replace", SUBNETS[0], "via", ADDRESSES[0])
    one.eventually(lambda: ready(one) == set(NAMES))
    one.eventually(lambda: "moves" not in one.kubectl("get", "pods", "-o", "name"))
    one.wait_ready("stays")
    after = facts_of(one.pod("stays"))
    assert (after[0], after[3]) == (before[0], before[3]), "the same container, with the same address"
    assert one.kubectl("exec", "web1", "--", "wget", "-qO-", f"http://{address}:8080/page") == "hi\n"


def test_nothing_is_left_of_a_killed_test(tmp_path: Path, archives: list[Path]) -> None:
    folder = tmp_path / "k"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        namespace = holder.stdout.readline().strip()
        assert Path(f"/run/netns/{namespace}").exists()
        assert (folder / "containerd.sock").exists()
        holder.kill()
    node = RealNode(Containerd(folder, namespace), tmp_path)
    (tmp_path / "kubelet.log").touch()
    node.eventually(lambda: not folder.exists())
    assert not Path(f"/run/netns/{namespace}").exists()
