# SPDX-License-Identifier: Apache-2.0
"""Leaked addresses of host-local: removed only if nothing speaks for them."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

import pytest

from kubeloop.clock import SystemClock
from kubeloop.network.cni.address_gc import LeakedAddressCollector, read_reservations

OLD = 1_000_000.0


class Runtime:
    """Runtime with sandboxes."""

    def __init__(self, *sandboxes: str) -> None:
        self.sandboxes = set(sandboxes)
        self.is_away = False

    async def list(self) -> frozenset[str]:
        if self.is_away:
            raise ConnectionError("away")
        return frozenset(self.sandboxes)


def reserve(folder: Path, address: str, sandbox: str, modified: float = OLD) -> Path:
    path = folder / address
    path.write_text(f"{sandbox}\r\neth0")
    os.utime(path, (modified, modified))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "last_reserved_ip.0").write_text("10.0.0.3")
    (tmp_path / "lock").touch()
    return tmp_path


def collect(collector: LeakedAddressCollector) -> list[str]:
    return asyncio.run(collector.collect())


def test_address_is_freed_after_two_listings_without_its_sandbox(folder: Path) -> None:
    leaked, used = reserve(folder, "10.0.0.2", "gone"), reserve(folder, "10.0.0.3", "here")
    six = reserve(folder, "fd00::2", "gone")
    collector = LeakedAddressCollector(folder, Runtime("here").list, SystemClock())
    assert collect(collector) == []
    assert leaked.exists()
    assert collect(collector) == ["10.0.0.2", "fd00::2"]
    assert (leaked.exists(), six.exists(), used.exists()) == (False, False, True)
    assert (folder / "last_reserved_ip.0").exists()


def test_sandbox_that_appears_keeps_its_address(folder: Path) -> None:
    path = reserve(folder, "10.0.0.2", "slow")
    runtime = Runtime()
    collector = LeakedAddressCollector(folder, runtime.list, SystemClock())
    collect(collector)
    runtime.sandboxes.add("slow")
    collect(collector)
    runtime.sandboxes.clear()
    assert collect(collector) == []  # missing once again: suspected, not freed
    assert path.exists()


def test_young_reservation_is_kept(folder: Path) -> None:
    path = reserve(folder, "10.0.0.2", "new", SystemClock().now().timestamp() - 60)
    collector = LeakedAddressCollector(folder, Runtime().list, SystemClock())
    assert [collect(collector) for _ in range(3)] == [[], [], []]
    assert path.exists()


def test_runtime_that_is_away_frees_nothing(folder: Path) -> None:
    path = reserve(folder, "10.0.0.2", "gone")
    runtime = Runtime()
    collector = LeakedAddressCollector(folder, runtime.list, SystemClock())
    collect(collector)
    runtime.is_away = True
    with pytest.raises(ConnectionError):
        collect(collector)
    assert path.exists()


def test_address_that_is_given_anew_meanwhile_is_kept(folder: Path) -> None:
    reserve(folder, "10.0.0.2", "gone")
    collector = LeakedAddressCollector(folder, Runtime().list, SystemClock())
    collect(collector)
    reserve(folder, "10.0.0.2", "other")
    assert collect(collector) == []


def test_nothing_is_freed_while_host_local_holds_its_lock(folder: Path) -> None:
    path = reserve(folder, "10.0.0.2", "gone")
    collector = LeakedAddressCollector(folder, Runtime().list, SystemClock())
    collect(collector)
    with (folder / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert collect(collector) == []
    assert path.exists()
    assert collect(collector) == ["10.0.0.2"]


def test_missing_folder_has_no_reservations(tmp_path: Path) -> None:
    assert list(read_reservations(tmp_path / "none")) == []
