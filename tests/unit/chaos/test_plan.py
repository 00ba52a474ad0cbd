# SPDX-License-Identifier: Apache-2.0
"""Plans: read, refused with the reason, and laid out in time by their seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubeloop.chaos.plan import CutWatches, Errors, Kill, PlanError, load_plan, plan_of

HEAD = {"apiVersion": "kubeloop.dev/v1alpha1", "kind": "ChaosPlan"}


def plan(*faults: dict[str, Any], **rest: Any) -> Any:
    return plan_of({**HEAD, **rest, "faults": list(faults)})


def test_plan_is_loaded_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "{apiVersion: kubeloop.dev/v1alpha1, kind: ChaosPlan, seed: 3, duration: 1m30s,\n"
        " faults: [{fault: kill, targets: [etcd], every: 5s, for: 500ms}, {fault: errors, chance: 0.5, code: 429}]}"
    )
    found = load_plan(tmp_path / "plan.yaml")
    assert (found.seed, found.duration) == (3, 90.0)
    assert found.faults == (Kill(targets=("etcd",), every=5.0, for_=0.5), Errors(chance=0.5, code=429))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({**HEAD, "kind": "Pod"}, "must be ChaosPlan of kubeloop.dev/v1alpha1, not Pod"),
        ({**HEAD, "fault": []}, "unknown field `fault`"),
        ({**HEAD, "faults": [{"fault": "meteor"}]}, "Invalid value 'meteor'"),
        ({**HEAD, "faults": [{"fault": "kill"}]}, "missing required field `every`"),
        ({**HEAD, "faults": [{"fault": "kill", "every": "0s"}]}, "`every` must be greater than 0"),
        ({**HEAD, "faults": [{"fault": "kill", "every": "soon"}]}, 'invalid duration "soon"'),
        ({**HEAD, "faults": [{"fault": "kill", "every": "1s", "targets": ["db"]}]}, "unknown component 'db'"),
        ({**HEAD, "faults": [{"fault": "errors", "chance": 2}]}, "<= 1"),
        (
            {**HEAD, "faults": [{"fault": "clock-jump", "by": "1m", "every": "1s", "targets": ["etcd"]}]},
            "does not apply to etcd",
        ),
        ({**HEAD, "faults": [{"fault": "corrupt-store", "every": "1s"}]}, "only a plane with SQLite"),
        ({**HEAD, "plane": {"etcd": 1}, "faults": [{"fault": "lose-data", "every": "1s"}]}, "two others remain"),
        ({**HEAD, "plane": {"etcd": 0}}, "several need etcd"),
        ({**HEAD, "plane": {"apiServers": 0}}, "at least one API server is required"),
        ({**HEAD, "duration": "25h"}, "at most a day"),
        ({**HEAD, "duration": True}, "expected a time"),
        (None, "Expected `object`"),
    ],
)
def test_invalid_plan_is_rejected_with_the_reason(document: Any, message: str) -> None:
    with pytest.raises(PlanError) as refusal:
        plan_of(document)
    assert message in str(refusal.value)


def test_invalid_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        load_plan(tmp_path / "absent.yaml")


KILLS = {"fault": "kill", "every": "5s", "for": "2s"}


def test_schedule_is_deterministic_by_seed() -> None:
    one, again, other = (plan(KILLS, seed=seed).schedule() for seed in (1, 1, 2))
    assert one == again != other


def test_moments_are_ordered_within_the_duration_and_hit_existing_targets() -> None:
    found = plan(KILLS, {"fault": "cut-watches", "every": "3s"}, duration="10m")
    moments = found.schedule()
    assert [one.at for one in moments] == sorted(one.at for one in moments)
    assert all(0 < one.at <= one.until <= 600 for one in moments)
    killed = {one.target for one in moments if isinstance(one.fault, Kill)}
    assert killed == {name for names in found.plane.members().values() for name in names}
    assert 150 < sum(isinstance(one.fault, CutWatches) for one in moments) < 250


def test_added_fault_does_not_change_earlier_ones() -> None:
    alone = plan(KILLS).schedule()
    both = plan(KILLS, {"fault": "cut-watches", "every": "1s"}).schedule()
    assert [one for one in both if isinstance(one.fault, Kill)] == alone


def test_plane_without_a_component_has_no_target() -> None:
    assert plan({**KILLS, "targets": ["etcd"]}, plane={"etcd": 0, "apiServers": 1}).schedule() == []


def test_several_distinct_targets_are_hit() -> None:
    moments = plan({**KILLS, "targets": ["etcd"], "count": 2}, duration="10m").schedule()
    by_time: dict[float, list[str]] = {}
    for moment in moments:
        by_time.setdefault(moment.at, []).append(moment.target)
    assert {len(set(targets)) for targets in by_time.values()} == {2}


def test_call_faults_form_a_separate_plan() -> None:
    whole = plan(KILLS, {"fault": "cut-watches", "every": "1500ms"}, {"fault": "slow", "by": "20ms", "users": ["a*"]})
    ours = whole.for_calls()
    assert [type(fault).__name__ for fault in ours.faults] == ["CutWatches", "Slow"]
    assert plan_of(ours.document()) == ours
