"""`kubeloop chaos run PLAN`: a plane of its own, what the plan does to it, and whether promises were kept."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec

from kubeloop.chaos.plan import Plan, PlanError, load_plan
from kubeloop.chaos.plane import CannotRun
from kubeloop.chaos.run import Report, Run
from kubeloop.clock import SystemClock


def add_flags(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run = actions.add_parser("run", help="carry a plan out, and judge what came of it", allow_abbrev=False)
    run.add_argument("plan", type=Path, help="a ChaosPlan in YAML")
    run.add_argument("--seed", type=int, help="instead of the plan's")
    run.add_argument("--folder", type=Path, help="where logs and data go, and stay (default: removed in the end)")
    run.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default: text)")
    show = actions.add_parser("show", help="tell what would go wrong when", allow_abbrev=False)
    show.add_argument("plan", type=Path, help="a ChaosPlan in YAML")
    show.add_argument("--seed", type=int, help="instead of the plan's")


def run_chaos(options: argparse.Namespace) -> int:
    """The exit code: 0 when every promise was kept, 1 when not, 2 when the plan could not be carried out."""
    try:
        plan = load_plan(options.plan)
        if options.seed is not None:
            plan = msgspec.structs.replace(plan, seed=options.seed)
        if options.action == "show":
            _show(plan)
            return 0
        report = asyncio.run(_run(plan, options))
    except (PlanError, CannotRun) as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 2
    if options.output == "json":
        print(msgspec.json.encode(report).decode())
    else:
        print("\n".join(report.lines()))
    return 1 if report.problems else 0


async def _run(plan: Plan, options: argparse.Namespace) -> Report:
    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if options.folder is not None:
        return await Run(plan, options.folder, SystemClock(), tell).run()
    with tempfile.TemporaryDirectory(prefix="kubeloop-chaos-") as folder:
        return await Run(plan, Path(folder), SystemClock(), tell).run()


def _show(plan: Plan) -> None:
    for moment in plan.moments():
        what = type(moment.fault).__name__
        print(f"{moment.at:8.2f} s  {what:12} {moment.target:22} until {moment.until:.2f} s")
    for fault in plan.on_calls():
        print(f"   always    {type(fault).__name__:12} with a chance of {fault.chance:g}")
