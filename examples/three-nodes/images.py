# SPDX-License-Identifier: Apache-2.0
"""Builds the images of the example from the machine's static busybox, as archives in the format of `docker save`."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from pathlib import Path

GUESTBOOK = "example.test/guestbook:1"
PAUSE = "example.test/pause:1"
BUSYBOX = Path("/bin/busybox")
# Names are resolved by nslookup: a static busybox has no other resolver.
FRONT = """#!/bin/sh
printf 'Content-Type: text/plain\\r\\n\\r\\n'
back=$(nslookup -type=a back.default.svc.cluster.local | awk '/^Address/ {found = $2} END {print found}')
timeout 5 wget -qO- "http://$back/cgi-bin/entries?$QUERY_STRING"
"""
BACK = """#!/bin/sh
printf 'Content-Type: text/plain\\r\\n\\r\\n'
[ -z "$QUERY_STRING" ] || echo "$QUERY_STRING" >> /data/entries
cat /data/entries
"""
WAIT = "trap 'exit 0' INT TERM; while :; do sleep 3600 & wait; done"


def build_images(folder: Path) -> list[Path]:
    """Build the image of both halves of the guestbook, and that of sandboxes; returns the archives."""
    scripts = {"front/cgi-bin/guestbook": FRONT, "back/cgi-bin/entries": BACK}
    return [
        _archive(folder / "guestbook.tar", GUESTBOOK, _layer(scripts), ["sh"]),
        _archive(folder / "pause.tar", PAUSE, _layer({}), ["sh", "-c", WAIT]),
    ]


def _layer(scripts: dict[str, str]) -> bytes:
    names = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        files = {"bin/busybox": BUSYBOX.read_bytes(), **{name: text.encode() for name, text in scripts.items()}}
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            layer.addfile(entry, io.BytesIO(data))
        for name in names:
            if name != "busybox":
                entry = tarfile.TarInfo(f"bin/{name}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                layer.addfile(entry)
    return content.getvalue()


def _archive(path: Path, name: str, layer: bytes, command: list[str]) -> Path:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    settings = {"Cmd": command, "Env": ["PATH=/bin"]}
    root = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    config = json.dumps({"architecture": machine, "os": "linux", "config": settings, "rootfs": root}).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as archive:
        for file, data in (("manifest.json", manifest), (config_name, config), ("layer.tar", layer)):
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path
