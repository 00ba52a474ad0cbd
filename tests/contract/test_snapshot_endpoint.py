# SPDX-License-Identifier: Apache-2.0
"""Tests of snapshots of running servers over their API, including in-memory stores."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kubeloop.api.errors import Forbidden
from kubeloop.cli.main import main
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.pki.kubeconfig import admin_kubeconfig
from kubeloop.store.backup.snapshot import read_snapshot
from tests.contract.planes import Plane, play_over_http


def test_administrator_saves_a_snapshot_of_an_in_memory_store(
    pki: Pki, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, kubeconfig = tmp_path / "saved", tmp_path / "admin.conf"
    command = ["snapshot", "save", str(file), "--kubeconfig", str(kubeconfig)]

    async def scenario(plane: Plane) -> None:
        kubeconfig.write_text(admin_kubeconfig(pki, pki.ca, f"https://127.0.0.1:{plane.port}"))
        for number in range(3):
            kept = await plane.config_map(f"kept{number}", {"text": "x" * 1_000_000})
        assert await asyncio.to_thread(main, command) == 0
        found = read_snapshot(str(file))
        assert found.revision >= int(kept.metadata.resource_version)
        key = "/registry/configmaps/default/kept2"
        assert found.records[key] == plane.store.get(key)
        assert str(found.revision) in capsys.readouterr().out
        assert await asyncio.to_thread(main, command) == 1
        assert "exists" in capsys.readouterr().err

    play_over_http(scenario, pki, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["admin.conf", "saved", "tokens.csv"]


def test_other_users_are_forbidden(pki: Pki, tmp_path: Path) -> None:
    async def scenario(plane: Plane) -> None:
        with pytest.raises(Forbidden, match="/kubeloop/snapshot"):
            await plane.nobody.document("/kubeloop/snapshot")

    play_over_http(scenario, pki, tmp_path)
