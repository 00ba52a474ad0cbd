# SPDX-License-Identifier: Apache-2.0
"""Command line of the differential tests.

    python -m tools.differential --ours ours.conf --theirs theirs.conf --requests 100000 --report found.json

Both servers should be API servers without controllers, with the same flags. Exit status 1 if answers differ.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from tools.differential.case import Case, Step
from tools.differential.generator import CaseGenerator
from tools.differential.grammars import WEIGHTS
from tools.differential.openapi import read_resources
from tools.differential.run import DifferentialRun
from tools.differential.seeds import read_seeds
from tools.differential.server import ServerUnderTest


def main() -> int:
    """Run as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", type=Path, required=True, help="kubeconfig of the server under test")
    parser.add_argument("--theirs", type=Path, required=True, help="kubeconfig of the reference server")
    parser.add_argument("--requests", type=int, default=1000, help="number of requests to compare (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generator (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="parallel cases (default: 2)")
    parser.add_argument("--kind", action="append", help="generate cases of this kind only; may be repeated")
    parser.add_argument("--grammar", action="append", help="use this grammar only; may be repeated")
    parser.add_argument("--replay", type=Path, help="compare the cases of an earlier report instead of new ones")
    parser.add_argument("--no-shrink", action="store_true", help="report cases as generated: faster")
    parser.add_argument("--report", type=Path, help="file for the differences found, as JSON")
    arguments = parser.parse_args()
    ours, theirs = ServerUnderTest(arguments.ours), ServerUnderTest(arguments.theirs)
    tag = f"d{random.SystemRandom().randrange(16**6):06x}"
    run = DifferentialRun(ours.send, theirs.send, tag, shrinks=not arguments.no_shrink)
    if arguments.replay:
        for case in _read_cases(arguments.replay):
            run.compare(case)
    else:
        seeds = read_seeds(read_resources(ours.get))
        seeds = [one for one in seeds if not arguments.kind or one.document["kind"] in arguments.kind]
        names = arguments.grammar or [one.__name__ for one in WEIGHTS]
        weights = {grammar: weight for grammar, weight in WEIGHTS.items() if grammar.__name__ in names}
        run.run(CaseGenerator(seeds, arguments.seed, weights).case, arguments.requests, arguments.jobs)
    if arguments.report:
        arguments.report.write_text(run.report.to_json())
    print(run.report.summary())
    return 1 if run.report.findings else 0


def _read_cases(path: Path) -> list[Case]:
    cases = [finding["case"] for finding in json.loads(path.read_text())["findings"]]
    return [
        Case(one["name"], tuple(Step(**step) for step in one["steps"]), tuple(one.get("cleanup", ()))) for one in cases
    ]


if __name__ == "__main__":
    raise SystemExit(main())
