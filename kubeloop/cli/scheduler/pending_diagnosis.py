# SPDX-License-Identifier: Apache-2.0
"""`kubeloop why-pending POD`: evaluates the scheduler's plugins for a pod, node by node."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import NamedTuple

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.cli.local_clusters.advice import explain_error
from kubeloop.cli.program.output import add_output_flag, format_document, format_table
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

_ABOUT = """Explain for each node why a pod is pending: evaluates the plugins of the scheduler, and names a remedy for
every rejection."""
_EXAMPLES = """Examples:
  # A pod of the namespace default
  kubeloop why-pending web-0

  # A pod of another namespace, for a program
  kubeloop why-pending web-0 -n shop -o json
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `why-pending`."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    parser.add_argument("pod", metavar="POD", help="name of the pod")
    parser.add_argument("-n", "--namespace", default="default", help="namespace of the pod (default: default)")
    parser.add_argument(
        "--kubeconfig", default="", help="kubeconfig with the API server and the credentials (default: as kubectl)"
    )
    add_output_flag(parser)


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
            print(_scheduled(pod, options.output))
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
    """All rejections, and the feasible nodes."""

    rejections: tuple[NodeRejection, ...]
    feasible_nodes: list[str]


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


def render(diagnosis: PendingDiagnosis, output: str) -> str:
    """Format the result as a table, or as a document for programs."""
    rejections, nodes = diagnosis
    if output:
        return format_document({"nodeName": "", "rejections": rejections, "feasibleNodes": nodes}, output)
    rows = [("NODE", "PLUGIN", "REASON", "REMEDY")]
    rows += [(one.node or "(all)", one.plugin, ", ".join(one.reasons), one.advice) for one in rejections]
    shown = format_table(rows)
    return f"{shown}\nNot rejected by any plugin: {', '.join(nodes)}" if nodes else shown


def _scheduled(pod: Pod, output: str) -> str:
    """Format the result for a pod that has a node already."""
    if output:
        return format_document({"nodeName": pod.spec.node_name, "rejections": [], "feasibleNodes": []}, output)
    return f"{pod.metadata.name} is scheduled to node {pod.spec.node_name}"
