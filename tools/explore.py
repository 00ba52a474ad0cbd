# SPDX-License-Identifier: Apache-2.0
"""Search for violations of the property tests with new seeds, until the time is up.

    python -m tools.explore [--minutes 10 | --rounds N] [--seed N] [--jobs N] [paths or pytest options]

Each round runs every Hypothesis test once, in an order drawn from the round's seed. A violation is printed with a line
to paste above the test as `@example`, and with the command that repeats it. Exit status 1 if anything was violated.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

_NOTHING_COLLECTED = 5


@dataclass(frozen=True, slots=True)
class Violation:
    """A property test that failed, its smallest failing case, and the seed of the round that found it."""

    test: str
    seed: int
    case: str

    def __str__(self) -> str:
        case = textwrap.indent(self.case, "  ")
        options = f"--hypothesis-profile=explore --hypothesis-seed={self.seed}"
        return f"{self.test}\n{case}\n  repeat: PYTHONHASHSEED={_hash_seed(self.seed)} pytest '{self.test}' {options}\n"


def _hash_seed(seed: int) -> str:
    """Return the value of PYTHONHASHSEED in a round: the order of sets is part of what is searched."""
    return str(seed % 2**32)


class Exploration:
    """Runs rounds of the property tests in parallel, each with its own seed."""

    def __init__(self, seeds: Iterator[int], until: float, selection: list[str]) -> None:
        self._seeds = seeds
        self._until = until
        named = any(Path(one.partition("::")[0]).exists() for one in selection)
        self._selection = selection if named else [*selection, *_files_with_properties()]
        self._lock = threading.Lock()
        self.rounds = 0
        self.violations: dict[str, Violation] = {}
        self.broken: str | None = None

    def run(self, jobs: int) -> None:
        """Run rounds in this many processes at a time until the time is up."""
        threads = [threading.Thread(target=self._work) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self) -> None:
        while time.time() < self._until and self.broken is None:
            with self._lock:
                seed, known = next(self._seeds, None), list(self.violations)
            if seed is None:
                return
            self._run_round(seed, known)

    def _run_round(self, seed: int, known: list[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report"
            report.touch()
            command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "tools.explore_plugin"]
            command += ["-p", "no:cacheprovider", "-m", "hypothesis", "--hypothesis-profile=explore"]
            command += [f"--hypothesis-seed={seed}", f"--explore-until={self._until}", f"--explore-report={report}"]
            command += [f"--deselect={test}" for test in known]
            environment = {**os.environ, "PYTHONHASHSEED": _hash_seed(seed)}
            done = subprocess.run([*command, *self._selection], capture_output=True, text=True, env=environment)
            lines = [json.loads(line) for line in report.read_text().splitlines()]
        with self._lock:
            self._conclude(seed, lines, done)

    def _conclude(self, seed: int, lines: list[dict[str, str]], done: subprocess.CompletedProcess[str]) -> None:
        self.rounds += 1
        for line in lines:
            violation = Violation(line["test"], seed, line["case"])
            if self.violations.setdefault(violation.test, violation) is violation:
                print(violation, flush=True)
        if done.returncode not in (0, _NOTHING_COLLECTED) and not lines:
            self.broken = done.stdout + done.stderr


def _files_with_properties() -> list[str]:
    """Return the test files that use Hypothesis: collecting the others would take longer than a round."""
    uses = re.compile(r"^(from|import) hypothesis", re.MULTILINE)
    return sorted(str(path) for path in Path("tests").rglob("test_*.py") if uses.search(path.read_text()))


def main() -> int:
    """Explore with the options of the command line; prints a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="minutes to run (default: 10)")
    parser.add_argument("--rounds", type=int, help="number of rounds to run, regardless of their duration")
    parser.add_argument("--seed", type=int, help="seed of the first round; the next rounds count up from it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parallel rounds (default: one per core)")
    arguments, selection = parser.parse_known_args()
    seed = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
    if arguments.rounds is None:
        print(f"exploring for {arguments.minutes:g} minutes from seed {seed}", flush=True)
        exploration = Exploration(count(seed), time.time() + arguments.minutes * 60, selection)
    else:
        exploration = Exploration(iter(range(seed, seed + arguments.rounds)), math.inf, selection)
    exploration.run(arguments.jobs)
    if exploration.broken is not None:
        print(exploration.broken)
        return 2
    print(f"{exploration.rounds} rounds from seed {seed}: {len(exploration.violations)} tests violated")
    return 1 if exploration.violations else 0


if __name__ == "__main__":
    sys.exit(main())
