# SPDX-License-Identifier: Apache-2.0
"""Process of a DRA driver of a node: publishes a ResourceSlice, and writes what it was asked into a journal.

python -m tests.realnode.dra_process <driver> <root folder of the kubelet> <kubeconfig> <node>
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.generated.resource_v1 import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from kubeloop.client import AlreadyExists, Client, ClientError, connect, load_config
from tests.dra_driver import DRADriver

JOURNAL, FAILURES = "journal.json", "failures.json"
DEVICES = 4


class JournalDriver(DRADriver):
    """Driver whose journal others read; it fails for the claims in a file."""

    async def _prepare(self, request: bytes, context: Any) -> bytes:
        self._read_failures()
        answer = await super()._prepare(request, context)
        self._write_journal()
        return answer

    async def _unprepare(self, request: bytes, context: Any) -> bytes:
        self._read_failures()
        answer = await super()._unprepare(request, context)
        self._write_journal()
        return answer

    async def _notify(self, request: bytes, context: Any) -> bytes:
        answer = await super()._notify(request, context)
        self._write_journal()
        return answer

    def _read_failures(self) -> None:
        file = self.folder / FAILURES
        self.failures = json.loads(file.read_text()) if file.exists() else {}

    def _write_journal(self) -> None:
        journal = {
            "calls": self.calls,
            "prepared": sorted(one.name for one in self.prepared.values()),
            "registered": [one.plugin_registered for one in self.statuses],
        }
        temporary = self.folder / f".{JOURNAL}"
        temporary.write_text(json.dumps(journal))
        temporary.replace(self.folder / JOURNAL)


async def publish(client: Client, driver: str, node: str) -> None:
    """Create the slice of the node again whenever it is missing: a kubelet that starts removes it."""
    devices = tuple(Device(name=f"d{number}") for number in range(DEVICES))
    pool = ResourcePool(name=node, generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(driver=driver, node_name=node, pool=pool, devices=devices)
    wanted = ResourceSlice(metadata=ObjectMeta(name=f"{node}-{driver}"), spec=spec)
    while True:
        with suppress(AlreadyExists, ClientError):
            await client.create(wanted)
        await asyncio.sleep(0.5)


async def run(driver: str, root: str, kubeconfig: str, node: str) -> None:
    """Serve the driver, forever."""
    served = JournalDriver(driver, Path(root))
    await served.start()
    async with connect(load_config(kubeconfig)) as client:
        await publish(client, driver, node)


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
