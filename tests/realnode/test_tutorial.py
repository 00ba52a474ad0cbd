# SPDX-License-Identifier: Apache-2.0
"""The commands of the tutorial of a real node run, and print what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docs.page import PageRun, blocks_of, is_shown
from tests.realnode.containerd import Containerd, run_containerd
from tests.realnode.node import RealNode
from tests.realnode.test_up_network import PROXY, add_default_route

pytestmark = pytest.mark.realnode
PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "real-node.md"


class RealNodePage(PageRun):
    """Runs the commands in the network namespace of a containerd, which `--runtime containerd` stands for."""

    def __init__(self, node: RealNode, cleanup: ExitStack) -> None:
        super().__init__(node.folder, cleanup)
        self._node = node
        self.shell = tuple(node.runtime.enter(*self.shell))
        self.environment |= {"KUBECONFIG": str(node.kubeconfig), "XDG_STATE_HOME": str(node.folder / "state")}

    def start_plane(self, command: str, shown: str) -> None:
        node = self._node
        kubelet = ("hostname-override=host", f"cgroup-root={node.cgroup_root}", "eviction-hard=memory.available<1Mi")
        flags = ("--port", "0", "--controller-manager-port", "0", "--scheduler-port", "0", "--cloud-provider", "none")
        arguments = [one for flag in kubelet for one in ("--kubelet-arg", flag)]
        arguments += [one for flag in PROXY for one in ("--proxy-arg", flag)]
        words = command.replace("--runtime containerd", f"--runtime {node.runtime.endpoint}").split()[1:]
        done = node.run_program(*words, "--kubeconfig", str(node.kubeconfig), *flags, *arguments)
        assert done.returncode == 0, done.stderr
        assert is_shown(shown, done.stdout.splitlines()[0]), done.stdout


@pytest.fixture
def runtime(tmp_path_factory: pytest.TempPathFactory, archives: list[Path]) -> Iterator[Containerd]:
    with run_containerd(tmp_path_factory.mktemp("page") / "t", archives, "") as found:
        add_default_route(found)
        yield found


def test_tutorial_of_a_real_node(runtime: Containerd) -> None:
    folder = runtime.folder / "node"
    folder.mkdir()
    node = RealNode(runtime, folder)
    with ExitStack() as cleanup:
        cleanup.callback(node.run_program, "stop", "--all")
        page = RealNodePage(node, cleanup)
        for block in blocks_of(PAGE):
            if block.is_runnable:
                page.run(block)
    assert runtime.list_containers() == []
    assert runtime.run("nft", "list", "tables") == ""
