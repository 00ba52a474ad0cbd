# SPDX-License-Identifier: Apache-2.0
"""Volumes that are replaced all at once: a crash leaves one complete version, and the next call repairs the rest."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.kubelet.volumes.host.atomic_writer import FileContent, InvalidPathError, write_atomically
from kubeloop.sim.loop import START
from tests.skips import NEEDS_ROOT

Files = Mapping[str, FileContent]
# Modes belong to paths: those of a pod's files never change.
MODES = {"a": 0o644, "b": 0o400, "sub/a": 0o600, "sub/b": 0o755, "sub/deep/er/c": 0o440, "other/d": 0o666}
CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.chmod", "os.chown"}


class Crash(BaseException):
    """Ends the program in the middle of its work."""


class _CrashPoint:
    """Audit hook that raises `Crash` instead of the operation of this number on a folder."""

    def __init__(self) -> None:
        self.folder = ""
        self.left = -1

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.left < 0 or event not in CHANGES or not _is_change(event, arguments):
            return
        if self.left == 0:
            self.left = -1
            raise Crash
        self.left -= 1


def _is_change(event: str, arguments: tuple[object, ...]) -> bool:
    if event != "open":
        return True
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


CRASH = _CrashPoint()
sys.addaudithook(CRASH)


@contextmanager
def volume() -> Iterator[Path]:
    folder = tempfile.mkdtemp()
    try:
        yield Path(folder) / "volume"
    finally:
        shutil.rmtree(folder)


def crash_at(folder: Path, files: Files, number: int) -> bool:
    """Write files and crash at an operation; False if it took fewer operations."""
    CRASH.left = number
    try:
        write_atomically(folder, files, START)
    except Crash:
        return True
    finally:
        CRASH.left = -1
    return False


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files below a folder, with contents and modes."""
    return {
        str(one.relative_to(folder)): (one.read_bytes(), stat.S_IMODE(one.stat().st_mode))
        for one in folder.rglob("*")
        if one.is_file()
    }


def expected(files: Files) -> dict[str, tuple[bytes, int]]:
    return {path: (one.data, one.mode) for path, one in files.items()}


def visible(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files that a container sees."""
    found: dict[str, tuple[bytes, int]] = {}
    for one in folder.iterdir():
        if not one.name.startswith(".."):
            assert one.is_symlink()
            assert one.exists()
            real = one.resolve()
            if real.is_dir():
                found |= {f"{one.name}/{path}": content for path, content in tree(real).items()}
            else:
                found[one.name] = (real.read_bytes(), stat.S_IMODE(real.stat().st_mode))
    return found


def check_complete(folder: Path, files: Files) -> None:
    assert visible(folder) == expected(files)
    hidden = [one for one in folder.iterdir() if one.name.startswith("..")]
    assert sorted(one.is_symlink() for one in hidden) == [False, True], "one version and the link to it"


payloads = st.dictionaries(st.sampled_from(sorted(MODES)), st.binary(max_size=3), max_size=3).map(
    lambda found: {path: FileContent(data, MODES[path]) for path, data in found.items()}
)


@settings(max_examples=8, deadline=None)
@given(old=st.none() | payloads, new=payloads, then=payloads)
def test_a_crash_at_every_operation_leaves_one_complete_version(old: Files | None, new: Files, then: Files) -> None:
    for number in range(200):
        with volume() as folder:
            if old is not None:
                write_atomically(folder, old, START)
            is_crash = crash_at(folder, new, number)
            if (folder / "..data").exists():
                assert tree((folder / "..data").resolve()) in (expected(new), expected(old or {}))
            else:
                assert old is None, "a volume that had files has none"
            for files in (new, then):
                write_atomically(folder, files, START)
                check_complete(folder, files)
            if not is_crash:
                return
    raise AssertionError("the write never ends")


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(payloads, st.integers(0, 30)), max_size=5), last=payloads)
def test_a_call_completes_whatever_crashes_have_left(steps: list[tuple[Files, int]], last: Files) -> None:
    with volume() as folder:
        for files, number in steps:
            crash_at(folder, files, number)
        write_atomically(folder, last, START)
        check_complete(folder, last)
        assert not write_atomically(folder, last, START)


def test_modes_that_the_group_has_widened_are_no_change(tmp_path: Path) -> None:
    files = {"token": FileContent(b"x", 0o600)}
    assert write_atomically(tmp_path, files, START, lambda: None)
    (tmp_path / "token").chmod(0o640)
    assert not write_atomically(tmp_path, files, START)


def test_permissions_are_set_before_files_are_visible(tmp_path: Path) -> None:
    seen: list[tuple[list[str], bool]] = []

    def look() -> None:
        seen.append((sorted(one.name for one in tmp_path.glob("*/*")), (tmp_path / "..data").exists()))

    write_atomically(tmp_path, {"a": FileContent(b"1", 0o644)}, START, look)
    write_atomically(tmp_path, {"a": FileContent(b"1", 0o644)}, START, look)
    assert seen == [(["a"], False)]


def test_a_mount_point_within_the_volume_keeps_its_place(tmp_path: Path) -> None:
    (tmp_path / "nested").mkdir()
    write_atomically(tmp_path, {"nested": FileContent(b"", 0o644), "a": FileContent(b"1", 0o644)}, START)
    assert (tmp_path / "nested").is_dir()
    assert (tmp_path / "a").read_bytes() == b"1"
    write_atomically(tmp_path, {}, START)
    assert (tmp_path / "nested").is_dir()
    assert not (tmp_path / "a").is_symlink()


def test_paths_are_cleaned(tmp_path: Path) -> None:
    write_atomically(tmp_path, {"./a//b": FileContent(b"1", 0o644)}, START)
    assert (tmp_path / "a/b").read_bytes() == b"1"


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "..", "../a", "a/../../b", "..data", "..a/b", "a" * 256, "a/" * 2049]
)
def test_paths_outside_the_volume_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidPathError):
        write_atomically(tmp_path / "volume", {path: FileContent(b"", 0o644)}, START)
    assert not (tmp_path / "volume").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason=NEEDS_ROOT)
def test_files_and_links_get_their_owner(tmp_path: Path) -> None:
    write_atomically(tmp_path, {"a": FileContent(b"", 0o4600, 1000), "b": FileContent(b"", 0o600)}, START)
    assert (tmp_path / "a").stat().st_uid == (tmp_path / "a").lstat().st_uid == 1000
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o4600
    assert (tmp_path / "b").stat().st_uid == 0
