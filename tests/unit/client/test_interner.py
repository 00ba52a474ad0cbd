# SPDX-License-Identifier: Apache-2.0
"""Objects that share their parts are equal to what they were, and smaller together."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import ConfigMap, Container, EnvVar, Pod, PodSpec, ResourceRequirements, Volume
from kubeloop.api.generated.meta_v1 import ManagedFieldsEntry, ObjectMeta
from kubeloop.api.scalars.wire import Quantity
from kubeloop.client.interner import _MOST_PARTS, _TRIALS, Interner


def pod(number: int, **container: Any) -> Pod:
    """Decode as from the wire, without shared parts."""
    env = [{"name": "MODE", "value": "a value, not short"}, {"name": "SELF", "value": f"pod-{number}"}]
    resources = {"requests": {"cpu": "10m"}}
    one = {"name": "app", "image": "registry.example/app:1", "env": env, "resources": resources, **container}
    meta = {"name": f"pod-{number}", "labels": {"app": "shop"}, "uid": f"uid-{number}"}
    return codec.from_plain({"metadata": meta, "spec": {"containers": [one], "nodeName": f"node-{number % 3}"}}, Pod)


def shared(*objects: Any) -> None:
    sharing = Interner()
    for one in objects:
        sharing.intern(one)


def test_equal_parts_are_interned() -> None:
    one, two = pod(1), pod(2)
    shared(one, two)
    first, second = one.spec.containers[0], two.spec.containers[0]
    assert first.env[0] is second.env[0]
    assert first.image is second.image
    assert first.resources.requests is second.resources.requests
    assert one.metadata.labels is two.metadata.labels


def test_different_parts_are_not_interned() -> None:
    before = [pod(number) for number in range(3 * _TRIALS)]
    after = [pod(number) for number in range(3 * _TRIALS)]
    shared(*after)
    assert after == before
    assert [codec.encode(one) for one in after] == [codec.encode(one) for one in before]


def test_quantities_are_kept() -> None:
    found = [pod(number, resources={"limits": {"cpu": "1"}}, name="1") for number in range(2)]
    shared(*found)
    assert type(found[1].spec.containers[0].resources.limits["cpu"]) is Quantity
    assert type(found[1].spec.containers[0].name) is str


def test_substring_does_not_retain_the_full_text() -> None:
    sharing = Interner()
    for number in range(2 * _TRIALS):
        text = b'{"metadata":{"managedFields":[{"fieldsV1":{"f:data":{"f:%d":{}}}}]}}' % (number % 100)
        alone = sys.getrefcount(text)
        found = codec.decode(text, ConfigMap)
        assert sys.getrefcount(text) == alone + 1
        sharing.intern(found)
        assert sys.getrefcount(text) == alone
        assert bytes(found.metadata.managed_fields[0].fields_v1) == b'{"f:data":{"f:%d":{}}}' % (number % 100)


def test_fields_without_repetition_are_not_interned() -> None:
    sharing = Interner()
    unused = 1_000_000  # Python 3.12 never frees an interned string, so those of other tests would be found
    for number in range(_MOST_PARTS * 2):
        sharing.intern(pod(unused + number))
    places = {one.name: one for one in sharing._slots[ObjectMeta]}
    assert "uid" not in places
    assert "labels" in places
    assert all(len(one._parts) <= _MOST_PARTS for ones in sharing._slots.values() for one in ones)


def test_non_structs_are_unchanged() -> None:
    document = {"spec": {"a": [1]}}
    Interner().intern(document)
    assert document == {"spec": {"a": [1]}}


words = st.sampled_from(["", "a", "b", "1", "registry.example/app"])
env = st.builds(EnvVar, name=words, value=words)
amounts = st.dictionaries(words, st.sampled_from(["1", "10m", "2Gi"]).map(Quantity), max_size=2)
containers = st.builds(
    Container,
    name=words,
    image=words,
    args=st.lists(words, max_size=3).map(tuple),
    env=st.lists(env, max_size=3).map(tuple),
    resources=st.builds(ResourceRequirements, limits=amounts, requests=amounts),
)
managed = st.builds(ManagedFieldsEntry, manager=words, fields_v1=st.just(msgspec.Raw(b'{"f:a":{}}')))
pods = st.builds(
    Pod,
    metadata=st.builds(ObjectMeta, name=words, managed_fields=st.lists(managed, max_size=2).map(tuple)),
    spec=st.builds(
        PodSpec,
        containers=st.lists(containers, max_size=2).map(tuple),
        volumes=st.lists(st.builds(Volume, name=words), max_size=2).map(tuple),
        priority=st.sampled_from([None, 0, 1, 1000]),
        host_network=st.booleans(),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(pods, max_size=12))
def test_interning_preserves_equality(objects: list[Pod]) -> None:
    sharing = Interner()
    for one in objects:
        wire = codec.encode(one)
        mine = codec.decode(wire, Pod)
        sharing.intern(mine)
        assert codec.encode(mine) == wire
        assert mine == codec.decode(wire, Pod)


def test_interned_mapping_is_immutable() -> None:
    one = pod(1)
    shared(one)
    labels: Any = one.metadata.labels
    for change in (
        lambda: labels.update(a="b"),
        lambda: labels.pop("app"),
        lambda: labels.setdefault("a", "b"),
        lambda: labels.__setitem__("a", "b"),
        lambda: labels.__delitem__("app"),
    ):
        with pytest.raises(TypeError, match="modify a copy"):
            change()
    assert labels == {"app": "shop"}
    assert {**labels, "a": "b"} == {"app": "shop", "a": "b"}
    assert type(labels | {"a": "b"}) is dict
