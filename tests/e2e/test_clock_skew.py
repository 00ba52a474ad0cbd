# SPDX-License-Identifier: Apache-2.0
"""Tests of a server with a wrong clock: tokens are rejected until it is corrected."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path

import pytest

from kubeloop.chaos.faults.clocks import FaketimeMissing, ProcessClocks
from tests.e2e.conftest import MakePlane, make_namespace
from tests.e2e.plane import GIVE_UP_SECONDS, Plane, call_on, eventually
from tests.skips import NEEDS_TOOL

TEN_MINUTES = 600.0


@pytest.fixture
def clocks(tmp_path: Path) -> ProcessClocks:
    try:
        return ProcessClocks(tmp_path)
    except FaketimeMissing:
        pytest.skip(f"{NEEDS_TOOL}libfaketime")


@pytest.fixture
def server(make_plane: MakePlane, clocks: ProcessClocks, monkeypatch: pytest.MonkeyPatch) -> Plane:
    for name, value in clocks.environment("server").items():
        monkeypatch.setenv(name, value)
    one = make_plane(command="apiserver")
    one.start()
    make_namespace(one, "home")
    return one


def status_with(token: str, server: Plane) -> int:
    """Return the response for a client with only a token."""
    authority = ssl.create_default_context(cafile=server.folder / "pki" / "ca.crt")
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=GIVE_UP_SECONDS, context=authority)
    try:
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        return call_on(connection, "POST", path, {}, Authorization=f"Bearer {token}").status
    finally:
        connection.close()


def test_server_with_a_late_clock_rejects_new_tokens_until_corrected(server: Plane, clocks: ProcessClocks) -> None:
    request = {"spec": {"expirationSeconds": 3600}}
    token = server.create("/api/v1/namespaces/home/serviceaccounts/default/token", request)["status"]["token"]
    assert status_with(token, server) == 201
    clocks.set("server", -TEN_MINUTES)
    eventually(lambda: status_with(token, server) == 401)
    assert server.get("/api/v1/namespaces/home")["metadata"]["name"] == "home", "certificates begin an hour early"
    clocks.set("server", 0)
    eventually(lambda: status_with(token, server) == 201)
