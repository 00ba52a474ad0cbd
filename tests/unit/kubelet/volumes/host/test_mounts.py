# SPDX-License-Identifier: Apache-2.0
"""Mount points of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeloop.kubelet.volumes.host.mounts import (
    MountError,
    is_mount_point,
    mount_points,
    mount_tmpfs,
    remove_tree,
    run_mount,
    unmount_all,
)
from tests.skips import NEEDS_ROOT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason=NEEDS_ROOT)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    unmount_all(tmp_path)


@pytest.mark.parametrize("name", ["plain", "with space", "tab\tand\nnewline", "back\\slash", "ünï"])
def test_a_bind_mount_within_one_file_system_is_found(folder: Path, name: str) -> None:
    source, target = folder / "source", folder / name
    source.mkdir()
    (source / "data").touch()
    target.mkdir()
    assert not is_mount_point(target)
    run_mount("--bind", str(source), str(target))
    assert is_mount_point(target)
    assert mount_points(folder) == [target]
    assert not remove_tree(folder)
    assert (source / "data").exists()
    unmount_all(folder)
    assert mount_points(folder) == []
    assert remove_tree(target)
    assert (source / "data").exists()


def test_nested_and_repeated_mounts_are_unmounted_from_the_latest(folder: Path) -> None:
    mount_tmpfs(folder, 1 << 20)
    (folder / "below").mkdir()
    mount_tmpfs(folder / "below", 0)
    mount_tmpfs(folder / "below", 0)
    assert mount_points(folder) == [folder / "below", folder / "below", folder]
    unmount_all(folder)
    assert mount_points(folder) == []


def test_a_folder_of_a_similar_name_is_not_below(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "ab").mkdir()
    mount_tmpfs(folder / "ab", 0)
    assert mount_points(folder / "a") == []
    assert mount_points(folder / "missing") == []


def test_a_refused_mount_is_an_error(folder: Path) -> None:
    with pytest.raises(MountError, match="mount failed"):
        mount_tmpfs(folder / "missing", 0)
