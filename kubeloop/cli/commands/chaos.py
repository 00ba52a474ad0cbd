# SPDX-License-Identifier: Apache-2.0
"""`kubeloop chaos run PLAN`: starts a control plane, executes the plan and checks the guarantees."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from kubeloop.chaos.checks.time_constants import TimeConstants
from kubeloop.chaos.faults.clocks import FaketimeMissing
from kubeloop.chaos.faults.partition import Network, NetworkUnavailable, network_of
from kubeloop.chaos.plan import ChaosPlan, Partition, PlanError, load_plan
from kubeloop.chaos.plane import ETCD_ELECTION_TIMEOUT, TERMS, CannotRun
from kubeloop.chaos.report import Report
from kubeloop.chaos.run import ChaosRun, RunDependencies
from kubeloop.cli.commands import balancer
from kubeloop.cli.program.output import add_output_flag, format_document, format_table
from kubeloop.clock import SystemClock
from kubeloop.store.etcd.client import ATTEMPT_SECONDS, GIVE_UP_SECONDS

_RUN_EXAMPLES: Final = """Examples:
  # Run a plan with another seed, and keep logs and data
  kubeloop chaos run plan.yaml --seed 8 --folder ./run
"""
_SHOW_EXAMPLES: Final = """Examples:
  # Print when the faults of a plan occur
  kubeloop chaos show plan.yaml
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their flags."""
    parser.epilog = f"{_RUN_EXAMPLES}\n{_SHOW_EXAMPLES.partition(chr(10))[2]}"
    actions = parser.add_subparsers(required=True)
    about = "Execute a plan and check the guarantees"
    run = actions.add_parser("run", help=about, description=f"{about}.", epilog=_RUN_EXAMPLES)
    run.add_argument("plan", type=Path, help="file with a ChaosPlan")
    run.add_argument("--seed", type=int, help="seed that replaces the plan's")
    run.add_argument(
        "--folder", type=Path, help="folder for logs and data, kept after the run (default: a temporary folder)"
    )
    add_output_flag(run)
    about = "Print the schedule of faults"
    show = actions.add_parser("show", help=about, description=f"{about}.", epilog=_SHOW_EXAMPLES)
    show.add_argument("plan", type=Path, help="file with a ChaosPlan")
    show.add_argument("--seed", type=int, help="seed that replaces the plan's")
    add_output_flag(show)


def run_chaos(options: argparse.Namespace) -> int:
    """Run the command; exit code 0: all guarantees held, 1: some did not, 2: the plan could not be executed."""
    try:
        plan = load_plan(options.plan)
        if options.seed is not None:
            plan = msgspec.structs.replace(plan, seed=options.seed)
        if options.action == "show":
            print(_shown(plan, options.output))
            return 0
        with tempfile.TemporaryDirectory(prefix="kubeloop-chaos-") as temporary:
            report = _report_on(plan, options.folder or Path(temporary))
    except (PlanError, CannotRun, NetworkUnavailable, FaketimeMissing) as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(format_document(report, options.output) if options.output else "\n".join(report.lines()))
    return 1 if report.problems else 0


def _report_on(plan: ChaosPlan, folder: Path) -> Report:
    """Execute the plan, in network namespaces if it has partitions."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM cleans up processes and networks
    if not any(isinstance(fault, Partition) for fault in plan.faults):
        return asyncio.run(_run(plan, folder, None))
    with network_of([name for names in plan.plane.members().values() for name in names]) as network:
        return asyncio.run(_run(plan, folder, network))


async def _run(plan: ChaosPlan, folder: Path, network: Network | None) -> Report:
    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    return await ChaosRun(plan, folder, SystemClock(), tell, RunDependencies(_pace(), network)).run()


def _pace() -> TimeConstants:
    """Return the time constants of the components that the plane consists of."""
    return TimeConstants(
        ask_every=balancer.PROBE_PERIOD,
        answer_within=balancer.PROBE_TIMEOUT,
        silent_looks=balancer.FAILURE_THRESHOLD,
        attempt=ATTEMPT_SECONDS,
        give_up=GIVE_UP_SECONDS,
        election_timeout=ETCD_ELECTION_TIMEOUT,
        terms=TERMS,
    )


def _shown(plan: ChaosPlan, output: str) -> str:
    """Format the schedule of a plan, and its faults of calls."""
    schedule, calls = plan.schedule(), plan.on_calls()
    if output:
        document = {
            "seed": plan.seed,
            "schedule": [
                {"at": one.at, "until": one.until, "fault": _name_of(one.fault), "target": one.target}
                for one in schedule
            ],
            "calls": [{"fault": _name_of(fault), "chance": float(fault.chance)} for fault in calls],
        }
        return format_document(document, output)
    rows = [("AT", "UNTIL", "FAULT", "TARGET")]
    rows += [(f"{one.at:.2f} s", f"{one.until:.2f} s", _name_of(one.fault), one.target) for one in schedule]
    rows += [("always", "", _name_of(fault), f"calls, with a chance of {fault.chance:g}") for fault in calls]
    return format_table(rows)


def _name_of(fault: msgspec.Struct) -> str:
    """Return the name of a fault in plans."""
    return str(fault.__struct_config__.tag)
