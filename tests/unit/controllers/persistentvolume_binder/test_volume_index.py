# SPDX-License-Identifier: Apache-2.0
"""Tests of the volume index against a linear search."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.pods.volumes import (
    capacity_of_volume,
    class_of_claim,
    class_of_volume,
    is_volume_bound_to_claim,
    requested_size,
)
from kubeloop.controllers.persistentvolume_binder.volume_index import VolumeIndex

MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")
SIZES = st.sampled_from(["1Gi", "2Gi", "1024Mi", "3Gi"])
CLASSES = st.sampled_from(["", "slow", "fast"])


@st.composite
def volumes(draw: st.DrawFn) -> dict[str, PersistentVolume]:
    made = {}
    for number in range(draw(st.integers(0, 8))):
        spec: dict[str, Any] = {
            "capacity": {"storage": draw(SIZES)},
            "accessModes": sorted(draw(st.sets(st.sampled_from(MODES), min_size=1))),
            "storageClassName": draw(CLASSES),
        }
        if draw(st.integers(0, 3)) == 0:
            spec["claimRef"] = {
                "namespace": "ns",
                "name": draw(st.sampled_from("cd")),
                "uid": draw(st.sampled_from(["", "u", "x"])),
            }
        phase = draw(st.sampled_from(["Available", "Available", "Bound"]))
        labels = {"zone": draw(st.sampled_from("ab"))}
        name = f"v{number}"
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": phase}}
        made[name] = codec.from_plain(body, PersistentVolume)
    return made


@st.composite
def claims(draw: st.DrawFn) -> PersistentVolumeClaim:
    spec: dict[str, Any] = {
        "accessModes": sorted(draw(st.sets(st.sampled_from(MODES), min_size=1, max_size=2))),
        "resources": {"requests": {"storage": draw(SIZES)}},
        "storageClassName": draw(CLASSES),
    }
    if draw(st.booleans()):
        spec["selector"] = {"matchLabels": {"zone": draw(st.sampled_from("ab"))}}
    return codec.from_plain(
        {"metadata": {"namespace": "ns", "name": "c", "uid": "u"}, "spec": spec}, PersistentVolumeClaim
    )


def plain_search(claim: PersistentVolumeClaim, all_of_them: dict[str, PersistentVolume], reserved: bool) -> str | None:
    """Access modes by access modes, fewest first: what waits for the claim, or else the smallest."""
    big = [one for one in all_of_them.values() if capacity_of_volume(one) >= requested_size(claim)]
    wanted = set(claim.spec.access_modes)
    sets = {frozenset(one.spec.access_modes) for one in big if wanted <= set(one.spec.access_modes)}
    for modes in sorted(sets, key=lambda one: (len(one), sorted(one))):
        here = sorted(
            (one for one in big if frozenset(one.spec.access_modes) == modes), key=lambda one: one.metadata.name
        )
        for one in here:
            if is_volume_bound_to_claim(one, claim):
                return one.metadata.name
        free = [one for one in here if not reserved and _is_free(one, claim)]
        if free:
            return min(free, key=lambda one: (capacity_of_volume(one), one.metadata.name)).metadata.name
    return None


def _is_free(one: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    selector = claim.spec.selector
    zone = one.metadata.labels["zone"]
    return (
        one.spec.claim_ref is None
        and one.status.phase == "Available"
        and class_of_volume(one) == class_of_claim(claim)
        and (selector is None or selector.match_labels["zone"] == zone)
    )


@settings(max_examples=100, deadline=None)
@given(volumes(), volumes(), claims(), st.booleans())
def test_index_finds_what_a_linear_search_finds(
    before: dict[str, PersistentVolume],
    after: dict[str, PersistentVolume],
    claim: PersistentVolumeClaim,
    reserved: bool,
) -> None:
    present = dict(before)
    shelf = VolumeIndex(present.get)
    for name in before:
        shelf.update(name)
    present.clear()
    present.update(after)
    for name in {**before, **after}:
        shelf.update(name)
    found = shelf.find_best_match(claim, only_reserved=reserved)
    assert (None if found is None else found.metadata.name) == plain_search(claim, after, reserved)


def test_volume_being_bound_is_skipped() -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    body = {"metadata": {"name": "v"}, "spec": spec, "status": {"phase": "Available"}}
    one = codec.from_plain(body, PersistentVolume)
    shelf = VolumeIndex({"v": one}.get)
    shelf.update("v")
    wanted = codec.from_plain(
        {"metadata": {"namespace": "ns", "name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"]}},
        PersistentVolumeClaim,
    )
    assert shelf.find_best_match(wanted, only_reserved=False) is one
    shelf.being_bound.add("v")
    assert shelf.find_best_match(wanted, only_reserved=False) is None
