# SPDX-License-Identifier: Apache-2.0
"""Tests of start and stop: state is restored, and startup errors are reported in one line."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import MakePlane
from tests.e2e.plane import GIVE_UP_SECONDS, PROGRAM, Plane, config_map, environment, eventually

NAMESPACES = "/api/v1/namespaces"


def refused(*arguments: str) -> str:
    """The one line that a start ends with that can't be."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=GIVE_UP_SECONDS,
        env=environment(),
        check=False,
    )
    assert done.returncode == 1, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("kubeloop: ")
    return line


def test_used_port_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert str(port) in refused("up", "--data-dir", str(tmp_path / "data"), "--port", str(port))


def test_port_of_a_running_server_is_reported_in_one_line(plane: Plane, tmp_path: Path) -> None:
    said = refused("up", "--data-dir", str(tmp_path / "data"), "--port", str(plane.port))
    assert str(plane.port) in said


def test_unwritable_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        folder = "/proc/1/kubeloop"  # not writable, even by root
    else:
        tmp_path.chmod(0o500)
        folder = str(tmp_path / "data")
    assert folder in refused("up", "--data-dir", folder, "--port", "0")


def test_folder_that_is_a_file_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    assert str(tmp_path / "data") in refused("up", "--data-dir", str(tmp_path / "data"), "--port", "0")


def test_second_instance_on_the_same_data_is_reported_in_one_line(make_plane: MakePlane) -> None:
    first = make_plane()
    first.start()
    data = str(first.folder / "data")
    assert data in refused("up", "--data-dir", data, "--port", "0")
    assert first.call("GET", "/readyz").status == 200


@pytest.mark.parametrize("damage", ["overwritten", "cut short"])
def test_corrupt_database_is_reported_in_one_line(make_plane: MakePlane, damage: str) -> None:
    plane = make_plane()
    plane.start()
    for number in range(50):
        plane.create(NAMESPACES, {"metadata": {"name": f"n{number}", "annotations": {"filling": "x" * 5000}}})
    plane.stop()
    database = plane.folder / "data" / "store.db"
    content = database.read_bytes()
    if damage == "overwritten":
        database.write_bytes(b"this is no database at all" * (len(content) // 26))
    else:
        database.write_bytes(content[: len(content) // 2])
    before = database.read_bytes()
    assert "store.db" in refused("up", "--data-dir", str(plane.folder / "data"), "--port", "0")
    assert database.read_bytes() == before, "the evidence is left as it was"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_cleanly_and_state_is_restored(make_plane: MakePlane, number: int) -> None:
    plane = make_plane()
    plane.start()
    plane.create(NAMESPACES, {"metadata": {"name": "kept"}})
    made = plane.create(f"{NAMESPACES}/kept/configmaps", config_map("kept", colour="blue"))
    assert plane.stop(number) == 0
    assert plane.errors() == ""
    plane.start()
    assert plane.get(f"{NAMESPACES}/kept/configmaps/kept") == made


def test_stop_is_immediate_with_open_watches(make_plane: MakePlane) -> None:
    plane = make_plane()
    plane.start()
    version = plane.get(NAMESPACES)["metadata"]["resourceVersion"]
    with plane.watch(f"{NAMESPACES}?watch=1&resourceVersion={version}") as events:
        assert plane.stop() == 0
        assert [event for event in events if event["type"] == "ERROR"] == []


def test_keys_survive_restarts(make_plane: MakePlane) -> None:
    plane = make_plane()
    plane.start()
    before = plane.kubeconfig.read_bytes()
    plane.stop()
    plane.start()
    assert plane.kubeconfig.read_bytes() == before


def test_ephemeral_plane_leaves_no_files(
    make_plane: MakePlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("HOME", str(folder))
    plane = make_plane("--ephemeral")
    plane.start()
    plane.create(NAMESPACES, {"metadata": {"name": "passing"}})
    assert plane.stop() == 0
    assert list(folder.iterdir()) == []


def test_system_namespaces_exist(plane: Plane) -> None:
    def names() -> set[str]:
        return {item["metadata"]["name"] for item in plane.get(NAMESPACES)["items"]}

    eventually(lambda: names() >= {"default", "kube-system", "kube-public", "kube-node-lease"})


def test_apiserver_command_accepts_upstreams_flags(make_plane: MakePlane, tmp_path: Path) -> None:
    flags = ("--store", f"sqlite:{tmp_path}/store.db", "--cert-dir", f"{tmp_path}/pki", "--bind-address", "127.0.0.1")
    plane = make_plane(*flags, command="apiserver")
    assert plane.start().startswith("kubeloop apiserver")
    plane.create(NAMESPACES, {"metadata": {"name": "kept"}})
    assert plane.stop() == 0
    plane.start()
    assert plane.get(f"{NAMESPACES}/kept")["metadata"]["name"] == "kept"


def test_bearer_token_is_authenticated_by_the_token_file(make_plane: MakePlane, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,somebody,42,"system:masters"\n')
    flags = ("--store", "memory", "--cert-dir", f"{tmp_path}/pki", "--token-auth-file", str(tokens))
    plane = make_plane(*flags, "--bind-address", "127.0.0.1", command="apiserver")
    plane.start()
    without_certificate = ssl.create_default_context(cafile=str(tmp_path / "pki" / "ca.crt"))
    plane._tls = without_certificate
    assert plane.call("GET", NAMESPACES, Authorization="Bearer secret").status == 200
    assert plane.call("GET", NAMESPACES, Authorization="Bearer wrong").status == 401
    assert plane.call("GET", NAMESPACES).status == 403


def test_key_files_are_readable_by_the_owner_only(make_plane: MakePlane) -> None:
    plane = make_plane()
    plane.start()
    for path in [plane.kubeconfig, *(plane.folder / "data" / "pki").glob("*.key")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_components_are_healthy_also_if_their_ports_are_taken(make_plane: MakePlane) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        folder = make_plane().folder / "data"
        second = make_plane("--data-dir", str(folder), "--controller-manager-port", port, "--scheduler-port", port)
        second.start()
        for component in ("controller manager", "scheduler"):
            assert f"the {component} listens on 127.0.0.1:" in second.errors()

        def is_healthy() -> bool:
            found = second.call("GET", "/api/v1/componentstatuses").json["items"]
            return {one["conditions"][0]["status"] for one in found} == {"True"}

        eventually(is_healthy)
        assert len(second.call("GET", "/api/v1/componentstatuses").json["items"]) == 3


def test_a_ready_server_has_written_the_kubeconfig_and_the_default_roles(make_plane: MakePlane) -> None:
    plane = make_plane()
    with (plane.folder / "stderr").open("ab") as errors:
        plane.process = subprocess.Popen(
            [*PROGRAM, "up", *plane.flags, "--port", "0", "--kubeconfig", str(plane.kubeconfig)],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment(),
        )
    eventually(plane.kubeconfig.exists)
    plane.read_access()
    eventually(lambda: plane.call("GET", "/readyz").status == 200)
    for path in (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/catch-all",
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
        "/api/v1/namespaces/default/endpoints/kubernetes",
    ):
        assert plane.call("GET", path).status == 200
