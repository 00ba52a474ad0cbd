# SPDX-License-Identifier: Apache-2.0
"""Tests of the phase of a pod, for every combination of container states."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodSpec,
)
from kubeloop.kubelet.status.phase import pod_phase

RULES = (
    ContainerRestartRule(action="Restart", exit_codes=ContainerRestartRuleOnExitCodes(operator="In", values=(42,))),
)
ALL = (
    ContainerRestartRule(
        action="RestartAllContainers", exit_codes=ContainerRestartRuleOnExitCodes(operator="In", values=(42,))
    ),
)


def status_of(name: str, word: str) -> ContainerStatus:
    """`runs`, `starts` (not yet past its probe), `waits`, `ended N`, `waits after N`, `waits for all`."""
    waiting = ContainerState(waiting=ContainerStateWaiting())
    if word in ("runs", "starts"):
        state = ContainerState(running=ContainerStateRunning())
        return ContainerStatus(name=name, image="i", image_id="", ready=False, restart_count=0, state=state,
                               started=word == "runs")  # fmt: skip
    last = ContainerState()
    if word == "waits for all":
        end = ContainerStateTerminated(exit_code=137, reason="RestartingAllContainers")
        state, last = waiting, ContainerState(terminated=end)
    elif word == "waits":
        state = waiting
    else:
        end = ContainerStateTerminated(exit_code=int(word.split()[-1]))
        over = ContainerState(terminated=end)
        state, last = (waiting, over) if word.startswith("waits") else (over, last)
    return ContainerStatus(
        name=name, image="i", image_id="", ready=False, restart_count=0, state=state, last_state=last, started=False
    )


def phase(policy: str, regular: str, init: str = "", *, sidecar: str = "", rules: str = "", ended: bool = False) -> str:
    """Containers by their states, with commas between; `?` for one of which nothing is known."""
    words = [one.strip() for one in regular.split(",")]
    kinds = {"": {}, "restart": {"restart_policy_rules": RULES}, "all": {"restart_policy_rules": ALL}}[rules]
    own: Any = {"restart_policy": "Never", **kinds} if rules else {}
    containers = tuple(Container(name=f"c{number}", image="i", **own) for number in range(len(words)))
    first: list[Container] = []
    known = {f"c{number}": word for number, word in enumerate(words)}
    for name, word, restart in (("init", init, None), ("side", sidecar, "Always")):
        if word:
            first.append(Container(name=name, image="i", restart_policy=restart))
            known[name] = word
    spec = PodSpec(restart_policy=policy, containers=containers, init_containers=tuple(first))
    statuses = {name: status_of(name, word) for name, word in known.items() if word != "?"}
    return pod_phase(Pod(spec=spec), statuses, ended=ended)


@pytest.mark.parametrize(
    ("policy", "states", "expected"),
    [
        ("Always", "waits, waits", "Pending"),
        ("Always", "runs, runs", "Running"),
        ("Always", "ended 1, ended 0", "Running"),
        ("Always", "runs, ended 1", "Running"),
        ("Always", "runs, ?", "Pending"),
        ("Always", "runs, waits after 1", "Running"),
        ("Always", "runs, waits", "Pending"),
        ("Never", "runs, runs", "Running"),
        ("Never", "ended 0, ended 0", "Succeeded"),
        ("Never", "ended 1, ended 1", "Failed"),
        ("Never", "runs, ended 1", "Running"),
        ("Never", "ended 0, ended 1", "Failed"),
        ("Never", "runs, ?", "Pending"),
        ("OnFailure", "ended 0, ended 0", "Succeeded"),
        ("OnFailure", "ended 1, ended 1", "Running"),
        ("OnFailure", "runs, ended 1", "Running"),
        ("OnFailure", "runs, waits after 1", "Running"),
        ("OnFailure", "ended 0, ended 1", "Running"),
    ],
)
def test_phase_follows_containers_and_restart_policy(policy: str, states: str, expected: str) -> None:
    assert phase(policy, states) == expected


@pytest.mark.parametrize(
    ("policy", "states", "expected"),
    [
        ("Always", "ended 0, ended 0", "Succeeded"),
        ("Always", "ended 1, ended 0", "Failed"),
        ("OnFailure", "ended 1, ended 0", "Failed"),
        ("Never", "ended 0, ended 0", "Succeeded"),
    ],
)
def test_finished_pod_restarts_nothing(policy: str, states: str, expected: str) -> None:
    assert phase(policy, states, ended=True) == expected


@pytest.mark.parametrize(
    ("policy", "init", "states", "expected"),
    [
        ("Always", "runs", "waits", "Pending"),
        ("Always", "?", "?", "Pending"),
        ("Always", "ended 1", "waits", "Pending"),
        ("Always", "waits after 1", "waits", "Pending"),
        ("Always", "ended 0", "runs", "Running"),
        ("Always", "waits after 0", "runs", "Running"),
        ("Never", "ended 1", "waits", "Failed"),
        ("Never", "waits after 1", "waits", "Failed"),
        ("Never", "runs", "ended 0", "Pending"),
        ("Never", "ended 0", "ended 0", "Succeeded"),
        ("OnFailure", "ended 1", "waits", "Pending"),
        ("Never", "waits for all", "waits for all", "Running"),
    ],
)
def test_init_containers_block_or_fail_a_pod(policy: str, init: str, states: str, expected: str) -> None:
    assert phase(policy, states, init) == expected


@pytest.mark.parametrize(
    ("policy", "sidecar", "states", "expected"),
    [
        ("Always", "waits", "waits", "Pending"),
        ("Always", "starts", "waits", "Pending"),
        ("Always", "starts", "runs", "Running"),
        ("Always", "runs", "runs", "Running"),
        ("Always", "runs", "waits", "Pending"),
        ("Always", "ended 1", "runs", "Running"),
        ("Always", "waits after 1", "runs", "Running"),
        ("Never", "runs", "ended 0", "Running"),
        ("Never", "ended 1", "ended 0", "Succeeded"),
        ("Never", "ended 0", "ended 1", "Failed"),
    ],
)
def test_sidecars_keep_a_pod_running_but_do_not_decide_its_phase(
    policy: str, sidecar: str, states: str, expected: str
) -> None:
    assert phase(policy, states, sidecar=sidecar) == expected


@pytest.mark.parametrize(
    ("rules", "states", "expected"),
    [
        ("restart", "ended 42", "Running"),
        ("restart", "ended 1", "Failed"),
        ("restart", "ended 0", "Succeeded"),
        ("restart", "waits after 42", "Running"),
        ("restart", "ended 42, ended 1", "Running"),
        ("all", "ended 42, ended 0", "Running"),
        ("all", "waits for all, waits for all", "Running"),
        ("all", "waits for all, ended 1", "Running"),
    ],
)
def test_container_rules_precede_the_policy(rules: str, states: str, expected: str) -> None:
    assert phase("Never", states, rules=rules) == expected
