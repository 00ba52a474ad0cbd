# SPDX-License-Identifier: Apache-2.0
"""`kubeloop why-pending POD`: evaluates the scheduler's plugins for a pod, node by node."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.cli.local_clusters.advice import explain_error
from kubeloop.client import Client
from kubeloop.client.config.server_config import load_config
from kubeloop.client.errors import ClientError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import SystemClock
from kubeloop.runtime.app import LoopContext
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.scheduler.explain.explain import NodeRejection, explain, feasible_node_names
from kubeloop.scheduler.framework.status import NO_NODES
from kubeloop.scheduler.scheduler import Scheduler


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `why-pending`."""
    parser.add_argument("pod", metavar="POD", help="name of the pod")
    parser.add_argument("-n", "--namespace", default="default", help="namespace of the pod (default: default)")
    parser.add_argument(
        "--kubeconfig", default="", help="kubeconfig with the API server and the credentials (default: as kubectl)"
    )
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="output format (default: table)"
    )


def run_why_pending(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    try:
        return asyncio.run(_ask(options))
    except (ApiError, ClientError, OSError) as error:
        print(f"kubeloop: {explain_error(error)}", file=sys.stderr)
        return 1


async def _ask(options: argparse.Namespace) -> int:
    path = options.kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    clock = SystemClock()
    async with Client(HttpTransport(load_config(path), clock), user_agent="kubeloop why-pending") as client:
        pod = await client.get(Pod, options.pod, options.namespace)
        if pod.spec.node_name:
            print(f"{options.pod} is scheduled to node {pod.spec.node_name}")
            return 0
        informers = SharedInformerFactory(client, clock)
        scheduler = Scheduler(LoopContext(client, informers, clock))
        informers.start()
        try:
            await scheduler.wait_synced()
            await scheduler.wait_synced()  # the first node also brings the objects that plugins read
            print(render(diagnose(scheduler, pod), options.output))
        finally:
            await informers.stop()
    return 0


class PendingDiagnosis(NamedTuple):
    """All rejections, and the nodes that fit."""

    objections: tuple[NodeRejection, ...]
    fitting: list[str]


def diagnose(scheduler: Scheduler, pod: Pod) -> PendingDiagnosis:
    """Evaluate a pod against all nodes."""
    if scheduler.algorithm is None or not len(scheduler.algorithm.cluster):
        return PendingDiagnosis((NodeRejection("", "", (NO_NODES,), "add a node"),), [])
    profile = scheduler.profiles.get(pod.spec.scheduler_name)
    if profile is None:
        name = pod.spec.scheduler_name
        theirs = NodeRejection("", "", (f"the pod belongs to the scheduler {name}",), f"check that {name} is running")
        return PendingDiagnosis((theirs,), [])
    cluster = scheduler.algorithm.cluster
    found = explain(profile, cluster, scheduler.handle.signatures.pod_info(pod))
    return PendingDiagnosis(found, feasible_node_names(cluster, found))


def render(verdict: PendingDiagnosis, output: str) -> str:
    """Format the result as a table or JSON."""
    objections, nodes = verdict
    if output == "json":
        return json.dumps({"objections": msgspec.to_builtins(objections), "fitting": nodes})
    rows = [("NODE", "PLUGIN", "REASON", "REMEDY")]
    rows += [(one.node or "(all)", one.plugin, ", ".join(one.reasons), one.advice) for one in objections]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if nodes:
        lines.append(f"Not rejected by any plugin: {', '.join(nodes)}")
    return "\n".join(lines)
