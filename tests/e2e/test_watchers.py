# SPDX-License-Identifier: Apache-2.0
"""Tests of many watchers over the real port: equal sequences, slow ones are closed without delaying others."""

from __future__ import annotations

import json
import socket
import threading
import time
from itertools import islice, pairwise
from typing import Any

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.plane import Plane, call_on, config_map, eventually

WATCHERS = 50
CHANGES = 40


@pytest.fixture(scope="session")
def plane(server_alone: Plane) -> Plane:
    """Plane without controllers: every event is the test's own."""
    return server_alone


def collection(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def version_now(plane: Plane, namespace: str) -> str:
    return str(plane.get(collection(namespace))["metadata"]["resourceVersion"])


def test_fifty_watchers_see_the_same_sequence(plane: Plane, namespace: str) -> None:
    path = f"{collection(namespace)}?watch=1&resourceVersion={version_now(plane, namespace)}"
    sequences: list[list[Any]] = []
    lock = threading.Lock()

    def follow() -> None:
        with plane.watch(path) as events:
            seen = [(event["type"], event["object"]) for event in islice(events, CHANGES * 3)]
        with lock:
            sequences.append(seen)

    threads = [threading.Thread(target=follow, daemon=True) for _ in range(WATCHERS)]
    for thread in threads:
        thread.start()
    connection = plane.connection()
    for number in range(CHANGES):
        name = f"m{number}"
        assert call_on(connection, "POST", collection(namespace), config_map(name)).status == 201
        assert call_on(connection, "PUT", f"{collection(namespace)}/{name}", config_map(name, a="1")).status == 200
        assert call_on(connection, "DELETE", f"{collection(namespace)}/{name}").status == 200
    connection.close()
    for thread in threads:
        thread.join(GIVE_UP_SECONDS)
    assert len(sequences) == WATCHERS
    assert all(seen == sequences[0] for seen in sequences)
    versions = [int(item["metadata"]["resourceVersion"]) for _, item in sequences[0]]
    assert versions == sorted(set(versions))
    assert [kind for kind, _ in sequences[0]] == ["ADDED", "MODIFIED", "DELETED"] * CHANGES


def test_slow_watcher_is_closed_and_others_continue(plane: Plane, namespace: str) -> None:
    version = version_now(plane, namespace)
    path = f"{collection(namespace)}?watch=1&resourceVersion={version}"
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", plane.port))
    slow = plane.tls.wrap_socket(raw, server_hostname="127.0.0.1")
    slow.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert slow.recv(100).startswith(b"HTTP/1.1 200")
    large = "x" * 900_000
    writing = plane.connection()
    assert call_on(writing, "POST", collection(namespace), config_map("one")).status == 201
    with plane.watch(path) as events:
        assert next(events)["type"] == "ADDED"
        for number in range(30):  # more than the server keeps for one connection
            body = config_map("one", number=str(number), large=large)
            assert call_on(writing, "PUT", f"{collection(namespace)}/one", body).status == 200
            assert next(events)["object"]["data"]["number"] == str(number)
    writing.close()
    slow.settimeout(GIVE_UP_SECONDS)
    received = 0
    try:
        while chunk := slow.recv(1 << 20):
            received += len(chunk)
    except OSError:
        pass  # cut in the midst of an event: the client must notice, and does
    finally:
        slow.close()
    assert received < 30 * len(large), "the slow watcher was sent everything, so it was never cut"


def test_a_watch_ends_at_its_timeout(plane: Plane, namespace: str) -> None:
    start = time.monotonic()
    with plane.watch(f"{collection(namespace)}?watch=1&timeoutSeconds=1") as events:
        assert [event for event in events if event["type"] == "ERROR"] == []
    assert time.monotonic() - start > 0.9


def test_bookmarks_precede_the_end_of_a_watch(plane: Plane, namespace: str) -> None:
    version = version_now(plane, namespace)
    plane.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "elsewhere"}})
    path = f"{collection(namespace)}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion={version}"
    with plane.watch(path) as events:
        event = next(events)
    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "ConfigMap"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(version)


