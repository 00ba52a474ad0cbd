# SPDX-License-Identifier: Apache-2.0
"""Runs of admission steps are all counted, though few are timed."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import errors
from kubeloop.apiserver.admission import AdmissionChain, AdmissionPlugin, Attributes
from kubeloop.apiserver.metrics.admission import AdmissionStepMetrics
from kubeloop.clock import SystemClock
from kubeloop.metrics import MetricRegistry
from tests.unit.apiserver.admission.test_admission_chain import _attempt

PLUGINS = "apiserver_admission_controller_admission_duration_seconds"
STEPS = "apiserver_admission_step_admission_duration_seconds"


class TickingClock(SystemClock):
    """Clock that advances a millisecond with each reading."""

    def __init__(self) -> None:
        super().__init__()
        self._reading = 0.0

    def monotonic(self) -> float:
        self._reading += 0.001
        return self._reading


class Passing(AdmissionPlugin):
    name = "Passing"

    def handles(self, *_: Any) -> bool:
        return True

    def admit(self, attempt: Attributes) -> None:
        return None


class Rejecting(Passing):
    name = "Rejecting"
    rejects = False

    def admit(self, attempt: Attributes) -> None:
        if self.rejects:
            raise errors.Forbidden("no")


class Waiting(Passing):
    name = "Waiting"

    def admit(self, attempt: Attributes) -> Any:  # type: ignore[override]  # upstream's name for both forms
        async def wait() -> None:
            return None

        return wait()


def samples(registry: MetricRegistry, start: str) -> dict[str, str]:
    lines = (line.rpartition(" ") for line in registry.render().splitlines() if line.startswith(start))
    return {name: value for name, _, value in lines}


@pytest.mark.parametrize("runs", [1, 2, 63, 64, 65, 200])
def test_all_runs_are_counted(runs: int) -> None:
    registry = MetricRegistry()
    chain = AdmissionChain([Passing(), Rejecting()], metrics=AdmissionStepMetrics(registry, TickingClock()))
    for run in range(runs):
        chain.admit(_attempt())
        if run % 7 == 0:
            registry.render()  # collecting in between changes nothing
    of = 'operation="CREATE",rejected="false",type="admit"'
    counted = samples(registry, f"{PLUGINS}_count")
    assert counted[f'{PLUGINS}_count{{name="Passing",{of}}}'] == str(runs)
    assert counted[f'{PLUGINS}_count{{name="Rejecting",{of}}}'] == str(runs)
    assert samples(registry, f"{STEPS}_count")[f"{STEPS}_count{{{of}}}"] == str(runs)
    assert samples(registry, f"{STEPS}_summary_count")[f"{STEPS}_summary_count{{{of}}}"] == str(runs)


@pytest.mark.parametrize("before", [0, 1, 5])
def test_rejections_are_counted_with_the_plugins_that_passed(before: int) -> None:
    registry, plugin = MetricRegistry(), Rejecting()
    chain = AdmissionChain([Passing(), plugin], metrics=AdmissionStepMetrics(registry, TickingClock()))
    for _ in range(before):
        chain.admit(_attempt())
    plugin.rejects = True
    with pytest.raises(errors.Forbidden):
        chain.admit(_attempt())
    counted = samples(registry, f"{PLUGINS}_count")
    of = 'operation="CREATE",rejected="{}",type="admit"'
    assert counted[f'{PLUGINS}_count{{name="Passing",{of.format("false")}}}'] == str(before + 1)
    assert counted[f'{PLUGINS}_count{{name="Rejecting",{of.format("false")}}}'] == str(before)
    assert counted[f'{PLUGINS}_count{{name="Rejecting",{of.format("true")}}}'] == "1"


@pytest.mark.parametrize("before", [0, 3])
def test_plugins_that_wait_are_timed_in_every_run(before: int) -> None:
    registry = MetricRegistry()
    chain = AdmissionChain([Passing(), Waiting(), Passing()], metrics=AdmissionStepMetrics(registry, TickingClock()))
    for _ in range(before + 1):
        waiting: Any = chain.admit(_attempt())
        with pytest.raises(StopIteration):
            waiting.send(None)
    of = 'name="Waiting",operation="CREATE",rejected="false",type="admit"'
    assert samples(registry, f"{PLUGINS}_count")[f"{PLUGINS}_count{{{of}}}"] == str(before + 1)
    assert float(samples(registry, f"{PLUGINS}_sum")[f"{PLUGINS}_sum{{{of}}}"]) == pytest.approx(0.001 * (before + 1))


def test_runs_of_a_step_without_plugins_are_counted() -> None:
    registry = MetricRegistry()
    chain = AdmissionChain([Passing()], metrics=AdmissionStepMetrics(registry, TickingClock()))
    for _ in range(70):
        assert chain.validate(_attempt()) is None
    of = 'operation="CREATE",rejected="false",type="validate"'
    for _ in range(2):  # collecting them twice counts them once
        assert samples(registry, f"{STEPS}_count")[f"{STEPS}_count{{{of}}}"] == "70"
    assert samples(registry, f"{STEPS}_summary_count")[f"{STEPS}_summary_count{{{of}}}"] == "70"
