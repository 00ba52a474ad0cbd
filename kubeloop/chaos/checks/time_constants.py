# SPDX-License-Identifier: Apache-2.0
"""Time constants of failure detection and recovery, from which the time guarantees are derived."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kubeloop.runtime.leaderelection.leader_elector import JITTER, LeaseDurations

_PROCESSES_IN_A_CALL = 4  # its client, the balancer, an API server and a member of etcd


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeConstants:
    """Time constants in seconds, taken from the components of a control plane."""

    ask_every: float  # interval of the balancer's readiness checks
    answer_within: float  # how long it waits for that
    silent_looks: int  # after how many without an answer it cuts what is open
    attempt: float  # timeout of an API server for one member of etcd before it tries another
    give_up: float  # time until it gives up
    election_timeout: float  # of etcd: time without a leader's heartbeat before a member starts an election
    terms: LeaseDurations  # of the managers and schedulers
    lost_tries: int = 0  # how many tries in a row may fail on purpose
    slowed_by: float = 0.0  # how much longer a call may take on purpose
    start: float = 30.0  # until a started process is ready
    slack: float = 1.0  # what anything may take beyond that

    @property
    def noticed(self) -> float:
        """Time until a silent API server gets no new connections: at worst a probe has just been answered."""
        return self.ask_every + self.answer_within

    @property
    def cut(self) -> float:
        """Time until connections to a silent API server are closed."""
        return self.silent_looks * self.noticed

    @property
    def election(self) -> float:
        """Time until etcd has a new leader: up to twice the timeout, and again after a split vote."""
        return 4 * self.election_timeout

    @property
    def failover(self) -> float:
        """Time until an API server has the answer of another etcd member than the silent one."""
        return self.attempt + self.election

    @property
    def recovery(self) -> float:
        """Time until service resumes after etcd's majority, or an API server, is back."""
        return self.ask_every + self.failover

    @property
    def client_timeout(self) -> float:
        """Timeout of a client: longer than a server's, so that it receives the error."""
        return self.give_up + self.failover

    @property
    def look(self) -> float:
        """Longest pause between two reads of the lease by a standby."""
        return self.terms.retry_period * (1 + JITTER)

    @property
    def takeover(self) -> float:
        """Time until a standby leads after the last renewal: it is seen within one read, and counts from there."""
        return self.terms.lease_duration + self.look * (1 + self.lost_tries)

    def with_cpu_wait(self, seconds: float) -> TimeConstants:
        """Return the constants for a machine so busy that a process waited this long for the CPU."""
        return replace(self, slack=self.slack + _PROCESSES_IN_A_CALL * seconds)
