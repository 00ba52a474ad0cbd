# SPDX-License-Identifier: Apache-2.0
"""A whole highly available plane on this machine: `python examples/ha/up.py`, and Ctrl-C ends it.

Three members of etcd, three API servers behind one address, two controller managers and two schedulers of which one
leads at a time. Kill whichever you like and look: `kubectl get leases -n kube-system -w`.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from contextlib import suppress
from pathlib import Path

from kubeloop.testing import ChaosPlane, PlaneConfig


async def look_after(plane: ChaosPlane) -> None:
    """Restart exited processes, such as a leader that lost its lease; killed processes stay down."""
    for process in plane.processes.values():
        if process.exit_code is not None and process.exit_code >= 0:
            await process.start()
            print(f"{process.name} had exited and was restarted: process {process.pid}", flush=True)


async def main(folder: Path, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    plane = ChaosPlane(folder, PlaneConfig(etcd=3, api_servers=3, controller_managers=2, schedulers=2), port)
    try:
        await plane.start()
        for process in plane.processes.values():
            print(f"{process.name:22} process {process.pid}, log in {process.log}")
        print(f"the plane is ready: export KUBECONFIG={plane.kubeconfig}", flush=True)
        while not stop.is_set():
            await look_after(plane)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 1)
    finally:
        await plane.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument(
        "--folder", type=Path, default=Path("ha-plane"), help="folder for data, keys and logs (default: ha-plane)"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port of the load-balanced address (default: any free port)"
    )
    options = parser.parse_args()
    asyncio.run(main(options.folder.absolute(), options.port))
