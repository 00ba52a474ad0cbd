# SPDX-License-Identifier: Apache-2.0
"""Tests of crash safety: a killed server restarts with every acknowledged write, and no torn one.

Each writer owns its objects, so it knows what each of them may be after a crash: what was last acknowledged or, if a
request was under way, what that one would have made of it.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import zlib
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.conftest import MakePlane
from tests.e2e.plane import Plane, call_on, config_map, eventually

SEEDS = (1, 2)  # one test each, so that two workers share the time
KILLS = 9  # for each seed
WRITERS = 4
OBJECTS = 12  # of each writer
COLLECTION = "/api/v1/namespaces/crash/configmaps"
OURS = f"{COLLECTION}?labelSelector=number"  # a controller may create its own config map in the namespace

GONE = -1
Outcome = int  # the number that an object carries, or GONE


@dataclass(slots=True)
class PossibleStates:
    """Possible states of an object: one if nothing is in flight, else two."""

    outcomes: set[Outcome] = field(default_factory=lambda: {GONE})
    version: int = 0  # resource version of the last acknowledged write
    number: Outcome = GONE  # what that write made of it


class Writer:
    """Creates, replaces, patches and deletes its own objects until the connection breaks."""

    def __init__(self, plane: Plane, name: str, chance: random.Random) -> None:
        self.plane = plane
        self.name = name
        self.chance = chance
        self.known = {f"{name}-{number}": PossibleStates() for number in range(OBJECTS)}
        self.acknowledged: list[int] = []  # every resource version returned
        self.failure: str | None = None
        self._numbers = iter(range(1, 1 << 30))

    def work(self) -> None:
        """Write until the server dies; a rejection fails the test."""
        connection = self.plane.connection()
        try:
            while True:
                self._write_one(connection)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return  # the server was killed: what was under way stays open
        except AssertionError as error:
            self.failure = str(error)
        finally:
            connection.close()

    def _write_one(self, connection: http.client.HTTPSConnection) -> None:
        name = self.chance.choice(list(self.known))
        known = self.known[name]
        (now,) = known.outcomes
        number = next(self._numbers)
        if now == GONE:
            method, path, kind = "POST", COLLECTION, "application/json"
        else:
            method, kind = self.chance.choice(
                [
                    ("PUT", "application/json"),
                    ("PATCH", "application/merge-patch+json"),
                    ("PATCH", "application/strategic-merge-patch+json"),
                    ("DELETE", "application/json"),
                ]
            )
            path = f"{COLLECTION}/{name}"
        wanted = GONE if method == "DELETE" else number
        body = None if method == "DELETE" else document(name, number)
        if method == "PUT" and self.chance.random() < 0.5:
            body["metadata"]["resourceVersion"] = str(known.version)  # type: ignore[index]  # never None here
        known.outcomes.add(wanted)
        answer = call_on(connection, method, path, body, Content_Type=kind)
        assert answer.status in (200, 201), f"{method} {path}: {answer.status} {answer.body!r}"
        known.outcomes = {wanted}
        known.number = wanted
        if wanted != GONE:
            known.version = int(answer.json["metadata"]["resourceVersion"])
            self.acknowledged.append(known.version)


class Watcher:
    """Follows the collection across every crash, from the last event that it saw."""

    def __init__(self, plane: Plane, version: int) -> None:
        self.plane = plane
        self.version = version
        self.versions: list[int] = []
        self.state: dict[str, Any] = {}
        self.failure: str | None = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def _follow(self) -> None:
        try:
            while not self.ended.is_set():
                try:
                    self._follow_once()
                except (OSError, http.client.HTTPException, json.JSONDecodeError):
                    time.sleep(0.02)  # connection refused: retry soon
        except AssertionError as error:
            self.failure = f"after {self.version}: {error}"

    def _follow_once(self) -> None:
        path = f"{OURS}&watch=1&resourceVersion={self.version}&allowWatchBookmarks=true"
        with self.plane.watch(path) as events:
            for event in events:
                if event["type"] != "BOOKMARK":
                    self._see(event)
                if self.ended.is_set():
                    return

    def _see(self, event: Any) -> None:
        assert event["type"] != "ERROR", event
        meta = event["object"]["metadata"]
        version = int(meta["resourceVersion"])
        assert version > self.version, f"went back to {version}: {event['type']} {meta['name']}"
        check_whole(event["object"])
        self.version = version
        self.versions.append(version)
        if event["type"] == "DELETED":
            self.state.pop(meta["name"], None)
        else:
            assert (event["type"] == "ADDED") == (meta["name"] not in self.state), event
            self.state[meta["name"]] = event["object"]


def document(name: str, number: int) -> dict[str, Any]:
    """Object with a checksum; some are larger than a page of the database."""
    text = f"{name} {number} " * (1 + number * 7919 % 1500)
    made = config_map(name, number=str(number), text=text, checksum=str(zlib.crc32(text.encode())))
    made["metadata"]["labels"] = {"number": str(number)}
    return made


def check_whole(found: Any) -> int:
    """The number that the object carries, given that all its parts carry it."""
    number, data = int(found["metadata"]["labels"]["number"]), found["data"]
    assert data == document(found["metadata"]["name"], number)["data"], f"{found['metadata']} is torn"
    return number


def versions_of(objects: dict[str, Any]) -> dict[str, str]:
    return {name: item["metadata"]["resourceVersion"] for name, item in objects.items()}


class CrashRounds:
    """Rounds of writing, killing and checking on one data folder."""

    def __init__(self, plane: Plane, seed: int) -> None:
        self.plane = plane
        self.chance = random.Random(seed)
        self.writers = [Writer(plane, f"w{n}", random.Random(seed * 100 + n)) for n in range(WRITERS)]
        self.highest = 0

    def write_until_killed(self) -> None:
        threads = [threading.Thread(target=writer.work, daemon=True) for writer in self.writers]
        for thread in threads:
            thread.start()
        # The moment of the crash is what is random here: counted in writes, however long those take on this machine.
        enough = sum(len(writer.acknowledged) for writer in self.writers) + self.chance.randrange(60)
        while sum(len(writer.acknowledged) for writer in self.writers) < enough and any(
            map(threading.Thread.is_alive, threads)
        ):
            time.sleep(0.001)
        time.sleep(self.chance.uniform(0.0, 0.02))
        self.plane.kill()
        for thread in threads:
            thread.join(GIVE_UP_SECONDS)
        assert [writer.failure for writer in self.writers if writer.failure] == []

    def check(self) -> dict[str, Any]:
        """Compare everything there is with everything that may be; what was open is now known."""
        listed = self.plane.get(OURS)
        version = int(listed["metadata"]["resourceVersion"])
        assert version >= self.highest, "resource versions went back"
        found = {item["metadata"]["name"]: item for item in listed["items"]}
        for writer in self.writers:
            for name, known in writer.known.items():
                self._check_one(name, known, found.get(name))
        self.highest = max([version, *(v for writer in self.writers for v in writer.acknowledged[-1:])])
        assert version == self.highest, "an acknowledged version is missing"
        return found

    def _check_one(self, name: str, known: PossibleStates, item: Any) -> None:
        outcome = GONE if item is None else check_whole(item)
        assert outcome in known.outcomes, f"{name} is {outcome}, may be {known.outcomes}"
        if item is not None:
            version = int(item["metadata"]["resourceVersion"])
            if outcome == known.number:
                assert version == known.version, f"{name} has another version than was acknowledged"
            else:
                assert version > known.version, f"{name}: a later write with an earlier version"
            known.version = version
        known.outcomes, known.number = {outcome}, outcome


@pytest.fixture
def crashing(make_plane: MakePlane) -> Plane:
    plane = make_plane()
    plane.start()
    plane.create("/api/v1/namespaces", {"metadata": {"name": "crash"}})
    return plane


@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_write_survives_kill_nine(crashing: Plane, seed: int) -> None:
    print(f"seed {seed}")  # noqa: T201  # shown by pytest when the test fails
    trial = CrashRounds(crashing, seed)
    watcher = Watcher(crashing, int(crashing.get(OURS)["metadata"]["resourceVersion"]))
    watcher.thread.start()
    for _ in range(KILLS):
        trial.write_until_killed()
        crashing.start()
        found = trial.check()
        assert watcher.failure is None
    try:
        eventually(lambda: watcher.failure or versions_of(watcher.state) == versions_of(found))
    finally:
        watcher.ended.set()
    assert watcher.failure is None
    acknowledged = {version for writer in trial.writers for version in writer.acknowledged}
    assert acknowledged <= set(watcher.versions), "a watcher missed an acknowledged write"
    assert len(acknowledged) > 10 * KILLS, "too few writes to prove anything"
