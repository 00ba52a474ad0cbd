# SPDX-License-Identifier: Apache-2.0
"""Reports of the CNI plugin: the installed program, against the server of the agent."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubeloop.network.cni.report_server import ReportServer, install_plugin
from kubeloop.network.policy.model import IPAddress
from kubeloop.network.policy.pod_addresses import AddressAssignment
from kubeloop.runtime.objects.keys import ObjectKey

RESULT = {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "eth0"}],
    "ips": [{"address": "10.244.1.5/24"}, {"address": "fd44::5/64"}],
}


class Owners:
    """Records reports; answers an ADD when it is told to."""

    def __init__(self, *, answers: bool = True) -> None:
        self.assigned: list[tuple[AddressAssignment, list[str]]] = []
        self.released: list[str] = []
        self._answers = answers

    async def assign(self, assignment: AddressAssignment, addresses: Sequence[IPAddress]) -> None:
        self.assigned.append((assignment, list(map(str, addresses))))
        if not self._answers:
            await asyncio.Event().wait()

    def release(self, addresses: Sequence[IPAddress]) -> None:
        self.released += map(str, addresses)


def call(folder: Path, command: str, config: dict[str, Any]) -> tuple[dict[str, Any], str]:
    environment = {"CNI_COMMAND": command, "CNI_ARGS": "K8S_POD_NAMESPACE=x;K8S_POD_NAME=a;K8S_POD_UID=u"}
    done = subprocess.run(
        [folder / "kubeloop-policy"], input=json.dumps(config), capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else {}, done.stderr


def run(folder: Path, owners: Owners, command: str) -> tuple[dict[str, Any], str]:
    async def scenario() -> tuple[dict[str, Any], str]:
        server = ReportServer(folder / "run" / "a.sock", owners, wait_seconds=0.2)
        await server.start()
        config = {"cniVersion": "1.0.0", "name": "n", "socket": str(folder / "run" / "a.sock"), "prevResult": RESULT}
        try:
            return await asyncio.to_thread(call, folder, command, config)
        finally:
            await server.close()

    install_plugin(folder)
    return asyncio.run(scenario())


def test_add_reports_the_pod_and_passes_the_result_on(tmp_path: Path) -> None:
    owners = Owners()
    assert run(tmp_path, owners, "ADD") == (RESULT, "")
    assert owners.assigned == [(AddressAssignment(ObjectKey("x", "a"), "u"), ["10.244.1.5", "fd44::5"])]
    assert os.stat(tmp_path / "kubeloop-policy").st_mode & 0o777 == 0o755


def test_del_releases_the_addresses(tmp_path: Path) -> None:
    owners = Owners()
    assert run(tmp_path, owners, "DEL") == ({}, "")
    assert owners.released == ["10.244.1.5", "fd44::5"]


def test_rules_that_take_too_long_do_not_fail_the_pod(tmp_path: Path) -> None:
    result, errors = run(tmp_path, Owners(answers=False), "ADD")
    assert result == RESULT
    assert "not in force" in errors


def test_agent_that_is_away_does_not_fail_the_pod(tmp_path: Path) -> None:
    install_plugin(tmp_path)
    config = {"cniVersion": "1.0.0", "socket": str(tmp_path / "none"), "prevResult": RESULT}
    result, errors = call(tmp_path, "ADD", config)
    assert result == RESULT
    assert "does not answer" in errors


def test_version_lists_supported_versions(tmp_path: Path) -> None:
    install_plugin(tmp_path)
    found, _ = call(tmp_path, "VERSION", {"cniVersion": "1.0.0"})
    assert "1.0.0" in found["supportedVersions"]


def test_malformed_report_is_answered_with_an_error(tmp_path: Path) -> None:
    async def scenario() -> bytes:
        server = ReportServer(tmp_path / "a.sock", Owners())
        await server.start()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "a.sock")
        writer.write(b"nonsense\n")
        try:
            return await reader.readline()
        finally:
            writer.close()
            await writer.wait_closed()
            await server.close()

    assert b"invalid report" in asyncio.run(scenario())
