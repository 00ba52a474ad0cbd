# SPDX-License-Identifier: Apache-2.0
"""Small random clusters, and plugins to ask about them: what every plugin's test against its reference needs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kubeloop.api.codec import from_plain
from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.kinds import Resource
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import SystemClock
from kubeloop.metrics import MetricRegistry
from kubeloop.scheduler.cache.cluster import ALL, ClusterState
from kubeloop.scheduler.cache.pod_info import PodInfo, SignatureCache
from kubeloop.scheduler.framework.plugin import Plugin, PluginTimeLimit, Skip, implements
from kubeloop.scheduler.framework.status import PreFilterResult, Status

NAMESPACES = ("default", "other")
ZONE, HOST = "zone", "kubernetes.io/hostname"


class ObjectInformer:
    """Fake informer with a few objects."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.version = "1"
        self.objects: list[Any] = []
        self._handlers: list[Any] = []
        self._indexers: dict[str, Callable[[Any], Any]] = {}

    def add(self, one: Any) -> None:
        self.objects.append(one)
        for handler in self._handlers:
            handler.on_add(one)

    def list(self, namespace: str = "") -> list[Any]:
        return [one for one in self.objects if not namespace or one.metadata.namespace == namespace]

    def get(self, namespace: str, name: str) -> Any | None:
        found = (one for one in self.list(namespace) if one.metadata.name == name)
        return next(found, None)

    def add_handler(self, handler: Any) -> None:
        self._handlers.append(handler)
        for one in self.objects:
            handler.on_add(one)

    def add_indexer(self, name: str, indexer: Callable[[Any], Any]) -> None:
        self._indexers[name] = indexer

    def by_index(self, name: str, value: str) -> Sequence[Any]:
        return [one for one in self.objects if value in self._indexers[name](one)]


class ObjectsByKind:
    """Fake informers of all kinds."""

    def __init__(self) -> None:
        self._kinds: dict[str, ObjectInformer] = {}

    def for_resource(self, resource: Resource, **_: Any) -> Any:
        return self._kinds.setdefault(resource.kind, ObjectInformer(resource))


class FakeHandle:
    """Fake plugin handle: objects, signatures, and deterministic randomness."""

    def __init__(self) -> None:
        self.informers = ObjectsByKind()
        self.signatures = SignatureCache()
        self.clock: Any = SystemClock()
        self.client: Any = None
        self.shared: dict[Any, Any] = {}
        self.registry = MetricRegistry()
        self.plugin_time_limit = PluginTimeLimit()
        self.features = DEFAULT_FEATURES

    def watch_resource(self, resource: Resource, **_: Any) -> Any:
        return self.informers.for_resource(resource)

    def random(self) -> random.Random:
        return random.Random(0)


class RandomCluster:
    """Nodes with pods on them, in the scheduler's arrays and as plain objects."""

    def __init__(self) -> None:
        self.around = FakeHandle()
        self.cluster = ClusterState()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, list[Pod]] = {}  # by node

    def add_node(self, node: Node) -> None:
        self.nodes[node.metadata.name] = node
        self.pods.setdefault(node.metadata.name, [])
        self.cluster.set_node(node)

    def add_pod(self, pod: Pod, node: str) -> None:
        self.pods[node].append(pod)
        self.cluster.add_pod(self.info(pod), node)

    def remove_pod(self, pod: Pod, node: str) -> None:
        self.pods[node].remove(pod)
        self.cluster.remove_pod(self.info(pod), node)

    def add(self, *objects: Any) -> None:
        """Objects that plugins read besides nodes and pods."""
        for one in objects:
            self.around.informers.for_resource(resource_of_class(type(one))).add(one)

    def info(self, pod: Pod) -> PodInfo:
        return self.around.signatures.pod_info(pod)

    def plugin(self, kind: type[Plugin], args: Mapping[str, Any] | None = None) -> Plugin:
        return kind(self.around, args or {})  # type: ignore[arg-type]  # as much of a handle as plugins use here

    def refusals(self, plugin: Plugin, pod: Pod) -> dict[str, tuple[str, ...]]:
        """Return the rejection reasons by node of the vectorized plugin."""
        info = self.info(pod)
        state = plugin.pre_filter(info, self.cluster)
        if isinstance(state, Status):
            return dict.fromkeys(self.nodes, state.reasons)
        if isinstance(state, Skip) or not implements(type(plugin), "filter"):
            return {}
        state = state.state if isinstance(state, PreFilterResult) else state
        answers = plugin.filter(state, self.cluster, ALL)
        for row in self.cluster.rows_in_use():
            assert plugin.filter_row(state, self.cluster, int(row)) == answers[row]
        return {
            name: plugin.filter_status(state, int(answers[row])).reasons
            for name in self.nodes
            if (row := self.cluster.row_of(name)) is not None and answers[row]
        }

    def scores(self, plugin: Plugin, pod: Pod, among: list[str] | None = None) -> dict[str, int] | None:
        """Return the normalized scores of some nodes; None if the plugin does not score."""
        names = sorted(self.nodes) if among is None else among
        rows = np.array([self.cluster.row_of(name) for name in names], np.intp)
        info = self.info(pod)
        state = plugin.pre_score(info, self.cluster)
        if isinstance(state, Skip) or not names:
            return None
        scores = plugin.score(state, self.cluster, rows)
        if plugin.is_node_local:
            assert [plugin.score_row(state, self.cluster, int(row)) for row in rows] == scores.tolist()
        if implements(type(plugin), "normalize_score"):
            scores = plugin.normalize_score(state, scores, self.cluster, rows)
        return dict(zip(names, (int(one) for one in scores), strict=True))


