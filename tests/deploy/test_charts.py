# SPDX-License-Identifier: Apache-2.0
"""The Helm charts: linted, rendered, and installed into a plane whose nodes run their pods."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bounds import GIVE_UP_SECONDS
from tests.deploy.commands import check_arguments
from tests.e2e.plane import Plane, environment

ROOT = Path(__file__).parents[2]
CHARTS = sorted((ROOT / "deploy" / "charts").iterdir())
PLANE = ROOT / "deploy" / "charts" / "kubeloop-plane"
HELM = str(Path(sys.executable).with_name("helm"))
MANIFEST = ROOT / "deploy" / "manifests" / "plane.yaml"
# Labels of Helm's that a manifest without Helm does not have.
_LABELS_OF_HELM = ("app.kubernetes.io/managed-by", "helm.sh/chart")


def helm(home: Path, *arguments: str) -> str:
    """Return the output of a call of Helm with a home folder of its own."""
    settings = {**environment(), "HOME": str(home), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [HELM, *arguments], env=settings, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, cwd=home
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def containers(text: str) -> list[dict[str, Any]]:
    """Return the containers of all workloads in a manifest."""
    objects = [one for one in yaml.safe_load_all(text) if one]
    return [
        one for obj in objects if "template" in obj["spec"] for one in obj["spec"]["template"]["spec"]["containers"]
    ]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_chart_is_clean(chart: Path, tmp_path: Path) -> None:
    assert "0 chart(s) failed" in helm(tmp_path, "lint", "--strict", str(chart))


@pytest.mark.parametrize(
    "settings",
    [(), ("persistence.enabled=false", "nodes=0"), ("extraArgs={--store=memory}", "service.type=LoadBalancer")],
)
def test_plane_has_arguments_that_the_program_takes(settings: tuple[str, ...], tmp_path: Path) -> None:
    flags = [flag for setting in settings for flag in ("--set", setting)]
    for one in containers(
        helm(tmp_path, "template", "one", str(PLANE), *flags, "--show-only", "templates/statefulset.yaml")
    ):
        check_arguments(one["args"])
        assert one["securityContext"]["readOnlyRootFilesystem"]


def test_controller_manager_has_arguments_that_the_program_takes(tmp_path: Path) -> None:
    chart = str(ROOT / "deploy" / "charts" / "kubeloop-controller-manager")
    flags = ("--set", "load={mirror:wire,website:wire}", "--show-only", "templates/deployment.yaml")
    for one in containers(helm(tmp_path, "template", "one", chart, *flags)):
        check_arguments(one["args"])


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_chart_installs_into_a_plane(chart: Path, plane: Plane, tmp_path: Path) -> None:
    target = ("--kubeconfig", str(plane.kubeconfig), "--namespace", "kube-system")
    helm(tmp_path, "install", "one", str(chart), *target, "--wait", "--timeout", f"{int(GIVE_UP_SECONDS)}s")
    pods = plane.get("/api/v1/namespaces/kube-system/pods?labelSelector=app.kubernetes.io%2Finstance%3Done")["items"]
    assert pods
    assert all(pod["status"]["phase"] == "Running" for pod in pods)
    helm(tmp_path, "uninstall", "one", *target)


def test_manifest_is_the_chart_without_helm(tmp_path: Path) -> None:
    chart = list(yaml.safe_load_all(helm(tmp_path, "template", "plane", str(PLANE), "--namespace", "default")))
    for obj in chart:
        for meta in (obj["metadata"], obj["spec"].get("template", {}).get("metadata", {})):
            for label in _LABELS_OF_HELM:
                meta.get("labels", {}).pop(label, None)
    assert list(yaml.safe_load_all(MANIFEST.read_text())) == chart
