# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile, the systemd units and the static pod: linted, with arguments that the program takes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubeloop.testing import Cluster
from tests.deploy.commands import check_arguments
from tests.skips import NEEDS_TOOL

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
_PROGRAM = "/opt/kubeloop/bin/kubeloop"


def test_dockerfile_is_clean() -> None:
    linter = str(Path(sys.executable).with_name("hadolint"))
    done = subprocess.run([linter, str(DOCKERFILE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_image_runs_the_program_without_root() -> None:
    lines = DOCKERFILE.read_text().splitlines()
    last_stage = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM")) :]
    assert "USER 65532:65532" in last_stage
    command = next(line for line in last_stage if line.startswith("CMD "))
    check_arguments(json.loads(command.removeprefix("CMD ")))


def test_image_copies_what_exists() -> None:
    root = DEPLOY.parent
    copied = [line.split()[1:-1] for line in DOCKERFILE.read_text().splitlines() if re.match(r"COPY (?!--from)", line)]
    ignored = (root / ".dockerignore").read_text().split()
    for name in (name for names in copied for name in names):
        assert (root / name).exists()
        assert f"!{name}" in ignored


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_unit_is_valid(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip(f"{NEEDS_TOOL}systemd-analyze")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(_PROGRAM, sys.executable))  # the program is not installed there
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_unit_has_arguments_that_the_program_takes(unit: Path) -> None:
    text = unit.read_text().replace("\\\n", " ")
    words = shlex.split(next(line for line in text.splitlines() if line.startswith("ExecStart=")))
    assert words[0] == f"ExecStart={_PROGRAM}"
    check_arguments(words[1:])


def test_static_pod_has_arguments_that_the_program_takes() -> None:
    pod = yaml.safe_load((DEPLOY / "controller-manager" / "static-pod.yaml").read_text())
    check_arguments(pod["spec"]["containers"][0]["args"])


@pytest.mark.parametrize(
    "name", ["controller-manager/static-pod.yaml", "controller-manager/rbac.yaml", "manifests/plane.yaml"]
)
def test_server_accepts_the_manifest(name: str, cluster: Cluster) -> None:
    for obj in yaml.safe_load_all((DEPLOY / name).read_text()):
        metadata = {"namespace": "default", **obj["metadata"]} if obj["kind"] != "ClusterRole" else obj["metadata"]
        cluster.add({**obj, "metadata": metadata})