def by_node(env: RandomCluster, why_not: Callable[[Node], tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Apply a function of one node to all nodes; the result is like that of `RandomCluster.refusals`."""
    found = {name: why_not(node) for name, node in env.nodes.items()}
    return {name: reasons for name, reasons in found.items() if reasons}


# Strategies.

_KEYS = ("color", "size")
_VALUES = ("a", "b", "3")
labels = st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_VALUES), max_size=2)
taints = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(_KEYS),
            "value": st.sampled_from(("", "a", "3")),
            "effect": st.sampled_from(("NoSchedule", "PreferNoSchedule", "NoExecute")),
        }
    ),
    max_size=2,
)
tolerations = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(("", *_KEYS)),
            "operator": st.sampled_from(("Exists", "Equal", "Gt", "Lt")),
            "value": st.sampled_from(("", "a", "3", "4")),
            "effect": st.sampled_from(("", "NoSchedule", "PreferNoSchedule")),
        }
    ),
    max_size=3,
)
_selector = st.fixed_dictionaries({"matchLabels": labels})
requests = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(("0", "100m", "1", "3")),
        "memory": st.sampled_from(("100Mi", "1Gi", "3Gi")),
        "example.com/gpu": st.sampled_from(("1", "2")),
    },
)


@st.composite
def nodes(draw: st.DrawFn, number: int = 0) -> Node:
    name = f"n{number}"
    own = dict(draw(labels))
    if draw(st.booleans()):
        own[ZONE] = draw(st.sampled_from(("east", "west", "north")))
    if draw(st.integers(0, 9)):
        own[HOST] = name
    room = {
        "cpu": draw(st.sampled_from(("2", "4", "8"))),
        "memory": draw(st.sampled_from(("2Gi", "8Gi"))),
        "pods": draw(st.sampled_from(("1", "3", "10"))),
    }
    if draw(st.booleans()):
        room["example.com/gpu"] = "2"
    plain = {
        "metadata": {"name": name, "labels": own},
        "spec": {"taints": draw(taints), "unschedulable": draw(st.booleans())},
        "status": {"allocatable": room},
    }
    return from_plain(plain, Node)


@st.composite
def pods(draw: st.DrawFn, name: str = "pod", spec: st.SearchStrategy[dict[str, Any]] | None = None) -> Pod:
    containers = [
        {
            "name": f"c{number}",
            "image": draw(st.sampled_from(("app", "app:1", "reg/db"))),
            "resources": {"requests": draw(requests)},
            "ports": draw(_ports),
        }
        for number in range(draw(st.integers(1, 2)))
    ]
    more = {} if spec is None else draw(spec)
    plain = {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": draw(st.sampled_from(NAMESPACES)),
            "labels": draw(labels),
        },
        "spec": {"containers": containers, **more},
    }
    return from_plain(plain, Pod)


_ports = st.lists(
    st.fixed_dictionaries(
        {
            "containerPort": st.just(80),
            "hostPort": st.sampled_from((0, 80, 81)),
            "hostIP": st.sampled_from(("", "10.0.0.1", "10.0.0.2")),
            "protocol": st.sampled_from(("TCP", "UDP")),
        }
    ),
    max_size=1,
)

_term = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from((ZONE, HOST)), "labelSelector": _selector},
    optional={
        "namespaces": st.just(list(NAMESPACES)),
        "namespaceSelector": st.sampled_from(({}, {"matchLabels": {"team": "x"}})),
    },
)
_weighted = st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": _term})
_sides = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(_term, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(_weighted, max_size=2),
    },
)
pod_affinity = st.fixed_dictionaries(
    {"affinity": st.fixed_dictionaries({}, optional={"podAffinity": _sides, "podAntiAffinity": _sides})}
)


@st.composite
def generated_clusters(draw: st.DrawFn, spec: st.SearchStrategy[dict[str, Any]] | None = None) -> RandomCluster:
    """Up to five nodes with up to six pods, some of which have come and gone again."""
    env = RandomCluster()
    for number in range(draw(st.integers(1, 5))):
        env.add_node(draw(nodes(number)))
    for number in range(draw(st.integers(0, 6))):
        node = draw(st.sampled_from(sorted(env.nodes)))
        pod = draw(pods(f"p{number}", spec))
        env.add_pod(pod, node)
        if draw(st.integers(0, 3)) == 0:
            env.remove_pod(pod, node)
    return env
