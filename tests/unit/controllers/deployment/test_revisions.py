# SPDX-License-Identifier: Apache-2.0
"""Revisions, their history, and what is copied between a deployment and its replica sets."""

from __future__ import annotations

import msgspec
import pytest

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet, ReplicaSetStatus
from kubeloop.api.generated.core_v1 import PodTemplateSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.controllers.deployment.creation import replica_set_name
from kubeloop.controllers.deployment.replica_sets import HASH_LABEL, equal_ignore_hash, split_replica_sets
from kubeloop.controllers.deployment.revisions import (
    HISTORY,
    REVISION,
    changed_annotations,
    max_revision,
    previous_revision,
    replica_sets_to_clean_up,
    revision_of,
)
from kubeloop.testing import deployment, replica_set

replace = msgspec.structs.replace


def a_set(name: str, size: int = 0, **annotations: str) -> ReplicaSet:
    made = replica_set(name, replicas=size)
    known = {"revision": REVISION, "history": HISTORY}
    kept = {known.get(key, key): value for key, value in annotations.items()}
    return replace(made, metadata=replace(made.metadata, uid=name, annotations=kept))


def a_deployment(**annotations: str) -> Deployment:
    made = deployment()
    return replace(made, metadata=replace(made.metadata, annotations=annotations))


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("-1", -1), ("", None), ("x", None), ("1_0", None)])
def test_revision_is_a_number_or_missing(text: str, number: int | None) -> None:
    assert revision_of(a_set("a", revision=text)) == number


def test_highest_and_last_revision() -> None:
    sets = [a_set("a", revision="1"), a_set("b", revision="4"), a_set("c", revision="x"), a_set("d")]
    assert max_revision(sets) == 4
    assert previous_revision(sets) == 1
    assert previous_revision(sets[1:2]) == 0
    assert previous_revision([]) == 0


def test_revision_increases_and_history_is_kept() -> None:
    assert changed_annotations(a_deployment(), a_set("a"), 2) == {REVISION: "2"}
    assert changed_annotations(a_deployment(), a_set("a", revision="1"), 3) == {REVISION: "3", HISTORY: "1"}
    known = a_set("a", revision="5", history="1,3")
    assert changed_annotations(a_deployment(), known, 7) == {REVISION: "7", HISTORY: "1,3,5"}


def test_revision_never_decreases() -> None:
    assert changed_annotations(a_deployment(), a_set("a", revision="9"), 3) == {}


def test_history_is_bounded() -> None:
    long = ",".join(str(one) for one in range(1000, 1400))
    history = changed_annotations(a_deployment(), a_set("a", revision="1400", history=long), 1401)[HISTORY]
    assert len(history) <= 2000
    assert history.endswith(",1399,1400")
    assert not history.startswith("1000,")


def test_non_numeric_revision_is_unchanged() -> None:
    assert changed_annotations(a_deployment(note="new"), a_set("a", revision="x"), 3) == {}


def test_only_changed_annotations_are_copied() -> None:
    one = a_deployment(same="a", other="b", **{"kubectl.kubernetes.io/last-applied-configuration": "{}"})
    assert changed_annotations(one, a_set("a", revision="1", same="a", other="x", kept="y"), 1) == {"other": "b"}


def test_templates_are_compared_without_the_hash() -> None:
    one = deployment().spec.template
    assert one.metadata is not None
    labelled = replace(one, metadata=replace(one.metadata, labels={**one.metadata.labels, HASH_LABEL: "x"}))
    assert equal_ignore_hash(one, labelled)
    assert not equal_ignore_hash(one, replace(one, metadata=ObjectMeta(labels={"app": "b"})))
    assert not equal_ignore_hash(one, deployment(image="other").spec.template)
    assert equal_ignore_hash(PodTemplateSpec(), PodTemplateSpec(metadata=ObjectMeta()))


def test_oldest_of_equal_replica_sets_is_the_new_one() -> None:
    sets = [replica_set("b", labels={"app": "app"}), replica_set("a", labels={"app": "app"})]
    family = split_replica_sets(deployment(), sets)
    assert family.new is not None
    assert family.new.metadata.name == "a"
    assert [one.metadata.name for one in family.old] == ["b"]


def test_names_are_truncated() -> None:
    assert replica_set_name("app", "xyz") == "app-xyz"
    assert len(replica_set_name("a" * 253, "xyz")) == 253
    assert replica_set_name("a" * 253, "xyz").endswith("a-xyz")


def test_only_idle_replica_sets_beyond_the_limit_are_deleted() -> None:
    idle = [a_set(f"idle-{at}", revision=str(at)) for at in (3, 1, 2)]
    busy = a_set("busy", 1, revision="0")
    behind = replace(idle[0], status=ReplicaSetStatus(replicas=1))
    limited = deployment(revision_history_limit=1)
    assert [one.metadata.name for one in replica_sets_to_clean_up(limited, idle)] == ["idle-1", "idle-2"]
    assert [one.metadata.name for one in replica_sets_to_clean_up(limited, [busy, *idle])] == ["idle-1", "idle-2"]
    assert replica_sets_to_clean_up(deployment(revision_history_limit=0), [behind]) == []
    assert replica_sets_to_clean_up(deployment(revision_history_limit=None), idle) == []
    assert replica_sets_to_clean_up(deployment(revision_history_limit=2**31 - 1), idle) == []
