# SPDX-License-Identifier: Apache-2.0
"""Tests of extenders: external servers that filter, preempt and bind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubeloop.scheduler.config.configuration import SchedulerConfig, default_profile
from kubeloop.scheduler.config.extender_settings import ExtenderSettings, ManagedResource
from kubeloop.scheduler.extenders import extender
from kubeloop.scheduler.extenders.extender import ExtenderError
from kubeloop.scheduler.scheduler import Scheduler
from kubeloop.testing import Cluster, node, pod
from tests.scheduler.cluster_objects import asking, join, node_of, unschedulable_message

Answer = Callable[[str, Any], Any]


class Server:
    """Fake extender server: answers by a function, and records requests."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    async def call(self, verb: str, question: Any) -> Any:
        self.asked.append((verb, question))
        found = self.answer(verb, question)
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None: ...


@pytest.fixture
def extend(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Server]:
    def start(answer: Answer, **settings: Any) -> Server:
        server = Server(answer)
        monkeypatch.setattr(extender, "_over_http", lambda _: server)
        config = SchedulerConfig((default_profile(),), (ExtenderSettings("http://there", **settings),))
        cluster.start(lambda context: Scheduler(context, config))
        join(cluster, *(node(f"n{number}", cpu="2") for number in range(1, 4)))
        return server

    return start


def only(*names: str, **more: Any) -> Answer:
    """Lets some nodes pass, by their names."""
    return lambda _, __: {"NodeNames": list(names), **more}


def test_extender_filters_nodes(cluster: Cluster, extend: Callable[..., Server]) -> None:
    server = extend(only("n2"), filter_verb="filter", node_cache_capable=True)
    cluster.add(pod("web"))
    cluster.settle()
    assert node_of(cluster, "web") == "n2"
    ((verb, question),) = server.asked
    assert (verb, sorted(question["NodeNames"]), question["Nodes"]) == ("filter", ["n1", "n2", "n3"], None)
    assert question["Pod"]["metadata"]["name"] == "web"


def test_extender_without_node_cache_gets_full_nodes(cluster: Cluster, extend: Callable[..., Server]) -> None:
    def answer(_: str, question: Any) -> Any:
        items = [one for one in question["Nodes"]["items"] if one["metadata"]["name"] == "n3"]
        return {"nodes": {"items": items}}

    extend(answer, filter_verb="filter")
    cluster.add(pod("web"))
    cluster.settle()
    assert node_of(cluster, "web") == "n3"


def test_extender_reasons_are_reported_and_any_event_requeues(cluster: Cluster, extend: Callable[..., Server]) -> None:
    refused = {"FailedNodes": {"n1": "too blue", "n2": "too blue"}, "FailedAndUnresolvableNodes": {"n3": "too old"}}
    server = extend(only(**refused), filter_verb="filter", node_cache_capable=True)
    cluster.add(pod("web"))
    cluster.settle()
    assert unschedulable_message(cluster, "web").startswith("0/3 nodes are available: 1 too old, 2 too blue.")
    server.answer = only("n1")
    cluster.client.patch("nodes", "n1", {"metadata": {"labels": {"color": "red"}}})
    cluster.advance(seconds=3)
    assert node_of(cluster, "web") == "n1"


def test_extender_scores_nodes(cluster: Cluster, extend: Callable[..., Server]) -> None:
    extend(
        lambda _, __: [{"Host": "n1", "Score": 1}, {"Host": "n3", "Score": 10}],
        prioritize_verb="like", weight=5, node_cache_capable=True,
    )  # fmt: skip
    cluster.add(*(pod(f"web-{number}") for number in range(3)))
    cluster.settle()
    assert {node_of(cluster, f"web-{number}") for number in range(3)} == {"n3"}


@pytest.mark.parametrize("verb", ["filter_verb", "bind_verb"])
def test_extender_failure_is_an_error_and_is_retried(
    cluster: Cluster, extend: Callable[..., Server], verb: str
) -> None:
    server = extend(lambda _, __: ExtenderError("nobody there"), **{verb: "ask"}, node_cache_capable=True)
    cluster.add(pod("web"))
    cluster.settle()
    assert unschedulable_message(cluster, "web") == "nobody there"
    server.answer = lambda _, question: {"NodeNames": question.get("NodeNames")}
    cluster.advance(seconds=5)
    assert server.asked[-1][0] == "ask"
    assert (
        unschedulable_message(cluster, "web") == "nobody there"
        if verb == "bind_verb"
        else node_of(cluster, "web") != ""
    )


@pytest.mark.parametrize("verb", ["filter_verb", "bind_verb", "prioritize_verb"])
def test_ignorable_extender_failure_is_ignored(cluster: Cluster, extend: Callable[..., Server], verb: str) -> None:
    server = extend(lambda _, __: ExtenderError("nobody there"), **{verb: "ask"}, ignorable=True, weight=1)
    cluster.add(pod("web"))
    cluster.settle()
    assert node_of(cluster, "web") != ""
    assert len(server.asked) == 1


def test_extender_is_called_for_pods_with_managed_resources_only(
    cluster: Cluster, extend: Callable[..., Server]
) -> None:
    managed = (ManagedResource("example.com/a"),)
    server = extend(only("n2"), filter_verb="filter", node_cache_capable=True, managed_resources=managed)
    cluster.add(pod("web"))
    cluster.settle()
    assert (node_of(cluster, "web") != "", server.asked) == (True, [])


def test_extender_binds(cluster: Cluster, extend: Callable[..., Server]) -> None:
    server = extend(lambda _, __: {}, bind_verb="bind")
    made = cluster.add(pod("web"))
    cluster.settle()
    ((verb, question),) = server.asked
    assert (verb, question["PodName"], question["PodUID"]) == ("bind", "web", made.metadata.uid)
    assert question["Node"] in ("n1", "n2", "n3")
    assert node_of(cluster, "web") == ""  # that is its own affair


def test_extender_accepts_or_rejects_victims(cluster: Cluster, extend: Callable[..., Server]) -> None:
    def answer(_: str, question: Any) -> Any:
        victims = question["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {"n2": victims["n2"]}}

    server = extend(answer, preempt_verb="preempt", node_cache_capable=True)
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    cluster.client.create({**kind, "value": 100})
    spec = asking("2", termination_grace_period_seconds=0)
    cluster.add(*(pod(f"old-{number}", node=f"n{number}", phase="Running", **spec) for number in range(1, 4)))
    cluster.settle()
    cluster.add(pod("new", **{**spec, "priority_class_name": "high"}))
    cluster.advance(seconds=3)
    assert node_of(cluster, "new") == "n2"
    (_, question), *_ = server.asked
    assert {name: len(one["Pods"]) for name, one in question["NodeNameToMetaVictims"].items()} == {
        "n1": 1, "n2": 1, "n3": 1,
    }  # fmt: skip
