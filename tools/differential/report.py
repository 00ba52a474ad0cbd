# SPDX-License-Identifier: Apache-2.0
"""Report of a run: differences by class, each with its smallest case."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tools.differential.case import Answer, Case
from tools.differential.compare import Difference, Level


@dataclass(slots=True)
class Finding:
    """Differences of one class: the smallest case, both answers to it, and how many cases showed it."""

    case: Case
    difference: Difference
    ours: Answer
    theirs: Answer
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON value."""
        return {
            "level": self.difference.level.name.lower(),
            "count": self.count,
            "step": self.difference.step,
            "places": list(self.difference.places[:10]),
            "case": self.case.to_json(),
            "theirs": {"status": self.theirs.status, "body": self.theirs.body},
            "ours": {"status": self.ours.status, "body": self.ours.body},
        }


@dataclass(slots=True)
class Report:
    """Counters and findings of a run."""

    requests: int = 0
    cases: int = 0
    differing: Counter[Level] = field(default_factory=Counter)
    findings: dict[tuple[Level, str], Finding] = field(default_factory=dict)

    def add_difference(self, finding: Finding) -> None:
        """Count a difference, and keep it if it is the first of its class."""
        self.differing[finding.difference.level] += 1
        known = self.findings.setdefault(finding.difference.signature(), finding)
        if known is not finding:
            known.count += 1

    def summary(self) -> str:
        """Return the counters as text."""
        total = max(self.requests, 1)
        shares = ", ".join(
            f"{level.name.lower()} {self.differing[level]} ({100 * self.differing[level] / total:.2f} %)"
            for level in Level
        )
        return f"{self.requests} requests in {self.cases} cases; differ: {shares}; {len(self.findings)} classes"

    def to_json(self) -> str:
        """Return the whole report as JSON, the most frequent classes first."""
        found = sorted(self.findings.values(), key=lambda one: (one.difference.level, -one.count))
        return json.dumps({"summary": self.summary(), "findings": [one.to_json() for one in found]}, indent=1)
