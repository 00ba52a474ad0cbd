# SPDX-License-Identifier: Apache-2.0
"""Tests of the controller manager and the API server as separate programs with a kubeconfig."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import MakePlane
from tests.e2e.manager_process import ManagerProcess, free_port
from tests.e2e.plane import GIVE_UP_SECONDS, PROGRAM, SOURCE_ROOT, Plane, environment, eventually

MakeManager = Callable[..., ManagerProcess]
# Short terms, so that a test needs not wait for long ones.
QUICK = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
)
OWN_LOOP = """
from kubeloop.runtime.controller import Controller

def crashing(context):
    async def reconcile(key): ...
    controller = Controller("my-controller", reconcile, context.clock)
    async def run():
        raise ValueError("not today")
    controller.run = run
    return controller
"""

_numbers = itertools.count(1)


@pytest.fixture
def server(make_plane: MakePlane, tmp_path: Path) -> Plane:
    """The API server alone, without any loops."""
    flags = ("--store", "memory", "--bind-address", "127.0.0.1", "--cert-dir", str(tmp_path / "pki"))
    one = make_plane(*flags, command="apiserver")
    one.start()
    return one


@pytest.fixture
def make_manager(server: Plane, tmp_path: Path) -> Iterator[MakeManager]:
    with ExitStack() as cleanup:

        def make(*flags: str) -> ManagerProcess:
            one = ManagerProcess(server, tmp_path / f"manager-{next(_numbers)}", *flags)
            cleanup.callback(one.close)
            return one

        yield make


def add_namespace(server: Plane, name: str) -> None:
    server.create("/api/v1/namespaces", {"metadata": {"name": name}})


def is_furnished(server: Plane, name: str) -> bool:
    """Return True if a namespace has the objects of the controllers."""
    paths = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")
    return all(server.call("GET", f"/api/v1/namespaces/{name}/{path}").status == 200 for path in paths)


def events_of(server: Plane, reason: str) -> list[Any]:
    events = server.get("/api/v1/namespaces/kube-system/events")["items"]
    return [one for one in events if one["reason"] == reason]


def test_namespace_gets_default_account_and_root_ca(server: Plane, make_manager: MakeManager) -> None:
    manager = make_manager()
    manager.start()
    add_namespace(server, "a")
    eventually(lambda: is_furnished(server, "a"))
    published = server.get("/api/v1/namespaces/a/configmaps/kube-root-ca.crt")["data"]["ca.crt"]
    assert "BEGIN CERTIFICATE" in published
    server.call("DELETE", "/api/v1/namespaces/a/serviceaccounts/default")
    eventually(lambda: is_furnished(server, "a"))
    eventually(lambda: any("became leader" in one["message"] for one in events_of(server, "LeaderElection")))
    assert manager.stop() == 0
    lease = server.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager")
    assert lease["spec"]["holderIdentity"] == ""  # given back at the end


def test_every_controller_can_use_its_own_service_account(server: Plane, make_manager: MakeManager) -> None:
    manager = make_manager("--use-service-account-credentials")
    manager.start()
    add_namespace(server, "a")
    eventually(lambda: is_furnished(server, "a"))
    accounts = server.get("/api/v1/namespaces/kube-system/serviceaccounts")["items"]
    names = {account["metadata"]["name"] for account in accounts}
    assert {"service-account-controller", "root-ca-cert-publisher"} <= names
    assert manager.stop() == 0


def test_roles_of_the_manifests_are_sufficient(server: Plane, make_manager: MakeManager) -> None:
    system = "/api/v1/namespaces/kube-system"
    for manifest in yaml.safe_load_all((SOURCE_ROOT / "deploy/controller-manager/rbac.yaml").read_text()):
        eventually(lambda manifest=manifest: server.call("POST", path_of(manifest), manifest).status in (201, 409))
    asked = server.create(f"{system}/serviceaccounts/kubeloop-controller-manager/token", {"spec": {}})
    kubeconfig = yaml.safe_load(server.kubeconfig.read_text())
    kubeconfig["users"][0]["user"] = {"token": asked["status"]["token"]}
    server.kubeconfig.write_text(yaml.safe_dump(kubeconfig))
    manager = make_manager("--use-service-account-credentials")
    manager.start()
    add_namespace(server, "a")
    eventually(lambda: is_furnished(server, "a"))
    assert {loop["errors"] for loop in manager.get("/loops").json["loops"]} == {0}
    assert "WARNING" not in manager.errors()


def test_static_pod_runs(server: Plane) -> None:
    server.create(
        "/api/v1/namespaces/kube-system/serviceaccounts", {"metadata": {"name": "default"}}
    )  # which a loop would make
    manifest = yaml.safe_load((SOURCE_ROOT / "deploy/controller-manager/static-pod.yaml").read_text())
    path = "/api/v1/namespaces/kube-system/pods?fieldValidation=Strict"
    eventually(lambda: server.call("POST", path, manifest).status == 201)  # when its priority class is there


def path_of(manifest: dict[str, Any]) -> str:
    """Return the collection path of a manifest."""
    group = manifest["apiVersion"]
    prefix = f"/apis/{group}" if "/" in group else f"/api/{group}"
    namespace = manifest["metadata"].get("namespace")
    return f"{prefix}/namespaces/{namespace}/{plural(manifest)}" if namespace else f"{prefix}/{plural(manifest)}"


def plural(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind'].lower()}s"


def test_killed_manager_resumes(server: Plane, make_manager: MakeManager) -> None:
    manager = make_manager(*QUICK)
    manager.start()
    eventually(manager.is_leading)
    manager.stop(signal.SIGKILL)
    add_namespace(server, "meanwhile")
    manager.start()
    eventually(lambda: is_furnished(server, "meanwhile"))


def test_manager_waits_for_the_api_server(server: Plane, make_manager: MakeManager) -> None:
    manager = make_manager(*QUICK)
    server.stop()
    manager.start()
    assert manager.get("/healthz", as_admin=False).status == 200
    server.start()
    add_namespace(server, "late")
    eventually(lambda: is_furnished(server, "late"))


def test_standby_manager_takes_over(server: Plane, make_manager: MakeManager) -> None:
    # Long enough for the first to keep its lease on a busy machine.
    lease = ("--leader-elect-lease-duration=12s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=1s")
    first, second = make_manager(*lease), make_manager(*lease)
    first.start()
    eventually(first.is_leading)
    second.start()
    add_namespace(server, "a")
    eventually(lambda: is_furnished(server, "a"))
    assert not second.is_leading()
    assert {loop["state"] for loop in second.loops().values()} == {"not started"}
    first.stop(signal.SIGKILL)
    eventually(second.is_leading)
    add_namespace(server, "b")
    eventually(lambda: is_furnished(server, "b"))


def test_manager_exits_after_losing_its_lease(server: Plane, make_manager: MakeManager) -> None:
    first, second = make_manager(*QUICK), make_manager(*QUICK)
    first.start()
    eventually(first.is_leading)
    second.start()
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)
    eventually(second.is_leading)
    first.process.send_signal(signal.SIGCONT)
    assert first.wait() == 1
    assert "leaderelection lost" in first.errors()


def test_status_port_requires_authorization(server: Plane, make_manager: MakeManager) -> None:
    manager = make_manager()
    manager.start()
    eventually(lambda: manager.get("/metrics").status == 200)  # once it has the client CA
    health = manager.get("/healthz?verbose", as_admin=False)
    assert health.status == 200
    for check in ("leaderElection", "serviceaccount-controller", "root-ca-certificate-publisher-controller"):
        assert f"[+]{check} ok" in health.body.decode()
    for path in ("/metrics", "/configz", "/loops", "/healthz/leaderElection", "/nowhere"):
        assert manager.get(path, as_admin=False).status == 403
    metrics = manager.get("/metrics").body.decode()
    assert 'leader_election_master_status{name="kube-controller-manager"} 1' in metrics
    for family in ("workqueue_depth", "rest_client_requests_total", "controller_runtime_reconcile_total"):
        assert f"# TYPE {family} " in metrics
    assert (
        'running_managed_controllers{manager="kube-controller-manager",name="serviceaccount-controller"} 1' in metrics
    )
    assert manager.get("/configz").json["kubecontrollermanager.config.k8s.io"]["flags"]["secure-port"] == manager.port


def test_crashing_custom_controller_is_reported_and_isolated(server: Plane, make_manager: MakeManager) -> None:
    manager = make_manager("--load", "own:crashing")
    (manager.folder / "own.py").write_text(OWN_LOOP)
    manager.start()
    add_namespace(server, "a")
    eventually(lambda: is_furnished(server, "a"))
    eventually(lambda: manager.loops()["my-controller"]["restarts"] > 0)
    ill = manager.loops()["my-controller"]
    assert ill["lastFailure"] == "ValueError: not today"
    assert manager.loops()["serviceaccount-controller"]["healthy"]
    assert manager.get("/livez", as_admin=False).status == 200
    eventually(lambda: manager.get("/healthz/my-controller").status == 500)
    shown = manager.status().stdout
    assert "my-controller" in shown
    assert "ValueError: not today" in shown

    def told() -> bool:
        events = server.get("/api/v1/namespaces/kube-system/events")["items"]
        return any(one["reason"] == "LoopCrashed" and "my-controller" in one["message"] for one in events)

    eventually(told)
    assert manager.stop() == 0


def test_single_process_plane_runs_the_same_controllers(make_plane: MakePlane) -> None:
    port = free_port()
    whole = make_plane("--ephemeral", "--controller-manager-port", str(port))
    whole.start()
    assert is_furnished(whole, "default")  # from its first moment
    add_namespace(whole, "a")
    eventually(lambda: is_furnished(whole, "a"))
    arguments = ["status", "-o", "json", "--server", f"https://127.0.0.1:{port}", "--kubeconfig", str(whole.kubeconfig)]
    told = subprocess.run(
        [*PROGRAM, "controller-manager", *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=GIVE_UP_SECONDS,
    )
    assert told.returncode == 0, told.stderr
    assert "serviceaccount-controller" in {loop["name"] for loop in json.loads(told.stdout)["loops"]}
    assert whole.stop() == 0
    assert whole.errors() == ""
