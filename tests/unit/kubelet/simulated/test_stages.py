# SPDX-License-Identifier: Apache-2.0
"""Tests of stage files: directives for many pods."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.clock import SystemClock
from kubeloop.kubelet.simulated.script import PREFIX
from kubeloop.kubelet.simulated.stages import StageError, Stages, parse_rules, read_rules
from kubeloop.testing import builders


class SeededClock(SystemClock):
    """Clock with deterministic randomness."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)


def stages(text: str, seed: int = 0) -> Stages:
    return Stages(parse_rules(yaml.safe_load(text)), SeededClock(seed))


def pod(namespace: str = "default", **annotations: str) -> Pod:
    made = {PREFIX + key.replace("_", "-"): text for key, text in annotations.items()}
    meta = ObjectMeta(name="web-1", namespace=namespace, labels={"app": "web"}, annotations=made)
    return Pod(metadata=meta, spec=builders.pod(node="n1").spec)


APP = builders.container(image="nginx:1.27")


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ("{}", True),
        ("{namespace: default}", True),
        ("{namespace: shop}", False),
        ("{name: web-*}", True),
        ("{labels: app=web}", True),
        ("{labels: app!=web}", False),
        ("{image: 'nginx:*', node: 'n?'}", True),
        ("{container: other}", False),
    ],
)
def test_rule_matches_its_selectors(match: str, fits: bool) -> None:
    script = stages(f"[{{match: {match}, do: {{exit-code: 3}}}}]").script_for(pod(), APP)
    assert (script is not None) == fits
    assert script is None or script.number("exit-code") == 3


def test_annotations_precede_earlier_rules() -> None:
    rules = "[{do: {exit-code: 1, cpu: 1}}, {do: {exit-code: 2, memory: 1Gi}}]"
    script = stages(rules).script_for(pod(cpu="2"), APP)
    assert script is not None
    assert [script.text(key) for key in ("exit-code", "cpu", "memory", "log")] == ["1", "2", "1Gi", ""]


def test_probability_is_drawn_per_run_and_deterministic_by_seed() -> None:
    def drawn(seed: int) -> list[bool]:
        rules = stages("[{chance: 0.5, do: {exit-code: 1}}]", seed)
        return [rules.script_for(pod(), APP) is not None for _ in range(50)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert 10 < sum(drawn(1)) < 40


def test_time_may_be_drawn_from_a_range() -> None:
    rules = stages("[{do: {start-delay: 1s..5s}}]")
    scripts = [rules.script_for(pod(), APP) for _ in range(20)]
    delays = {script.seconds("start-delay") for script in scripts if script is not None}
    assert len(delays) > 10
    assert all(delay is not None and 1 <= delay <= 5 for delay in delays)


def test_no_rules_and_annotations_give_no_script() -> None:
    assert stages("[]").script_for(pod(), APP) is None
    assert stages("[]").script_for(pod(cpu="1"), APP) is not None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[{do: {exitcode: 1}}]", "unknown direction exitcode"),
        ("[{match: {}}]", "missing required"),
        ("[{do: {}, when: now}]", "unknown field"),
        ("[{match: {labels: 'a in'}, do: {}}]", "found"),
        ("{do: {}}", "Expected"),
        ("[", "while parsing"),
    ],
)
def test_invalid_file_is_reported(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "stages.yaml"
    file.write_text(text)
    with pytest.raises(StageError, match=complaint) as raised:
        read_rules(file)
    assert str(raised.value).startswith(str(file))
