# SPDX-License-Identifier: Apache-2.0
"""Tests of exec credential plugins: run once, cached until they expire, and failures reported."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kubeloop.client.config.credentials import ClientIdentity
from kubeloop.client.config.exec_plugin import ExecCredentials, decode_exec_credential, is_interactive
from kubeloop.client.config.server_config import ExecConfig
from kubeloop.client.errors import CredentialError

V1 = "client.authentication.k8s.io/v1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def random(self) -> Random:
        return Random(0)


def plugin(tmp_path: Path, status: Any, clock: ManualClock, more: str = "", **spec: Any) -> ExecCredentials:
    """Program that records each run and its input, then prints a credential."""
    script = tmp_path / "plugin.py"
    printed = json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": status})
    script.write_text(
        f"import os, sys\n"
        f"open({str(tmp_path / 'runs')!r}, 'a').write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
        f"{more}\n"
        f"print({printed!r}.replace('TOKEN', os.environ.get('TOKEN', '')))\n"
    )
    facts = {"interactive_mode": "Never", "env": (("TOKEN", "secret"),), **spec}
    return ExecCredentials(ExecConfig(sys.executable, V1, (str(script),), **facts), clock)


def runs(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "runs").read_text().splitlines()]


def test_plugin_runs_once_for_concurrent_callers(tmp_path: Path) -> None:
    async def main() -> list[ClientIdentity]:
        credentials = plugin(tmp_path, {"token": "TOKEN"}, ManualClock())
        found = await asyncio.gather(*(credentials.get_identity() for _ in range(5)))
        return [*found, await credentials.get_identity()]

    assert asyncio.run(main()) == [ClientIdentity("secret")] * 6
    assert runs(tmp_path) == [{"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}}]


def test_plugin_runs_again_when_credentials_expire_or_are_rejected(tmp_path: Path) -> None:
    clock = ManualClock()
    status = {"token": "TOKEN", "expirationTimestamp": (NOW + timedelta(hours=1)).isoformat()}

    async def main() -> None:
        credentials = plugin(tmp_path, status, clock)
        first = await credentials.get_identity()
        clock.time += timedelta(minutes=59)
        await credentials.get_identity()
        assert len(runs(tmp_path)) == 1
        credentials.invalidate(first)
        await credentials.get_identity()
        assert len(runs(tmp_path)) == 2
        clock.time += timedelta(minutes=2)
        await credentials.get_identity()
        assert len(runs(tmp_path)) == 3

    asyncio.run(main())


def test_plugin_gets_cluster_info_if_configured(tmp_path: Path) -> None:
    async def main() -> None:
        info = {"server": "https://a"}
        await plugin(
            tmp_path, {"token": "t"}, ManualClock(), provide_cluster_info=True, cluster_info=info
        ).get_identity()

    asyncio.run(main())
    assert runs(tmp_path)[0]["spec"] == {"interactive": False, "cluster": {"server": "https://a"}}


def test_cancelled_call_leaves_the_plugin_running(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"import time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"

    async def main() -> None:
        credentials = plugin(tmp_path, {"token": "TOKEN"}, ManualClock(), wait)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(credentials.get_identity(), 0.05)
        gate.touch()
        assert await credentials.get_identity() == ClientIdentity("secret")
        assert len(runs(tmp_path)) == 1

    asyncio.run(main())


def test_close_terminates_the_plugin(tmp_path: Path) -> None:
    async def main() -> None:
        credentials = plugin(tmp_path, {"token": "t"}, ManualClock(), "import time; time.sleep(60)")
        waiting = asyncio.create_task(credentials.get_identity())
        await asyncio.sleep(0.05)
        credentials.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())


def test_failing_or_missing_plugin_is_reported(tmp_path: Path) -> None:
    async def fails() -> None:
        await plugin(tmp_path, {}, ManualClock(), "sys.exit(3)").get_identity()

    async def is_missing() -> None:
        spec = ExecConfig("no-such-program", V1, install_hint="install it", interactive_mode="Never")
        await ExecCredentials(spec, ManualClock()).get_identity()

    with pytest.raises(CredentialError, match="failed with exit code 3"):
        asyncio.run(fails())
    with pytest.raises(CredentialError, match="executable no-such-program not found\n\ninstall it"):
        asyncio.run(is_missing())


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("nonsense", "decoding stdout"),
        ({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1"}, "returned version client"),
        ({"kind": "Pod", "apiVersion": V1}, "of kind Pod"),
        ({"kind": "ExecCredential", "apiVersion": V1}, "didn't return a status field"),
        ({"kind": "ExecCredential", "apiVersion": V1, "status": {}}, "didn't return a token or cert/key pair"),
        (
            {"kind": "ExecCredential", "apiVersion": V1, "status": {"clientKeyData": "k"}},
            "only certificate or key, not both",
        ),
    ],
)
def test_invalid_plugin_output_is_rejected(printed: Any, why: str) -> None:
    output = printed if isinstance(printed, str) else json.dumps(printed)
    with pytest.raises(CredentialError, match=why):
        decode_exec_credential(output.encode(), V1)


def test_interactive_plugin_needs_a_terminal() -> None:
    always = ExecConfig("x", V1, interactive_mode="Always")
    assert is_interactive(always, True)
    with pytest.raises(CredentialError, match="standard input is not a terminal"):
        is_interactive(always, False)
    assert not is_interactive(ExecConfig("x", V1, interactive_mode="Never"), True)
    assert not is_interactive(ExecConfig("x", V1, interactive_mode="IfAvailable"), False)
