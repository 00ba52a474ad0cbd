# SPDX-License-Identifier: Apache-2.0
"""`kubeloop chaos run PLAN`: starts a control plane, executes the plan and checks the guarantees."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

from kubeloop.chaos.checks.time_constants import TimeConstants
from kubeloop.chaos.faults.clocks import FaketimeMissing
from kubeloop.chaos.faults.partition import Network, NetworkUnavailable, network_of
from kubeloop.chaos.plan import ChaosPlan, Partition, PlanError, load_plan
from kubeloop.chaos.plane import ETCD_ELECTION_TIMEOUT, TERMS, CannotRun
from kubeloop.chaos.report import Report
from kubeloop.chaos.run import ChaosRun, RunDependencies
from kubeloop.cli.commands import balancer
from kubeloop.clock import SystemClock
from kubeloop.store.etcd.client import ATTEMPT_SECONDS, GIVE_UP_SECONDS


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their flags."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run = actions.add_parser("run", help="execute a plan and check the guarantees", allow_abbrev=False)
    run.add_argument("plan", type=Path, help="file with a ChaosPlan")
    run.add_argument("--seed", type=int, help="seed that replaces the plan's")
    run.add_argument(
        "--folder", type=Path, help="folder for logs and data, kept after the run (default: a temporary folder)"
    )
    run.add_argument("-o", "--output", choices=("text", "json"), default="text", help="output format (default: text)")
    show = actions.add_parser("show", help="print the schedule of faults", allow_abbrev=False)
    show.add_argument("plan", type=Path, help="file with a ChaosPlan")
    show.add_argument("--seed", type=int, help="seed that replaces the plan's")


def run_chaos(options: argparse.Namespace) -> int:
    """Run the command; exit code 0: all guarantees held, 1: some did not, 2: the plan could not be executed."""
    try:
        plan = load_plan(options.plan)
        if options.seed is not None:
            plan = msgspec.structs.replace(plan, seed=options.seed)
        if options.action == "show":
            _show(plan)
            return 0
        with tempfile.TemporaryDirectory(prefix="kubeloop-chaos-") as temporary:
            report = _report_on(plan, options.folder or Path(temporary))
    except (PlanError, CannotRun, NetworkUnavailable, FaketimeMissing) as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if options.output == "json":
        print(msgspec.json.encode(report).decode())
    else:
        print("\n".join(report.lines()))
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


def _show(plan: ChaosPlan) -> None:
    for moment in plan.schedule():
        what = type(moment.fault).__name__
        print(f"{moment.at:8.2f} s  {what:12} {moment.target:22} until {moment.until:.2f} s")
    for fault in plan.on_calls():
        print(f"   always    {type(fault).__name__:12} with a chance of {fault.chance:g}")
