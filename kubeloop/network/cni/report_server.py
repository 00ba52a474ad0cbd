# SPDX-License-Identifier: Apache-2.0
"""Socket for reports of the CNI plugin: an ADD is answered when the policies of the new pod are in force."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec

from kubeloop.api.addresses import parse_ip
from kubeloop.network.cni.cni_config import REPORT_PLUGIN
from kubeloop.network.cni.config_writer import write_atomically
from kubeloop.network.policy.model import IPAddress
from kubeloop.network.policy.pod_addresses import AddressAssignment
from kubeloop.runtime.objects.keys import ObjectKey

_WAIT_SECONDS: Final = 10.0
_READ_SECONDS: Final = 5.0
_MAX_LINE: Final = 64 * 1024
_MAX_CONNECTIONS: Final = 200
_SOURCE: Final = Path(__file__).with_name("report_plugin.py")

log = logging.getLogger(__name__)


class AddressReport(msgspec.Struct, frozen=True):
    """Report of the plugin."""

    command: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    addresses: tuple[str, ...] = ()


class AddressOwners(Protocol):
    """Receiver of reports."""

    async def assign(self, assignment: AddressAssignment, addresses: Sequence[IPAddress]) -> None:
        """Record addresses of a new pod, and wait until the rules of its policies are in force."""

    def release(self, addresses: Sequence[IPAddress]) -> None:
        """Record that addresses were given back."""


class ReportServer:
    """Serves reports at a socket of the file system."""

    def __init__(self, path: Path, owners: AddressOwners, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._path = path
        self._owners = owners
        self._wait_seconds = wait_seconds
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen; the socket of an earlier process is replaced. Raises OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            self._path.unlink()
        self._server = await asyncio.start_unix_server(self._connected, self._path, limit=_MAX_LINE)
        os.chmod(self._path, 0o600)

    async def close(self) -> None:
        """Stop listening and end open connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _MAX_CONNECTIONS:
            writer.close()
            return
        task = asyncio.create_task(self._answer(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                line = await reader.readline()
            error = await self._handle(line)
            writer.write(msgspec.json.encode({"error": error}) + b"\n")
            async with asyncio.timeout(_READ_SECONDS):
                await writer.drain()
        except (OSError, TimeoutError, ValueError) as failure:
            log.warning("a report of the CNI plugin was not answered: %s", failure)
        finally:
            writer.close()

    async def _handle(self, line: bytes) -> str:
        """Handle a report; returns the reason for which a pod has no connectivity yet, empty for success."""
        try:
            report = msgspec.json.decode(line, type=AddressReport)
        except msgspec.DecodeError as error:
            return f"invalid report: {error}"
        addresses = [one for text in report.addresses if (one := parse_ip(text)) is not None]
        if report.command == "DEL":
            self._owners.release(addresses)
        if report.command != "ADD" or not report.name:
            return ""
        assignment = AddressAssignment(ObjectKey(report.namespace, report.name), report.uid)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._owners.assign(assignment, addresses)
        except TimeoutError:
            return f"the rules of pod {report.namespace}/{report.name} are not in force after {self._wait_seconds:g} s"
        return ""


def install_plugin(folder: Path) -> None:
    """Install the plugin as a program, if it differs. Raises OSError."""
    path = folder / REPORT_PLUGIN
    content = f"#!{sys.executable} -IS\n".encode() + _SOURCE.read_bytes()
    with suppress(FileNotFoundError):
        if path.read_bytes() == content and os.access(path, os.X_OK):
            return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content, 0o755)
