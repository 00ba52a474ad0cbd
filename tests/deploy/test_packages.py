# SPDX-License-Identifier: Apache-2.0
"""Wheel and sdist: built reproducibly, complete, and installable."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from kubeloop import __version__
from tools.release.distribution import ROOT, build

EPOCH = "1700000000"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(folder, EPOCH)
    return folder


def test_two_builds_have_the_same_bytes(tmp_path: Path) -> None:
    first, second = build(tmp_path / "first", EPOCH), build(tmp_path / "second", EPOCH)
    assert len(first) == 2
    assert first == second


def test_archives_have_the_given_time(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        assert {member.mtime for member in archive} == {int(EPOCH)}


def test_sdist_has_what_a_build_needs(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "kubeloop/__init__.py"} <= names
    assert not any(name.startswith((".venv", "build", "tests")) for name in names)


def test_installed_wheel_runs_without_the_checkout(built: Path, tmp_path: Path) -> None:
    wheel = next(built.glob("*.whl"))
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-compile", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], check=True)
    settings = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        [str(target / "bin" / "kubeloop"), "version"], cwd=tmp_path, env=settings, capture_output=True, text=True
    )
    assert done.stdout.startswith(f"kubeloop {__version__} "), done.stderr
    data = {path.relative_to(ROOT / "kubeloop") for path in (ROOT / "kubeloop").rglob("*.json")}
    assert {path for path in data if not (target / "kubeloop" / path).exists()} == set()
