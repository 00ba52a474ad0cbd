# SPDX-License-Identifier: Apache-2.0
"""Tests of interned pod specs."""

from __future__ import annotations

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import ConfigMap, Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.registry.storage import PodSpecInterner
from kubeloop.testing import builders


def _pod(name: str, node: str = "", image: str = "nginx") -> Pod:
    made = builders.pod(name, image=image, node=node)
    return codec.decode(codec.encode(made), Pod)  # nothing in common with any other


def test_equal_specs_are_interned() -> None:
    specs, one, other = PodSpecInterner(), _pod("a"), _pod("b")
    before = codec.encode(other)
    specs.intern(one)
    specs.intern(other)
    assert one.spec is other.spec
    assert codec.encode(other) == before


def test_specs_on_different_nodes_share_all_other_fields() -> None:
    specs, one, other = PodSpecInterner(), _pod("a", node="n1"), _pod("b", node="n2")
    specs.intern(one)
    specs.intern(other)
    assert (one.spec.node_name, other.spec.node_name) == ("n1", "n2")
    assert one.spec.containers is other.spec.containers


def test_different_specs_are_not_interned() -> None:
    specs, one, other = PodSpecInterner(), _pod("a"), _pod("b", image="redis")
    specs.intern(one)
    specs.intern(other)
    assert one.spec != other.spec


def test_unused_specs_are_dropped() -> None:
    specs = PodSpecInterner()
    for number in range(2000):
        specs.intern(Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(hostname=f"h{number}")))
    assert len(specs) < 1000


def test_other_kinds_are_not_interned() -> None:
    specs, other = PodSpecInterner(), ConfigMap()
    specs.intern(other)
    assert (len(specs), other) == (0, ConfigMap())
