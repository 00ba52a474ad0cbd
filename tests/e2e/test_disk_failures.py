# SPDX-License-Identifier: Apache-2.0
"""Tests of a full disk and a read-only disk: reported clearly, with recovery."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import MakePlane
from tests.e2e.plane import Plane, config_map, eventually
from tests.skips import NEEDS_ROOT

MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
MEGABYTES = 24


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of the test's own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(NEEDS_ROOT)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def on_disk(disk: Path, make_plane: MakePlane) -> Plane:
    made = make_plane("--data-dir", str(disk / "data"), "--controller-manager-port", "0", "--scheduler-port", "0")
    made.start()
    return made


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return ballast


def write(plane: Plane, number: int) -> tuple[int, str]:
    answer = plane.call("POST", MAPS, config_map(f"map-{number}", text="x" * 100_000))
    return answer.status, answer.json.get("message", "")


def test_full_disk_rejects_writes_like_etcd_serves_reads_and_recovers(on_disk: Plane, disk: Path) -> None:
    plane = on_disk
    assert write(plane, 0)[0] == 201
    eventually(lambda: all(plane.get(f"{ROLES}/{name}")["rules"] for name in ("admin", "edit", "view")))  # loops rest
    ballast = fill(disk)
    refused = next(said for number in range(1, 100) if (said := write(plane, number))[0] != 201)
    assert refused[0] == 500
    assert refused[1].startswith("etcdserver: mvcc: database space exceeded: the store ")
    assert plane.get(f"{MAPS}/map-0")["metadata"]["name"] == "map-0"
    listed = {item["metadata"]["name"] for item in plane.get(MAPS)["items"]}
    ready = plane.call("GET", "/readyz?verbose")
    assert (ready.status, b"[-]etcd-readiness failed" in ready.body) == (500, True), ready.body
    assert plane.call("GET", "/livez").status == 200
    time.sleep(3)  # it is tried meanwhile, and must not be taken for over
    assert plane.call("GET", "/readyz").status == 500
    ballast.unlink()
    eventually(lambda: plane.call("GET", "/readyz").status == 200)
    assert write(plane, 1000)[0] == 201
    assert plane.errors() == "", "whoever writes is told, and nobody else needs to be"
    plane.kill()
    plane.start()
    assert {item["metadata"]["name"] for item in plane.get(MAPS)["items"]} == {*listed, "map-1000"}


def test_read_only_disk_is_reported_at_start_and_recovers(on_disk: Plane, disk: Path) -> None:
    plane = on_disk
    assert write(plane, 0)[0] == 201
    plane.stop()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(AssertionError, match="exit code 1"):
        plane.start()
    assert "read-only file system" in plane.errors().splitlines()[-1].lower()
    assert str(disk / "data") in plane.errors().splitlines()[-1]
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    plane.start()
    assert plane.get(f"{MAPS}/map-0")["data"]["text"] == "x" * 100_000


def test_truncated_database_is_rejected_with_name_and_remedy(make_plane: MakePlane, tmp_path: Path) -> None:
    plane = make_plane(command="apiserver")
    plane.start()
    assert write(plane, 0)[0] == 201
    plane.stop()
    path = plane.folder / "store.db"
    whole = path.read_bytes()
    os.truncate(path, len(whole) // 2)
    with pytest.raises(AssertionError, match="exit code 1"):
        plane.start()
    (said,) = plane.errors().splitlines()
    assert said.startswith(f"kubeloop: the store {path} is corrupt: ")
    assert "kubeloop snapshot restore" in said
    assert path.stat().st_size == len(whole) // 2, "what is left was touched"
    path.write_bytes(whole)
    plane.start()
    assert plane.get(f"{MAPS}/map-0")["data"]["text"] == "x" * 100_000