def test_a_bookmark_never_overtakes_an_event(plane: Plane, namespace: str) -> None:
    """Deliveries to many watchers are batched; a bookmark ahead of them would lose events."""
    version = version_now(plane, namespace)
    path = f"{collection(namespace)}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion={version}"
    sequences: list[list[tuple[str, int]]] = []

    def follow() -> None:
        with plane.watch(path) as events:
            seen = [(event["type"], int(event["object"]["metadata"]["resourceVersion"])) for event in events]
        sequences.append(seen)

    threads = [threading.Thread(target=follow, daemon=True) for _ in range(WATCHERS)]
    for thread in threads:
        thread.start()
    connections = {f"m{number}": plane.connection() for number in range(8)}
    while any(thread.is_alive() for thread in threads):
        for name, connection in connections.items():  # all together, so that changes follow each other closely
            body = {"metadata": {"generateName": f"{name}-"}}
            connection.request("POST", collection(namespace), json.dumps(body))
        for connection in connections.values():
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 201
    for connection in connections.values():
        connection.close()
    assert len(sequences) == WATCHERS
    assert any(kind == "BOOKMARK" for kind, _ in sequences[0])
    for seen in sequences:
        versions = [version for kind, version in seen if kind != "BOOKMARK"]
        assert versions == sorted(set(versions))
        for before, after in pairwise(seen):
            assert after[1] > before[1] or (after[0] == "BOOKMARK" and after[1] == before[1])


def test_initial_events_end_with_an_annotated_bookmark(plane: Plane, namespace: str) -> None:
    for name in ("a", "b"):
        plane.create(collection(namespace), config_map(name))
    options = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with plane.watch(f"{collection(namespace)}?{options}") as events:
        first = list(islice(events, 3))
        assert [event["type"] for event in first] == ["ADDED", "ADDED", "BOOKMARK"]
        assert first[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        plane.create(collection(namespace), config_map("c"))
        assert next(events)["object"]["metadata"]["name"] == "c"


def test_watch_without_a_version_starts_with_existing_objects(plane: Plane, namespace: str) -> None:
    plane.create(collection(namespace), config_map("one"))
    with plane.watch(f"{collection(namespace)}?watch=1") as events:
        event = next(events)
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "one")


def test_a_watch_of_one_object(plane: Plane, namespace: str) -> None:
    plane.create(collection(namespace), config_map("one"))
    plane.create(collection(namespace), config_map("two"))
    with plane.watch(f"{collection(namespace)}?watch=1&fieldSelector=metadata.name%3Dtwo") as events:
        assert next(events)["object"]["metadata"]["name"] == "two"
        plane.call("DELETE", f"{collection(namespace)}/one")
        plane.call("DELETE", f"{collection(namespace)}/two")
        last = next(events)
    assert (last["type"], last["object"]["metadata"]["name"]) == ("DELETED", "two")


def test_a_watch_as_tables(plane: Plane, namespace: str) -> None:
    plane.create(collection(namespace), config_map("one", a="1"))
    connection = plane.connection()
    connection.request(
        "GET", f"{collection(namespace)}?watch=1", headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    )
    event = json.loads(connection.getresponse().readline())
    connection.close()
    assert event["object"]["kind"] == "Table"
    assert event["object"]["rows"][0]["cells"][:2] == ["one", 1]


def test_disconnected_watchers_are_removed(plane: Plane, namespace: str) -> None:
    def watches() -> int:
        text = plane.call("GET", "/metrics").body.decode()
        lines = [line for line in text.splitlines() if line.startswith("apiserver_longrunning_requests{")]
        ours = [line for line in lines if 'resource="configmaps"' in line and 'verb="WATCH"' in line]
        return sum(int(float(line.rpartition(" ")[2])) for line in ours)

    with plane.watch(f"{collection(namespace)}?watch=1"), plane.watch(f"{collection(namespace)}?watch=1"):
        eventually(lambda: watches() >= 2)
    eventually(lambda: watches() == 0)
