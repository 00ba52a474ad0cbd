# SPDX-License-Identifier: Apache-2.0
"""Release tools: notes from the changelog, what forbids a release, and what `make up` installs."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from kubeloop import __version__
from tools.release.dry_run import ROOT, notes, problems

CHANGELOG = """# Changelog

## [Unreleased]

- Later.

## [0.2.0] - 2026-01-01

- Now.
"""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(("version", "expected"), [("0.2.0", "- Now."), ("0.3.0", "- Later.")])
def test_notes_are_those_of_the_version_or_unreleased(version: str, expected: str) -> None:
    assert notes(CHANGELOG, version) == expected


def test_release_without_notes_is_refused() -> None:
    assert "CHANGELOG.md has nothing to release" in problems(__version__, "# Changelog\n")


def test_release_of_another_version_than_declared_is_refused() -> None:
    assert any("pyproject.toml has version" in one for one in problems("9.9.9", CHANGELOG))


def test_declared_versions_agree() -> None:
    assert PROJECT["version"] == __version__
    assert PROJECT["requires-python"] == ">=3.11"
    for minor in (11, 12, 13, 14):
        assert f"Programming Language :: Python :: 3.{minor}" in PROJECT["classifiers"]


def dry_make(target: str) -> str:
    """Return the commands that make would run for a target in a fresh checkout."""
    command = ["make", "--dry-run", "--always-make", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def test_up_installs_the_runtime_only() -> None:
    assert "--editable ." in dry_make("up")
    assert "[dev]" not in dry_make("up")
    assert "[dev]" in dry_make("install")


def test_runtime_dependencies_do_not_include_development_tools() -> None:
    names = {requirement.partition(">")[0] for requirement in PROJECT["dependencies"]}
    assert names.isdisjoint({"pytest", "mypy", "ruff", "kubernetes", "kubernetes-validate"})


def test_program_runs_without_optional_packages() -> None:
    # None in sys.modules makes an import fail as if the package were missing.
    missing = ("pytest", "kubernetes", "kubernetes_validate", "nacl", "boto3", "hypothesis", "aiohttp", "grpc")
    script = f"import sys; sys.modules.update(dict.fromkeys({missing})); import kubeloop.cli.up.run, kubeloop.operator"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
