# SPDX-License-Identifier: Apache-2.0
"""A containerd with its own root, state and network namespace, which leaves nothing behind."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.realnode import cleanup
from tests.realnode.images import PAUSE

_CONFIG = """
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
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{folder}/cni-bin"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{handler}]
    runtime_type = "io.containerd.runc.v2"
"""
HANDLER = "other"  # a second runtime handler
_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "{subnet}"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": "{folder}/ipam",
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
_PLUGINS = Path("/usr/lib/cni")
_READY_SECONDS = 30.0


class Containerd:
    """A running containerd; commands run in its network namespace by `enter`."""

    def __init__(self, folder: Path, namespace: str) -> None:
        self.folder = folder
        self.namespace = namespace
        self.endpoint = f"unix://{folder}/containerd.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def enter(self, *command: str) -> list[str]:
        """Return a command line that runs in the network namespace."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *command]

    def start(self) -> None:
        """Start the process and wait until its socket answers."""
        with (self.folder / "containerd.log").open("ab") as log:
            command = self.enter("containerd", "--config", str(self.folder / "config.toml"))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + _READY_SECONDS
        while self._ctr("version").returncode != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "containerd.log").read_text()[-2000:])
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the process; containers run on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def run(self, *command: str) -> str:
        """Run a command in the network namespace and return its output."""
        return subprocess.run(self.enter(*command), check=True, capture_output=True, text=True).stdout

    def import_image(self, archive: Path) -> None:
        """Import an image from an archive."""
        done = self._ctr("--namespace", "k8s.io", "images", "import", str(archive))
        assert done.returncode == 0, done.stderr

    def list_containers(self) -> list[str]:
        """Return the IDs of all containers and sandboxes."""
        return self._ctr("--namespace", "k8s.io", "containers", "list", "--quiet").stdout.split()

    def sandbox_handlers(self) -> dict[str, str]:
        """Return the runtime handler of each sandbox, by the name of its pod."""
        found = {}
        for id in self.list_containers():
            told = json.loads(self._ctr("--namespace", "k8s.io", "containers", "info", id).stdout)
            sandbox = told["Extensions"].get("io.cri-containerd.sandbox.metadata")
            if sandbox is not None:
                metadata = json.loads(base64.b64decode(sandbox["value"]))["Metadata"]
                found[metadata["Config"]["metadata"]["name"]] = metadata["RuntimeHandler"]
        return found

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "--address", str(self.folder / "containerd.sock"), *arguments]
        return subprocess.run(command, capture_output=True, text=True)


@contextmanager
def run_containerd(folder: Path, archives: list[Path], subnet: str = "10.85.0.0/16") -> Iterator[Containerd]:
    """Run a containerd with imported images in a new network namespace; removes everything at the end.

    Without a subnet there is no CNI configuration: another program has to write it.
    """
    namespace = f"kubeloop-{os.getpid()}-{folder.name}"
    found = Containerd(folder, namespace)
    _write_config(folder, subnet)
    cleanup.watch(namespace, folder)
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        subprocess.run(found.enter("ip", "link", "set", "lo", "up"), check=True)
        found.start()
        for archive in archives:
            found.import_image(archive)
        yield found
    finally:
        found.kill()
        cleanup.clean(namespace, folder)


def _write_config(folder: Path, subnet: str) -> None:
    for name in ("cni", "cni-bin"):
        (folder / name).mkdir(parents=True)
    for plugin in _PLUGINS.iterdir():  # a folder of its own: programs of the tests install plugins
        (folder / "cni-bin" / plugin.name).symlink_to(plugin)
    (folder / "config.toml").write_text(_CONFIG.format(folder=folder, pause=PAUSE, handler=HANDLER))
    if subnet:
        network = json.dumps(_NETWORK).replace("{folder}", str(folder)).replace("{subnet}", subnet)
        (folder / "cni" / "10-pods.conflist").write_text(network)
