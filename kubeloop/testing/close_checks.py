# SPDX-License-Identifier: Apache-2.0
"""Checks of a cluster at its end: mistakes that would otherwise pass unnoticed, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubeloop.runtime.controller import STALE_TRIES, Controller, ReconcileFailure
from kubeloop.runtime.manager import Loop
from kubeloop.testing.faults import ClusterFaults
from kubeloop.testing.look import ClusterAssertionError

_MAX_KEYS = 3  # of each loop


class ClusterCheckError(ClusterAssertionError):
    """Mistakes that were found when a cluster was closed, one per line."""


def failing_loop_problems(loops: Iterable[Loop], *, defects_only: bool) -> Iterator[str]:
    """Yield the keys whose reconcile has failed at every try since it last succeeded.

    A defect counts at once, other errors after some tries: a server may be busy, or a cache stale.
    """
    for loop in loops:
        if not isinstance(loop, Controller):
            continue
        failing = [(key, one) for key, one in loop.failures.items() if _counts(one, defects_only)]
        for key, failure in failing[:_MAX_KEYS]:
            yield (
                f"{loop.name} has failed at {failure.tries} of {failure.tries} tries for {key}: {failure.error}. "
                "Correct its reconcile function, or start it with may_fail=True if the test is about this"
            )


def _counts(failure: ReconcileFailure, defects_only: bool) -> bool:
    return failure.is_defect or (not defects_only and failure.tries > STALE_TRIES)


def unused_fault_problems(faults: ClusterFaults) -> Iterator[str]:
    """Yield the faults that no call has matched."""
    for fault in faults.unused():
        yield (
            f"no call matched the fault on {fault.calls}. Correct its verb, resource and name, or add the fault with "
            "optional=True if calls may be missing"
        )
