# SPDX-License-Identifier: Apache-2.0
"""The examples do what they say: run as their reader would, against a cluster of each test's own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.testing import Cluster, config_map, namespace
from tests.bounds import GIVE_UP_SECONDS, SUITE_GIVE_UP_SECONDS

EXAMPLES = Path(__file__).parents[2] / "examples"
# The programs of three-nodes set up machines and not a client or a controller: tests/realnode runs them.
PROGRAMS = sorted(one for one in EXAMPLES.glob("*/*.py") if one.parent.name != "three-nodes")
WEBSITE = {"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "shop", "namespace": "default"}}
# As with the package installed: pytest finds the plugin by the package's metadata.
PYTEST = ("-m", "pytest", "-q", "-c", os.devnull, "--rootdir=.", "-p", "no:cacheprovider")


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with this checkout's code and without a home folder."""
    return {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "HOME": str(folder), "PYTHONUNBUFFERED": "1"}


def run_output(folder: Path, *command: str) -> str:
    """Return the output of a program."""
    where = EXAMPLES / command[0]
    done = subprocess.run(
        [sys.executable, *command[1:]],
        cwd=where,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=SUITE_GIVE_UP_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def running(folder: Path, *command: str) -> Iterator[Path]:
    """Run a program until it is stopped, which must succeed; returns its log."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command[1:]],
            cwd=EXAMPLES / command[0],
            env=environment(folder),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
        process.send_signal(signal.SIGTERM)
        assert process.wait(GIVE_UP_SECONDS) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_an_example_is_short(program: Path) -> None:
    assert len(program.read_text().splitlines()) <= 60


def test_script_example(live_cluster: Cluster, tmp_path: Path) -> None:
    lines = run_output(tmp_path, "01_script", "script.py").splitlines()
    assert lines[0].startswith("created greeting, resourceVersion ")
    assert lines[1:] == [
        "data: goodbye world, hello world",
        "all: greeting",
        "seen: DELETED",
        'configmaps "greeting" not found',
    ]


@pytest.mark.parametrize("example", ["02_mirror", "03_website"])
def test_tests_of_the_controller_examples_pass(example: str, tmp_path: Path) -> None:
    run_output(tmp_path, example, *PYTEST)


def test_standalone_controller_example(live_cluster: Cluster, tmp_path: Path) -> None:
    live_cluster.add(config_map("shared-settings", {"colour": "blue"}), namespace("shop", labels={"mirror": "yes"}))

    with running(tmp_path, "02_mirror", "mirror.py"):
        live_cluster.eventually(lambda: copies(live_cluster))
        assert live_cluster.client.get(Lease, "mirror", "default").spec.holder_identity
    assert live_cluster.client.get(Lease, "mirror", "default").spec.holder_identity == "", "given back at the end"


def test_standalone_custom_resource_controller_example(live_cluster: Cluster, tmp_path: Path) -> None:
    with running(tmp_path, "03_website", "website.py"):
        live_cluster.eventually(lambda: live_cluster.client.list("crd").items)
        live_cluster.add({**WEBSITE, "spec": {"image": "shop:1", "replicas": 2}})
        live_cluster.eventually(lambda: deployments(live_cluster) == [("shop", 2)])


def test_kopf_example(live_cluster: Cluster, tmp_path: Path) -> None:
    live_cluster.add(yaml.safe_load((EXAMPLES / "04_kopf" / "website_crd.yaml").read_text()))
    operator = ("-m", "kopf", "run", "--standalone", "--namespace", "default", "website_kopf.py")
    with running(tmp_path, "04_kopf", *operator):
        live_cluster.add({**WEBSITE, "spec": {"image": "shop:1"}})
        live_cluster.eventually(lambda: deployments(live_cluster) == [("shop", 1)])
        status = {"status": {"replicas": 1, "readyReplicas": 1}}
        live_cluster.client.patch(Deployment, "shop", status, "default", subresource="status")
        live_cluster.eventually(lambda: ready_of_the_website(live_cluster) == 1)


def test_official_client_example(live_cluster: Cluster, tmp_path: Path) -> None:
    lines = run_output(tmp_path, "05_official_client", "official.py").splitlines()
    assert lines == [
        "created official with 1 replica, strategy RollingUpdate",
        "scaled to 3",
        "seen: MODIFIED official, 3 replicas",
        "deleted: 404 Not Found",
    ]


def copies(cluster: Cluster) -> list[ConfigMap]:
    found = cluster.client.list(ConfigMap, "shop").items
    return [one for one in found if one.metadata.name == "shared-settings"]


def deployments(cluster: Cluster) -> list[tuple[str, int]]:
    found = cluster.client.list(Deployment, "default").items
    return [(one.metadata.name, one.spec.replicas) for one in found]


def ready_of_the_website(cluster: Cluster) -> int:
    site = cluster.client.get("websites.example.com/v1", "shop", "default")
    return int((site.get("status") or {}).get("ready", 0))


# The guide.

GUIDE = EXAMPLES.parent / "docs" / "writing-a-controller.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
TESTS = [block for block in BLOCKS if "def test_" in block]


@pytest.mark.parametrize("excerpt", [block for block in BLOCKS if block not in TESTS])
def test_the_guide_quotes_the_examples(excerpt: str) -> None:
    assert any(excerpt in program.read_text() for program in PROGRAMS)


def test_tests_in_the_guide_pass(tmp_path: Path) -> None:
    assert len(TESTS) > 3
    for number, block in enumerate(TESTS):
        (tmp_path / f"test_of_the_guide_{number}.py").write_text(block)
    report = run_output(tmp_path, "02_mirror", *PYTEST, str(tmp_path))
    assert f"{len(TESTS)} passed" in report


def test_controller_loaded_by_the_manager(live_cluster: Cluster, tmp_path: Path) -> None:
    live_cluster.add(config_map("shared-settings", {"colour": "blue"}), namespace("shop", labels={"mirror": "yes"}))
    flags = ("--kubeconfig", os.environ["KUBECONFIG"], "--secure-port", "0", "--load", "mirror:wire")
    with running(tmp_path, "02_mirror", "-m", "kubeloop.cli.main", "controller-manager", *flags):
        live_cluster.eventually(lambda: copies(live_cluster))


def test_custom_resource_controller_loaded_by_the_manager(live_cluster: Cluster, tmp_path: Path) -> None:
    flags = ("--kubeconfig", os.environ["KUBECONFIG"], "--secure-port", "0", "--load", "website:wire")
    with running(tmp_path, "03_website", "-m", "kubeloop.cli.main", "controller-manager", "--controllers=", *flags):
        live_cluster.eventually(lambda: live_cluster.client.list("crd").items)
        live_cluster.add({**WEBSITE, "spec": {"image": "shop:1", "replicas": 2}})
        live_cluster.eventually(lambda: deployments(live_cluster) == [("shop", 2)])
