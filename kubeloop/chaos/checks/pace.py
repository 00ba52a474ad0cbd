"""How soon everybody notices that somebody else is gone: what a promise about time is reckoned from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kubeloop.runtime.leaderelection.leader_elector import JITTER, Terms

_PROCESSES_IN_A_CALL = 4  # its client, the balancer, an API server and a member of etcd


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds; whoever starts a plane knows them from its parts."""

    ask_every: float  # how often the balancer asks a server whether it is ready
    answer_within: float  # how long it waits for that
    silent_looks: int  # after how many without an answer it cuts what is open
    attempt: float  # how long an API server waits for one member of etcd before it asks another
    give_up: float  # how long it goes on asking
    election_timeout: float  # of etcd: how long a member hears nothing of its leader before it wants another
    terms: Terms  # of the managers and schedulers
    lost_tries: int = 0  # how many tries in a row may fail on purpose
    slowed_by: float = 0.0  # how much longer a call may take on purpose
    start: float = 30.0  # until a process that was started says that it is ready
    breath: float = 1.0  # what anything may take beyond that

    @property
    def noticed(self) -> float:
        """Until a silent API server gets no new connections: a look had just begun to be answered, the next is not."""
        return self.ask_every + self.answer_within

    @property
    def cut(self) -> float:
        """Until connections to a silent API server break."""
        return self.silent_looks * self.noticed

    @property
    def election(self) -> float:
        """Until etcd's members have a new leader: up to twice the timeout, and again when votes were split."""
        return 4 * self.election_timeout

    @property
    def failover(self) -> float:
        """Until an API server has the answer of another member than the silent one that it had asked."""
        return self.attempt + self.election

    @property
    def recovery(self) -> float:
        """Until service is there again after etcd's majority, or an API server, is: all have to find each other."""
        return self.ask_every + self.failover

    @property
    def patience(self) -> float:
        """How long a client waits: longer than a server, so that it is told what is wrong."""
        return self.give_up + self.failover

    @property
    def look(self) -> float:
        """The longest pause between two looks of a standby at the lease."""
        return self.terms.retry_period * (1 + JITTER)

    @property
    def takeover(self) -> float:
        """Until a standby leads after the last renewal: it is seen within a look, and counts from there."""
        return self.terms.lease_duration + self.look * (1 + self.lost_tries)

    def where_processes_wait(self, seconds: float) -> Pace:
        """The same on a machine so busy that a process waited so long for its turn: a call needs several of them."""
        return replace(self, breath=self.breath + _PROCESSES_IN_A_CALL * seconds)
