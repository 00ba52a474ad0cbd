# SPDX-License-Identifier: Apache-2.0
"""A containerd with its own root, state and network namespace, which leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""
_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.85.0.0/16"}]], "dataDir": "{folder}/ipam"},
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
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

    def import_image(self, archive: Path) -> None:
        """Import an image from an archive."""
        done = self._ctr("--namespace", "k8s.io", "images", "import", str(archive))
        assert done.returncode == 0, done.stderr

    def list_containers(self) -> list[str]:
        """Return the IDs of all containers and sandboxes."""
        return self._ctr("--namespace", "k8s.io", "containers", "list", "--quiet").stdout.split()

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "--address", str(self.folder / "containerd.sock"), *arguments]
        return subprocess.run(command, capture_output=True, text=True)


@contextmanager
def run_containerd(folder: Path, archives: list[Path]) -> Iterator[Containerd]:
    """Run a containerd with imported images in a new network namespace; removes everything at the end."""
    namespace = f"kubeloop-{os.getpid()}-{folder.name}"
    found = Containerd(folder, namespace)
    _write_config(folder)
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        subprocess.run(found.enter("ip", "link", "set", "lo", "up"), check=True)
        found.start()
        for archive in archives:
            found.import_image(archive)
        yield found
    finally:
        found.kill()
        _kill_shims(folder)
        _unmount_below(folder)
        subprocess.run(["ip", "netns", "delete", namespace], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _write_config(folder: Path) -> None:
    (folder / "cni").mkdir(parents=True)
    (folder / "config.toml").write_text(_CONFIG.format(folder=folder, pause=PAUSE))
    network = json.dumps(_NETWORK).replace("{folder}", str(folder))
    (folder / "cni" / "10-pods.conflist").write_text(network)


def _kill_shims(folder: Path) -> None:
    """Kill the shims of this containerd, which outlive it, and their containers."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            if b"containerd-shim" in command and str(folder).encode() in command:
                for child in _descendants(int(entry.name)):
                    with suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                os.kill(int(entry.name), signal.SIGKILL)


def _descendants(process: int) -> list[int]:
    with suppress(OSError):
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [one for child in map(int, children) for one in (*_descendants(child), child)]
    return []


def _unmount_below(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((one for one in mounts if one.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False)
