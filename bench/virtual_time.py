# SPDX-License-Identifier: Apache-2.0
"""Measures what virtual time costs in the test kit's cluster: an idle day, and a month with a CronJob.

`python -m bench.virtual_time` prints one line of JSON a figure. Time is the processor's: everything runs in one thread
and waits for nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence

from kubeloop.api.generated.batch_v1 import CronJob, Job
from kubeloop.api.meta.conditions import is_true
from kubeloop.controllers import cronjob, garbage_collector, job
from kubeloop.controllers.app.context import Wire
from kubeloop.scheduler.scheduler import wire as scheduler
from kubeloop.testing import Cluster

_HOURS_A_DAY = 24
_LOOPS: tuple[Wire, ...] = (cronjob.wire, job.wire, scheduler)
_TICK = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "tick", "namespace": "default"},
    "spec": {
        "schedule": "*/10 * * * *",
        "jobTemplate": {
            "spec": {
                "template": {
                    "metadata": {"annotations": {"sim.kubeloop.io/exit-after": "30s"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/tick:1"}]},
                }
            }
        },
    },
}


def measure_idle_days(days: float) -> float:
    """Return the processor seconds of two nodes without pods."""
    with Cluster() as cluster:
        cluster.add_nodes(2)
        began = time.process_time()
        cluster.advance(hours=days * _HOURS_A_DAY)
        return time.process_time() - began


def measure_cron_days(days: float, loops: Sequence[Wire]) -> float:
    """Return the processor seconds of three nodes and a Job every ten minutes, whose pod ends after 30 s."""
    with Cluster() as cluster:
        cluster.add_nodes(3)
        for loop in loops:
            cluster.start(loop)
        cluster.add(_TICK)
        began = time.process_time()
        cluster.advance(hours=days * _HOURS_A_DAY)
        spent = time.process_time() - began
        cluster.advance(minutes=1)
        jobs = cluster.client.list(Job, "default").items
        last = cluster.client.get(CronJob, "tick", "default").status.last_successful_time
        assert last is not None
        assert all(is_true(one.status.conditions, "Complete") for one in jobs)
        return spent


def main() -> None:
    parser = argparse.ArgumentParser("bench.virtual_time", description="Measure the cost of virtual time.")
    parser.add_argument("--idle-days", type=float, default=1)
    parser.add_argument("--cron-days", type=float, default=30)
    options = parser.parse_args()
    _report(f"virtual_idle_{options.idle_days:g}_days_cpu_s", measure_idle_days(options.idle_days))
    _report(f"virtual_cron_{options.cron_days:g}_days_cpu_s", measure_cron_days(options.cron_days, _LOOPS))
    with_collector = (*_LOOPS, garbage_collector.wire)
    _report(f"virtual_cron_gc_{options.cron_days:g}_days_cpu_s", measure_cron_days(options.cron_days, with_collector))
    _report("virtual_peak_mib", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _report(figure: str, value: float) -> None:
    print(json.dumps({"figure": figure, "value": float(f"{value:.4g}")}), flush=True)


if __name__ == "__main__":
    main()
