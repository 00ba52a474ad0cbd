# SPDX-License-Identifier: Apache-2.0
"""Tests of container images: pull events and failures."""

from __future__ import annotations

import re

import pytest

from kubeloop.testing import Cluster
from tests.kubelet.pods import container, get, put, runs, state

PRESENT = 'Container image "registry.example/app:1" already present on machine and can be accessed by the pod'
PULLED = re.compile(
    r'Successfully pulled image "registry.example/app:1" in (\S+) \((\S+) including waiting\). Image size: \d+ bytes.'
)


@pytest.fixture
def loud(cluster: Cluster) -> Cluster:
    """Return a node that writes all events."""
    cluster.add_nodes(1, events="all")
    return cluster


def pod_events(cluster: Cluster, pod: str) -> list[tuple[str, str]]:
    cluster.advance(0.1)
    found = [one for one in cluster.events() if one.involved_object.name == pod]
    return [(one.reason, one.message) for one in found]


def test_image_is_pulled_once_per_node(loud: Cluster) -> None:
    put(loud, "first", containers=(runs("server", image_pull_policy="IfNotPresent"),))
    put(loud, "second", containers=(runs("server", image_pull_policy="IfNotPresent"),))
    (pulling, pulled, *rest) = pod_events(loud, "first")
    assert pulling == ("Pulling", 'Pulling image "registry.example/app:1"')
    assert pulled[0] == "Pulled"
    assert PULLED.fullmatch(pulled[1])
    assert rest == [("Created", "Container created"), ("Started", "Container started")]
    assert pod_events(loud, "second")[0] == ("Pulled", PRESENT)


def test_pull_policies_always_and_never_are_honored(loud: Cluster) -> None:
    put(loud, "never", containers=(runs("server", image_pull_policy="Never"),))
    put(loud, "always", containers=(runs("server", image_pull_policy="Always"),))
    put(loud, "again", containers=(runs("server", image_pull_policy="Always"),))
    assert pod_events(loud, "never")[0] == ("Pulled", PRESENT)
    assert [reason for reason, _ in pod_events(loud, "always")] == ["Pulling", "Pulled", "Created", "Started"]
    assert [reason for reason, _ in pod_events(loud, "again")] == ["Pulling", "Pulled", "Created", "Started"]


def test_image_pull_time_delays_the_start(loud: Cluster) -> None:
    put(loud, script={"start-delay": "2500ms"})
    assert [reason for reason, _ in pod_events(loud, "pod")] == ["Pulling"]
    loud.advance(3)
    (_, pulled, *rest) = pod_events(loud, "pod")
    found = PULLED.fullmatch(pulled[1])
    assert found is not None
    assert found.groups() == ("2.5s", "2.5s")
    assert [reason for reason, _ in rest] == ["Created", "Started"]


def test_failed_pull_is_retried_with_backoff(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, script={"start-error": "ErrImagePull", "start-error-message": "no such host"})
    seen = [state(get(cluster))]
    for _ in range(79):
        cluster.advance(1)
        seen.append(state(get(cluster)))
    failing = {second for second, one in enumerate(seen) if one == "ErrImagePull"}
    assert failing == {0, *range(10, 20), *range(30, 40), *range(70, 80)}
    assert set(seen) == {"ErrImagePull", "ImagePullBackOff"}
    waiting = container(get(cluster)).state.waiting
    assert waiting is not None
    assert waiting.message == "no such host"
    cluster.advance(1)
    waiting = container(get(cluster)).state.waiting
    assert waiting is not None
    assert waiting.message == 'Back-off pulling image "registry.example/app:1": ErrImagePull: no such host'
    counts = {one.message: one.count for one in cluster.events(reason="Failed")}
    assert counts == {
        'Failed to pull image "registry.example/app:1": no such host': 4,
        "Error: ErrImagePull": 4,
        "Error: ImagePullBackOff": 6,
    }


@pytest.mark.parametrize(
    ("reason", "event", "message"),
    [
        (
            "ErrImageNeverPull",
            "ErrImageNeverPull",
            'Container image "registry.example/app:1" is not present with pull policy of Never',
        ),
        (
            "InvalidImageName",
            "InspectFailed",
            'Failed to apply default image tag "registry.example/app:1": '
            'couldn\'t parse image name "registry.example/app:1": invalid reference format',
        ),
    ],
)
def test_image_error_sets_the_waiting_state_and_an_event(
    cluster: Cluster, reason: str, event: str, message: str
) -> None:
    cluster.add_nodes(1)
    put(cluster, script={"start-error": reason})
    waiting = container(get(cluster)).state.waiting
    assert waiting is not None
    assert (waiting.reason, waiting.message) == (reason, message)
    cluster.advance(21)
    assert state(get(cluster)) == reason
    assert [one.message for one in cluster.events(reason=event)] == [message]
    assert [(one.message, one.count) for one in cluster.events(reason="Failed")] == [(f"Error: {reason}", 3)]
