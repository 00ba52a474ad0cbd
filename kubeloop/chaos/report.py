# SPDX-License-Identifier: Apache-2.0
"""Report of a chaos run: figures, and every violated guarantee."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Report(msgspec.Struct, kw_only=True):
    """Figures and problems of a run."""

    seed: int
    operations: dict[str, int]  # by what they were answered
    events: int  # delivered to watchers
    disturbances: list[str]
    promised: int  # calls that had to be answered: a quorum and an API server were there
    broken_connections: int
    longest_outage: float  # of one client, of the time for which an answer was promised
    takeovers: int  # leaders that replaced one that had not released its lease
    longest_without_leader: float  # between two renewals of a lease, of the time in which one was promised
    problems: list[str]

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        answered = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.operations.items()))
        yield f"seed {self.seed}: {len(self.disturbances)} disturbances, {sum(self.operations.values())} operations"
        yield f"  answered: {answered}; {self.events} events delivered to watchers"
        yield f"  with a quorum, no client waited longer than {self.longest_outage:.1f} s in {self.promised} calls,"
        yield f"  {self.broken_connections} connections broke, and no lease went without renewal for longer than"
        yield f"  {self.longest_without_leader:.1f} s; standbys took over {self.takeovers} times"
        yield from (f"  WRONG: {problem}" for problem in self.problems)
        yield "  all guarantees held" if not self.problems else f"  {len(self.problems)} guarantees were violated"
