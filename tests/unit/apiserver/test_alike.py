"""Pods of one template share their specs in memory, and nothing else comes of it."""

from __future__ import annotations

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import ConfigMap, Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.registry.pod_spec_interner import PodSpecInterner
from kubeloop.testing import builders


def _pod(name: str, node: str = "", image: str = "nginx") -> Pod:
    made = builders.pod(name, image=image, node=node)
    return codec.decode(codec.encode(made), Pod)  # nothing in common with any other


def test_equal_specs_become_one() -> None:
    specs, one, other = PodSpecInterner(), _pod("a"), _pod("b")
    before = codec.encode(other)
    specs.unite(one)
    specs.unite(other)
    assert one.spec is other.spec
    assert codec.encode(other) == before


def test_specs_on_different_nodes_have_all_but_that_in_common() -> None:
    specs, one, other = PodSpecInterner(), _pod("a", node="n1"), _pod("b", node="n2")
    specs.unite(one)
    specs.unite(other)
    assert (one.spec.node_name, other.spec.node_name) == ("n1", "n2")
    assert one.spec.containers is other.spec.containers


def test_different_specs_stay_so() -> None:
    specs, one, other = PodSpecInterner(), _pod("a"), _pod("b", image="redis")
    specs.unite(one)
    specs.unite(other)
    assert one.spec != other.spec


def test_specs_that_nobody_has_any_more_are_forgotten_in_the_end() -> None:
    specs = PodSpecInterner()
    for number in range(2000):
        specs.unite(Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(hostname=f"h{number}")))
    assert len(specs) < 1000


def test_other_kinds_are_left_alone() -> None:
    specs, other = PodSpecInterner(), ConfigMap()
    specs.unite(other)
    assert (len(specs), other) == (0, ConfigMap())
