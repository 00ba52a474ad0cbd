# SPDX-License-Identifier: Apache-2.0
"""Builds small container images from programs of this machine, as archives that a runtime imports offline."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

BUSYBOX = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
PAUSE = "registry.k8s.io/pause:3.10.1"
_PAUSE_SOURCE = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int signal) { _exit(0); }
static void reap(int signal) { while (waitpid(-1, 0, WNOHANG) > 0) { } }
int main(void) {
    signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, reap);
    for (;;) pause();
}
"""
_ACCOUNTS = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
    "etc/group": b"root:x:0:\nnobody:x:65534:\n",
}


def build_busybox(folder: Path) -> Path:
    """Build the image of the static busybox; returns the archive."""
    program = Path("/bin/busybox").read_bytes()
    names = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"bin/{name}": "busybox" for name in names if name != "busybox"}
    files = {"bin/busybox": program, **_ACCOUNTS}
    return _archive(folder / "busybox.tar", BUSYBOX, _layer(files, links), ["sh"])


def build_pause(folder: Path) -> Path:
    """Compile the program of the pause container and build its image; returns the archive."""
    source, program = folder / "pause.c", folder / "pause"
    source.write_text(_PAUSE_SOURCE)
    subprocess.run(["gcc", "-Os", "-static", "-o", str(program), str(source)], check=True)
    return _archive(folder / "pause.tar", PAUSE, _layer({"pause": program.read_bytes()}, {}), ["/pause"])


def _layer(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for folder in ("tmp", "root", "home", "etc", "bin"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            layer.addfile(entry)
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644 if name.startswith("etc/") else 0o755
            layer.addfile(entry, io.BytesIO(data))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            layer.addfile(entry)
    return content.getvalue()


def _archive(path: Path, name: str, layer: bytes, command: list[str]) -> Path:
    """Write an archive in the format of `docker save`."""
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": command, "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as archive:
        for file, data in (("manifest.json", manifest), (config_name, config), ("layer.tar", layer)):
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path
