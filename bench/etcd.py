# SPDX-License-Identifier: Apache-2.0
"""An etcd of one member for measurements, with its data flushed to the disk as in earnest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kubeloop.chaos.plane import etcd_program, free_ports


@asynccontextmanager
async def etcd(folder: Path) -> AsyncIterator[str]:
    """The URL of a store that is empty."""
    client, peer = free_ports(2)
    flags = {
        "data-dir": str(folder),
        "listen-client-urls": f"http://127.0.0.1:{client}",
        "advertise-client-urls": f"http://127.0.0.1:{client}",
        "listen-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-cluster": f"default=http://127.0.0.1:{peer}",
        "log-level": "error",
    }
    process = await asyncio.create_subprocess_exec(
        etcd_program(), *(f"--{name}={value}" for name, value in flags.items())
    )
    try:
        yield f"etcd://127.0.0.1:{client}"
    finally:
        process.terminate()
        await process.wait()
