# SPDX-License-Identifier: Apache-2.0
"""Paths within volumes: no symbolic link leads a container out of its volume, and nothing of the machine is removed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeloop.kubelet.volumes.host.mounts import is_mount_point, mount_points, unmount_all
from kubeloop.kubelet.volumes.host.subpath import SubPathError, bind, make_folder, release
from tests.skips import NEEDS_ROOT

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason=NEEDS_ROOT)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[Path, Path, Path]]:
    """Return a volume, a folder outside of it with a secret, and the folder of bound paths."""
    volume, outside, bound = tmp_path / "volume", tmp_path / "outside", tmp_path / "bound"
    volume.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    yield volume, outside, bound
    unmount_all(tmp_path)


Places = tuple[Path, Path, Path]


@needs_root
@pytest.mark.parametrize("path", ["a", "a/b", "file", "link/b"])
def test_a_path_is_bound_and_released_and_its_data_stays(places: Places, path: str) -> None:
    volume, _, bound = places
    (volume / "a/b").mkdir(parents=True)
    (volume / "a/b/data").write_text("1")
    (volume / "file").write_text("2")
    (volume / "link").symlink_to("a")
    target = bind(volume, path, bound / "v/c/0")
    assert os.path.samefile(target, volume / path)
    assert is_mount_point(target)
    assert bind(volume, path, bound / "v/c/0") == target
    assert len(mount_points(bound)) == 1, "it is bound once"
    assert release(bound)
    assert not bound.exists()
    assert not mount_points(bound)
    assert (volume / "a/b/data").read_text() == "1"
    assert (volume / "file").read_text() == "2"


@needs_root
def test_a_renamed_path_is_bound_again(places: Places) -> None:
    volume, _, bound = places
    (volume / "a").mkdir()
    bind(volume, "a", bound / "v/c/0")
    (volume / "a").rename(volume / "b")
    (volume / "a").mkdir()
    (volume / "a/new").touch()
    target = bind(volume, "a", bound / "v/c/0")
    assert (target / "new").exists()
    assert len(mount_points(bound)) == 1


@needs_root
def test_data_is_kept_while_something_is_mounted(places: Places) -> None:
    volume, _, bound = places
    (volume / "a").mkdir()
    (volume / "a/data").touch()
    target = bind(volume, "a", bound / "v/c/0")
    held = os.open(target, os.O_RDONLY)  # a busy mount cannot be unmounted
    try:
        assert not release(bound)
        assert (volume / "a/data").exists()
    finally:
        os.close(held)
    assert release(bound)


@pytest.mark.parametrize(
    ("link", "path"),
    [
        ("{outside}", "link"),
        ("{outside}/secret", "link"),
        ("..", "link"),
        ("../outside", "link/secret"),
        ("/", "link/etc"),
        ("link", "link"),
        ("missing", "link"),
    ],
)
def test_links_out_of_the_volume_are_refused(places: Places, link: str, path: str) -> None:
    volume, outside, bound = places
    (volume / "link").symlink_to(link.format(outside=outside))
    with pytest.raises(SubPathError):
        bind(volume, path, bound / "v/c/0")
    assert not mount_points(bound)


@pytest.mark.parametrize("path", ["../outside", "a/../../outside", "/etc"])
def test_paths_out_of_the_volume_are_refused(places: Places, path: str) -> None:
    volume, outside, bound = places
    with pytest.raises(SubPathError):
        bind(volume, path, bound / "v/c/0")
    assert sorted(outside.iterdir()) == [outside / "secret"]


def test_a_folder_swapped_for_a_link_while_it_is_opened_is_refused(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume, outside, bound = places
    (volume / "a/b").mkdir(parents=True)
    really = os.path.realpath

    def swap(path: Path) -> str:
        found = really(path)
        if path == volume / "a/b":
            (volume / "a/b").rmdir()
            (volume / "a/b").symlink_to(outside)
        return found

    monkeypatch.setattr(os.path, "realpath", swap)
    with pytest.raises(SubPathError, match="symbolic link"):
        bind(volume, "a/b", bound / "v/c/0")


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o2775, 0o1777])
def test_missing_folders_get_the_mode_of_the_volume(places: Places, mode: int) -> None:
    volume, _, _ = places
    (volume / "a").mkdir(mode=0o700)
    volume.chmod(mode)
    make_folder(volume, "a/b/c")
    modes = [stat.S_IMODE((volume / one).stat().st_mode) for one in ("a", "a/b", "a/b/c")]
    assert modes == [0o700, mode, mode]


def test_folders_are_made_below_a_link_within_the_volume(places: Places) -> None:
    volume, _, _ = places
    (volume / "real").mkdir()
    (volume / "link").symlink_to("real")
    make_folder(volume, "link/new")
    assert (volume / "real/new").is_dir()


@pytest.mark.parametrize("path", ["link/new", "../new", "file/new", "loop/new"])
def test_folders_are_made_nowhere_else(places: Places, path: str) -> None:
    volume, outside, _ = places
    (volume / "link").symlink_to(outside)
    (volume / "loop").symlink_to("loop")
    (volume / "file").touch()
    with pytest.raises(SubPathError):
        make_folder(volume, path)
    assert sorted(outside.iterdir()) == [outside / "secret"]


def test_the_mode_is_not_set_through_a_link(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    volume, outside, _ = places
    volume.chmod(0o777)
    outside.chmod(0o700)
    really = os.mkdir

    def swap(path: str, mode: int, *, dir_fd: int) -> None:
        really(path, mode, dir_fd=dir_fd)
        os.rmdir(path, dir_fd=dir_fd)
        os.symlink(outside, path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", swap)
    with pytest.raises(SubPathError):
        make_folder(volume, "new")
    assert stat.S_IMODE(outside.stat().st_mode) == 0o700
