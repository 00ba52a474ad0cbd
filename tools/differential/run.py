# SPDX-License-Identifier: Apache-2.0
"""Run of differential tests: sends cases to both servers in parallel threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tools.differential.case import Answer, Case, Send, Step, run_case
from tools.differential.compare import Difference, first_difference
from tools.differential.fold import fold_answer
from tools.differential.report import Finding, Report
from tools.differential.shrink import shrink

_JSON = {"Content-Type": "application/json"}


class DifferentialRun:
    """Compares two servers, case by case."""

    def __init__(self, ours: Send, theirs: Send, tag: str, *, shrinks: bool = True) -> None:
        self._shrinks = shrinks
        self._ours = ours
        self._theirs = theirs
        self._tag = tag
        self._lock = threading.Lock()
        self._namespaces = 0
        self.report = Report()

    def run(self, case_of: Callable[[int], Case], requests: int, jobs: int) -> None:
        """Run cases in this many threads until this many requests were compared."""
        numbers = iter(range(requests))
        with ThreadPoolExecutor(jobs) as pool:
            for done in [pool.submit(self._work, case_of, numbers, requests) for _ in range(jobs)]:
                done.result()

    def _work(self, case_of: Callable[[int], Case], numbers: Iterator[int], requests: int) -> None:
        while True:
            with self._lock:
                number = next(numbers, None)
                if number is None or self.report.requests >= requests:
                    return
            self.compare(case_of(number))

    def compare(self, case: Case) -> Finding | None:
        """Run a case on both servers; a difference is shrunk and added to the report."""
        found = self._difference(case)
        with self._lock:
            self.report.cases += 1
            self.report.requests += len(case.steps)
        if found is None:
            return None
        signature = found[0].signature()
        if not self._has_signature(case, signature):
            return None  # a matter of timing: caches that had not caught up
        if self._shrinks and signature not in self.report.findings:
            case = shrink(case, lambda smaller: self._has_signature(smaller, signature))
            found = self._difference(case) or found
        finding = Finding(case, found[0], found[1], found[2])
        with self._lock:
            self.report.add_difference(finding)
        return finding

    def _has_signature(self, case: Case, signature: object) -> bool:
        found = self._difference(case)
        return found is not None and found[0].signature() == signature

    def _difference(self, case: Case) -> tuple[Difference, Answer, Answer] | None:
        namespace = self._new_namespace(case)
        ours = [fold_answer(one, namespace) for one in run_case(self._ours, case, namespace)]
        theirs = [fold_answer(one, namespace) for one in run_case(self._theirs, case, namespace)]
        found = first_difference(ours, theirs)
        return None if found is None else (found, ours[found.step], theirs[found.step])

    def _new_namespace(self, case: Case) -> str:
        """Create the namespace of a case on both servers, with its default service account if pods may need it.

        It is never deleted: without controllers, that would not delete what it contains.
        """
        with self._lock:
            self._namespaces += 1
            name = f"{self._tag}-{self._namespaces}"
        paths = [step.path for step in case.steps]
        for send in (self._ours, self._theirs):
            send(Step("POST", "/api/v1/namespaces", {"metadata": {"name": name}}, _JSON))
            if any("/pods" in path or "/serviceaccounts" in path for path in paths):
                account = {"metadata": {"name": "default"}}
                send(Step("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account, _JSON))
        return name
