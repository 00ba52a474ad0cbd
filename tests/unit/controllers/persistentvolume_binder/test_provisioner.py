# SPDX-License-Identifier: Apache-2.0
"""Host paths: which directories are made and removed, and that no others are touched."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.storage_v1 import StorageClass
from kubeloop.controllers.persistentvolume_binder.provisioner import (
    HostPathProvisioner,
    ProvisionRequest,
    VolumeDeletionError,
)


def request(name: str = "pvc-1") -> ProvisionRequest:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = codec.from_plain({"metadata": {"name": "c"}, "spec": spec}, PersistentVolumeClaim)
    return ProvisionRequest(name, claim, StorageClass(provisioner="x", reclaim_policy="Delete"), None)


def at(path: Path | str, name: str = "v") -> PersistentVolume:
    body: Any = {"metadata": {"name": name}, "spec": {"hostPath": {"path": str(path)}}}
    return codec.from_plain(body, PersistentVolume)


def test_directory_is_created_and_removed(tmp_path: Path) -> None:
    paths = HostPathProvisioner("x", tmp_path / "root", makes_directories=True)
    made = asyncio.run(paths.provision(request()))
    again = asyncio.run(paths.provision(request()))
    assert made == again
    (tmp_path / "root" / "pvc-1" / "file").write_text("kept until then")
    asyncio.run(paths.delete(made))
    asyncio.run(paths.delete(made))
    assert list((tmp_path / "root").iterdir()) == []


def test_foreign_directories_are_not_removed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    paths = HostPathProvisioner("x", tmp_path / "root")
    asyncio.run(paths.delete(at(Path("/tmp") / theirs.relative_to("/"))))
    asyncio.run(paths.delete(at(f"/tmp/{theirs}")))
    assert theirs.exists()


@pytest.mark.parametrize("path", ["/", "/tmp", "/tmp/", "/etc/x"])
def test_paths_outside_of_tmp_cannot_be_deleted(tmp_path: Path, path: str) -> None:
    with pytest.raises(VolumeDeletionError, match="host_path deleter only supports"):
        asyncio.run(HostPathProvisioner("x", tmp_path).delete(at(path)))


def test_path_outside_of_the_root_is_not_removed(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    other.mkdir(parents=True)
    root.mkdir()
    paths = HostPathProvisioner("x", root)
    (root / "theirs").mkdir()
    for path, name in ((f"{root}/..", ".."), (f"{root}/../other", "other"), (f"{root}", ""), (f"{root}/theirs", "v")):
        with suppress(VolumeDeletionError):
            asyncio.run(paths.delete(at(path, name)))
    assert other.exists()
    assert (root / "theirs").exists()
    assert root.exists()
