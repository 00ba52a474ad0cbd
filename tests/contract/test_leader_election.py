# SPDX-License-Identifier: Apache-2.0
"""Three real processes and one lease on a real server: killed, paused, stopped; never two leaders that write."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.plane import SOURCE_ROOT, Plane, environment, eventually

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/contract"


class Election:
    """A server, and the candidates by name."""

    def __init__(self, plane: Plane, cleanup: ExitStack) -> None:
        self._plane = plane
        self._cleanup = cleanup
        self.candidates: dict[str, subprocess.Popen[bytes]] = {}

    def enter(self, name: str, *more: str, program: str = "tests.contract.election_candidate") -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", program, str(self._plane.kubeconfig), name, *more],
            env=environment(),
            cwd=SOURCE_ROOT,
        )
        self._cleanup.callback(process.wait)
        self._cleanup.callback(process.kill)
        self.candidates[name] = process

    def record(self) -> dict[str, Any]:
        answer = self._plane.call("GET", LEASE)
        return dict(answer.json["spec"]) if answer.status == 200 else {}

    def holder(self) -> str:
        return str(self.record().get("holderIdentity", ""))

    def check_turns(self, *expected: str) -> None:
        """Leaders wrote one after another in this order, and never one after the next had begun."""
        written = self.writes()
        terms = [term for _, _, term in written]
        assert terms == sorted(terms), "an earlier leader wrote after a later one"
        leaders = [who for _, who, _ in written]
        assert [after for before, after in pairwise(["", *leaders]) if before != after] == list(expected)

    def writes(self) -> list[tuple[int, str, int]]:
        """Return all writes of leaders as (revision, identity, term), in the server's order."""
        items = self._plane.call("GET", "/api/v1/namespaces/default/configmaps").json["items"]
        return sorted(_write(item) for item in items if item["metadata"]["name"].startswith("written-"))

    def leader_other_than(self, *gone: str) -> str:
        """The next leader, once it has written."""

        def look() -> str:
            name = self.holder()
            if not name or name in gone:
                return ""
            written = {who for _, who, _ in self.writes()}
            return name if name in written else ""

        return eventually(look)

    def signal(self, name: str, number: int) -> None:
        os.kill(self.candidates[name].pid, number)


def _write(item: dict[str, Any]) -> tuple[int, str, int]:
    return int(item["metadata"]["resourceVersion"]), item["data"]["by"], int(item["data"]["term"])


@pytest.fixture
def election(tmp_path: Path) -> Iterator[Election]:
    with ExitStack() as cleanup:
        plane = Plane(tmp_path / "plane")
        plane.start()
        cleanup.callback(plane.close)
        yield Election(plane, cleanup)


def test_killed_or_paused_leaders_are_replaced_and_never_write_again(election: Election) -> None:
    for name in ("one", "two", "three"):
        election.enter(name)
    first = election.leader_other_than()
    election.signal(first, signal.SIGKILL)
    second = election.leader_other_than(first)
    election.signal(second, signal.SIGSTOP)
    third = election.leader_other_than(first, second)
    election.signal(second, signal.SIGCONT)
    before = len(election.writes())
    eventually(lambda: len(election.writes()) > before + 20)
    assert election.holder() == third, "who was away wants back at once"

    election.signal(third, signal.SIGTERM)
    election.candidates[third].wait(GIVE_UP_SECONDS)
    assert election.leader_other_than(first, third) == second
    eventually(lambda: election.writes()[-1][1] == second)  # it has written before, in its first turn

    election.check_turns(first, second, third, second)


def test_clock_skew_of_hours_does_not_elect_a_second_leader(election: Election) -> None:
    for name, hours in (("behind", "-5"), ("right", "0"), ("ahead", "3")):
        election.enter(name, hours)
    first = election.leader_other_than()
    before = len(election.writes())
    eventually(lambda: len(election.writes()) > before + 150)  # more than a lease's time
    election.check_turns(first)
    election.signal(first, signal.SIGKILL)
    second = election.leader_other_than(first)
    election.signal(second, signal.SIGSTOP)
    third = election.leader_other_than(first, second)
    election.signal(second, signal.SIGCONT)
    before = len(election.writes())
    eventually(lambda: len(election.writes()) > before + 20)
    election.check_turns(first, second, third)


def test_lease_has_client_go_fields(election: Election) -> None:
    micro_time = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
    election.enter("one")
    election.leader_other_than()
    first = election.record()
    assert set(first) == {"holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"}
    assert (first["leaseDurationSeconds"], first["leaseTransitions"]) == (3, 0)
    assert micro_time.fullmatch(first["acquireTime"])
    assert micro_time.fullmatch(first["renewTime"])
    eventually(lambda: election.record()["renewTime"] > first["renewTime"])
    assert election.record()["acquireTime"] == first["acquireTime"], "a renewal is no new term"

    election.signal("one", signal.SIGTERM)
    election.candidates["one"].wait(GIVE_UP_SECONDS)
    released = election.record()
    assert (released["holderIdentity"], released["leaseDurationSeconds"]) == ("", 1)
    assert released["leaseTransitions"] == 0
    assert released["acquireTime"] == released["renewTime"] > first["renewTime"]

    election.enter("two")
    eventually(lambda: election.holder() == "two")
    assert election.record()["leaseTransitions"] == 1


def test_another_implementation_competes_for_the_same_lease(election: Election) -> None:
    election.enter("ours")
    assert election.leader_other_than() == "ours"
    election.enter("theirs", program="tests.contract.election_candidate_official")
    before = len(election.writes())
    eventually(lambda: len(election.writes()) > before + 100)
    assert election.holder() == "ours", "theirs waits while ours renews"

    election.signal("ours", signal.SIGTERM)
    eventually(lambda: election.holder() == "theirs")
    election.enter("ours again")
    eventually(lambda: election.candidates["ours"].poll() is not None)
    election.signal("theirs", signal.SIGKILL)
    assert election.leader_other_than("ours", "theirs") == "ours again"
