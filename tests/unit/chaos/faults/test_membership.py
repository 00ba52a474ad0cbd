# SPDX-License-Identifier: Apache-2.0
"""A member of etcd is replaced through its JSON gateway, however often it takes to be agreed on."""

from __future__ import annotations

import asyncio
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from kubeloop.chaos.faults import membership
from kubeloop.chaos.faults.membership import MemberReplaceError, replace_member

PEER = "http://127.0.0.1:2380"


class Etcd(HTTPServer):
    """A gateway that refuses a few times before it agrees."""

    def __init__(self, refusals: int, members: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.refusals = refusals
        self.members = members
        self.asked: list[tuple[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        etcd: Etcd = self.server  # type: ignore[assignment]
        what = self.path.rpartition("/")[2]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if what != "list":
            etcd.asked.append((what, body))
        refused = what == "remove" and etcd.refusals > 0
        etcd.refusals -= refused
        answer = {"error": "etcdserver: unhealthy cluster"} if refused else {"members": etcd.members}
        self.send_response(503 if refused else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        """Server without listener."""


def replaced(etcd: Etcd) -> list[tuple[str, Any]]:
    thread = Thread(target=etcd.serve_forever, daemon=True)
    thread.start()
    try:
        asyncio.run(replace_member([f"http://127.0.0.1:{etcd.server_port}"], "etcd-1", PEER))
    finally:
        etcd.shutdown()
        etcd.server_close()
    return etcd.asked


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "_BETWEEN", 0.0)


def test_member_is_removed_and_added_after_agreement() -> None:
    members = [{"ID": "1", "name": "etcd-0", "peerURLs": ["x"]}, {"ID": "2", "name": "etcd-1", "peerURLs": [PEER]}]
    remove, add = ("remove", {"ID": "2"}), ("add", {"peerURLs": [PEER]})
    assert replaced(Etcd(2, members)) == [remove, remove, remove, add]


def test_added_unstarted_member_is_kept() -> None:
    assert replaced(Etcd(0, [{"ID": "3", "peerURLs": [PEER]}])) == []


def test_disagreement_of_the_members_is_reported() -> None:
    with pytest.raises(MemberReplaceError, match=r"etcd-1 cannot be replaced: .*unhealthy cluster"):
        replaced(Etcd(10_000, [{"ID": "2", "name": "etcd-1", "peerURLs": [PEER]}]))
