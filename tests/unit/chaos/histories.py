# SPDX-License-Identifier: Apache-2.0
"""A plane of three of each, at a pace that is easy to reckon with, and what happened to it."""

from __future__ import annotations

from kubeloop.chaos.checks.fault_timeline import FaultTimeline, Kind, ProcessOutage
from kubeloop.chaos.checks.time_constants import TimeConstants
from kubeloop.chaos.plan import PlaneConfig
from kubeloop.runtime.leaderelection.leader_elector import LeaseDurations

# A silent API server gets no connections after 3 s, and loses those it has after 6; a silent member of etcd is avoided
# after 3 s, an election takes up to 2: service is back 6 s after a majority is. A standby leads 5.1 s after the last
# renewal. Everything may take a second more.
PACE = TimeConstants(
    ask_every=1.0,
    answer_within=2.0,
    silent_looks=2,
    attempt=3.0,
    give_up=12.0,
    election_timeout=0.5,
    terms=LeaseDurations(lease_duration=4.0, renew_deadline=3.0, retry_period=0.5),
)


def outage_of(
    process: str, began: float, ended: float, kind: Kind = "dead", *, by_itself: bool = False
) -> ProcessOutage:
    return ProcessOutage(process=process, kind=kind, began=began, ended=ended, by_itself=by_itself)


def circumstances(
    *outages: ProcessOutage, etcd: int = 3, api_servers: int = 3, pace: TimeConstants = PACE
) -> FaultTimeline:
    return FaultTimeline(PlaneConfig(etcd=etcd, api_servers=api_servers).members(), outages, pace)
