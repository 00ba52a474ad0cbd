# SPDX-License-Identifier: Apache-2.0
"""Kinds in the shape of those that clusters in the wild have are served, completed and checked."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.ecosystem.definitions import definitions, samples
from tests.unit.apiserver.apiextensions.conftest import DEFINITIONS
from tests.unit.apiserver.conftest import Answer, Api, ManualClock

SAMPLES = samples()
PLURALS = {one["spec"]["names"]["kind"]: one["spec"]["names"]["plural"] for one in definitions()}


class EcosystemApi(Api):
    def __init__(self, runner: asyncio.Runner) -> None:
        super().__init__(runner, ManualClock())
        self.made("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        for one in definitions():
            self.made(DEFINITIONS, one)

    def path(self, kind: str, version: str = "v1") -> str:
        group = SAMPLES[kind]["apiVersion"].partition("/")[0]
        where = "" if kind == "Sealer" else "namespaces/shop/"
        return f"/apis/{group}/{version}/{where}{PLURALS[kind]}"

    def sample(self, kind: str) -> dict[str, Any]:
        return copy.deepcopy(SAMPLES[kind])


@pytest.fixture(scope="module")
def harness() -> Iterator[EcosystemApi]:
    with asyncio.Runner() as runner:
        yield EcosystemApi(runner)


@pytest.fixture(autouse=True)
def tidy(harness: EcosystemApi) -> Iterator[None]:
    yield
    for kind in SAMPLES:
        harness.ask("DELETE", harness.path(kind))


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_valid_object_is_accepted_strictly_and_completed(harness: EcosystemApi, kind: str) -> None:
    made = harness.post(f"{harness.path(kind)}?fieldValidation=Strict", harness.sample(kind))
    assert made.status == 201, made.body
    name = made.body["metadata"]["name"]
    assert harness.get(f"{harness.path(kind)}/{name}").body == made.body
    replaced = harness.put(f"{harness.path(kind)}/{name}", made.body)
    assert (replaced.status, replaced.body) == (200, made.body)
    applied = harness.patch("apply", f"{harness.path(kind)}/{name}?fieldManager=m&force=true", harness.sample(kind))
    assert applied.body["spec"] == made.body["spec"]


def at(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *way, last = path.split(".")
    place: Any = document
    for step in way:
        place = place[int(step)] if step.isdigit() else place.setdefault(step, {})
    place[int(last) if last.isdigit() else last] = value
    return document


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("Sealer", "spec.own", {"keyRef": {"name": "k"}}, "must validate one and only one schema (oneOf)"),
        ("Sealer", "spec.office.address", "ftp://office", "should match '^https://'"),
        ("Sealer", "spec.office.proofs.0.sign", {}, "a proof is a letter or a sign"),
        ("Sealer", "spec.office.proofs.0.selector.zones", ["a", "a"], 'Duplicate value: "a"'),
        ("Sealer", "spec.office.proofs.0.letter.template", {"kind": "X"}, "apiVersion: Required value"),
        ("Seal", "metadata.name", "s" * 64, "the name must fit a label"),
        ("Seal", "spec.renewBefore", "9000h", "renewed 9000h before an end after 2160h"),
        ("Seal", "spec.privateKey", {"size": 100}, "spec.privateKey.size: Invalid value"),
        ("Gate", "spec.addresses.0.value", "nowhere", "addresses must be addresses"),
        ("Gate", "spec.doors.0.lock", {"mode": "Passthrough"}, "no lock on an open door"),
        ("Gate", "spec.doors.1.lock", {}, "a door that is locked here needs a key"),
        ("Gate", "spec.doors.1.name", "open", 'spec.doors[1]: Duplicate value: {"name":"open"}'),
        ("Gate", "spec.doors.1", {"name": "b", "port": 80, "protocol": "HTTP"}, "port, protocol and host must differ"),
        ("Gate", "spec.doors.0.port", 70000, "spec.doors[0].port in body should be less than or equal to 65535"),
        ("Tower", "spec.resources.limits.cpu", "much", "spec.resources.limits.cpu in body should match"),
        ("Tower", "spec.lookouts.0.rules.0.record", "x", "a rule alerts or records"),
        ("Tower", "spec.claims.0.metadata.labels", {"a b": "c"}, "spec.claims[0].metadata.labels: Invalid value"),
        ("Errand", "spec.steps.1.after", ["nobody"], "steps wait for steps that there are"),
        ("Errand", "spec.steps.1.after", ["buy"], "no step waits for itself"),
        ("Tide", "spec.min", 30, "spec.min: Invalid value: 30 is more than 20"),
        ("Tide", "spec.triggers.1.metadata", {"from": "8"}, "a clock needs from and to"),
        ("Tide", "spec.triggers.1.weight", 0, "should be greater than 0"),
        ("Tide", "spec.triggers.1.name", "main", "names of triggers must differ"),
    ],
)
def test_invalid_object_is_rejected_with_the_reason(
    harness: EcosystemApi, kind: str, path: str, value: Any, said: str
) -> None:
    refused = harness.post(harness.path(kind), at(harness.sample(kind), path, value))
    assert refused.status == 422, refused.body
    assert said in refused.body["message"]


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("Seal", "spec.secretName", "other", "a seal stays where it is"),
        ("Tide", "spec.target.name", "others", "a tide keeps its target"),
    ],
)
def test_change_forbidden_by_rules_is_rejected(
    harness: EcosystemApi, kind: str, path: str, value: Any, said: str
) -> None:
    made = harness.made(harness.path(kind), harness.sample(kind))
    refused = harness.put(f"{harness.path(kind)}/{made['metadata']['name']}", at(made, path, value))
    assert (refused.status, said in refused.body["message"]) == (422, True)


def test_defaults_are_applied_at_every_depth(harness: EcosystemApi) -> None:
    seal = harness.made(harness.path("Seal"), harness.sample("Seal"))
    assert seal["spec"]["privateKey"] == {"algorithm": "RSA", "size": 2048}
    gate = harness.made(harness.path("Gate"), harness.sample("Gate"))
    assert gate["spec"]["doors"][0]["allowed"] == {"namespaces": {"from": "Same"}}
    assert gate["spec"]["doors"][1]["lock"]["mode"] == "Terminate"
    tower = harness.made(harness.path("Tower"), harness.sample("Tower"))
    assert tower["spec"]["containers"][0]["ports"] == [{"containerPort": 9090, "protocol": "TCP"}]


def test_every_served_version_shows_the_same_object_and_deprecated_ones_warn(harness: EcosystemApi) -> None:
    made = harness.made(harness.path("Gate"), harness.sample("Gate"))
    for version in ("v1beta1", "v1alpha2"):
        seen: Answer = harness.get(f"{harness.path('Gate', version)}/main")
        assert seen.body["spec"] == made["spec"]
        assert seen.body["apiVersion"] == f"gates.example.org/{version}"
        assert ("Warning" in seen.headers) == (version == "v1alpha2")
    assert harness.get(harness.path("Tide", "v1alpha1")).status == 404


def test_appliers_share_keyed_lists(harness: EcosystemApi) -> None:
    path = f"{harness.path('Gate')}/main"
    first = harness.sample("Gate")
    harness.patch("apply", f"{path}?fieldManager=one", first)
    door = {"name": "side", "port": 8080, "protocol": "TCP"}
    second = {**first, "spec": {"className": "iron", "doors": [door]}}
    both = harness.patch("apply", f"{path}?fieldManager=two", second)
    assert [one["name"] for one in both.body["spec"]["doors"]] == ["open", "locked", "side"]
    taken_back = harness.patch("apply", f"{path}?fieldManager=two", {**second, "spec": {"className": "iron"}})
    assert [one["name"] for one in taken_back.body["spec"]["doors"]] == ["open", "locked"]


def test_selectable_fields_find_objects(harness: EcosystemApi) -> None:
    harness.made(harness.path("Seal"), harness.sample("Seal"))
    found: Callable[[str], int] = lambda name: len(  # noqa: E731 - said twice below
        harness.get(f"{harness.path('Seal')}?fieldSelector=spec.sealerRef.name%3D{name}").body["items"]
    )
    assert (found("house"), found("other")) == (1, 0)


def test_scale_of_a_custom_resource_can_be_changed(harness: EcosystemApi) -> None:
    harness.made(harness.path("Tower"), harness.sample("Tower"))
    scale = harness.get(f"{harness.path('Tower')}/north/scale").body
    assert scale["spec"] == {"replicas": 2}
    changed = harness.patch("merge", f"{harness.path('Tower')}/north/scale", {"spec": {"replicas": 5}})
    assert changed.body["spec"] == {"replicas": 5}
    assert harness.get(f"{harness.path('Tower')}/north").body["spec"]["replicas"] == 5
