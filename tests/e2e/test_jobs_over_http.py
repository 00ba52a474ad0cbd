# SPDX-License-Identifier: Apache-2.0
"""A manager beside an API server runs jobs and cron jobs, with the rights of their loops' accounts and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import MakePlane
from tests.e2e.manager_process import ManagerProcess
from tests.e2e.plane import Plane, eventually

BATCH = "/apis/batch/v1/namespaces/a"
PODS = "/api/v1/namespaces/a/pods"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
def server(make_plane: MakePlane, tmp_path: Path) -> Iterator[Plane]:
    flags = ("--store", "memory", "--bind-address", "127.0.0.1", "--cert-dir", str(tmp_path / "pki"))
    one = make_plane(*flags, command="apiserver")
    one.start()
    manager = ManagerProcess(one, tmp_path / "manager", "--use-service-account-credentials")
    try:
        manager.start()
        yield one
        failed = [loop for loop in manager.get("/loops").json["loops"] if loop["errors"]]
        assert failed == []
    finally:
        manager.close()


def job_spec(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
    return {"template": template, **spec}


def let_pods_succeed(server: Plane) -> None:
    """Set a pod status like a node."""
    for pod in server.get(PODS)["items"]:
        if pod["status"].get("phase") == "Pending":
            body = {"status": {"phase": "Succeeded"}}
            server.call("PATCH", f"{PODS}/{pod['metadata']['name']}/status", body, **MERGE)


def is_complete(server: Plane, name: str) -> bool:
    let_pods_succeed(server)
    conditions = server.get(f"{BATCH}/jobs/{name}")["status"].get("conditions", [])
    return any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)


def test_jobs_complete_and_suspend_and_cronjobs_create_jobs(server: Plane) -> None:
    server.create("/api/v1/namespaces", {"metadata": {"name": "a"}})
    eventually(lambda: server.call("GET", "/api/v1/namespaces/a/serviceaccounts/default").status == 200)
    indexed = job_spec(parallelism=2, completions=3, completionMode="Indexed")
    server.create(f"{BATCH}/jobs", {"metadata": {"name": "indexed"}, "spec": indexed})
    eventually(lambda: is_complete(server, "indexed"))
    done = server.get(f"{BATCH}/jobs/indexed")["status"]
    assert (done["succeeded"], done["completedIndexes"]) == (3, "0-2")
    assert not [one for one in server.get(PODS)["items"] if one["metadata"].get("finalizers")]

    server.create(f"{BATCH}/jobs", {"metadata": {"name": "late"}, "spec": job_spec(suspend=True)})
    eventually(lambda: server.get(f"{BATCH}/jobs/late")["status"].get("conditions"))
    server.call("PATCH", f"{BATCH}/jobs/late", {"spec": {"suspend": False}}, **MERGE)
    eventually(lambda: is_complete(server, "late"))

    often = {"schedule": "@every 1s", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job_spec()}}
    server.create(f"{BATCH}/cronjobs", {"metadata": {"name": "often"}, "spec": often})
    eventually(lambda: server.get(f"{BATCH}/cronjobs/often")["status"].get("lastScheduleTime"))
    name = server.get(f"{BATCH}/cronjobs/often")["status"]["active"][0]["name"]
    eventually(lambda: is_complete(server, name))
    eventually(lambda: server.get(f"{BATCH}/cronjobs/often")["status"].get("lastSuccessfulTime"))
