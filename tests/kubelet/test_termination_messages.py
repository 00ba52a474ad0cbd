# SPDX-License-Identifier: Apache-2.0
"""Tests of termination messages."""

from __future__ import annotations

import pytest

from kubeloop.testing import Cluster
from tests.kubelet.pods import container, get, put, runs


@pytest.mark.parametrize(
    ("command", "fields", "message"),
    [
        ("echo because > /dev/termination-log; exit 1", {}, "because\n"),
        ("echo because >/tmp/why; exit 1", {"termination_message_path": "/tmp/why"}, "because\n"),
        ("echo elsewhere > /tmp/why; exit 1", {}, ""),
        ("echo one; echo two; exit 1", {"termination_message_policy": "FallbackToLogsOnError"}, "one\ntwo\n"),
        ("echo one; exit 0", {"termination_message_policy": "FallbackToLogsOnError"}, ""),
        ("echo one; exit 1", {}, ""),
    ],
)
def test_termination_message_is_in_the_status(
    cluster: Cluster, command: str, fields: dict[str, str], message: str
) -> None:
    cluster.add_nodes(1)
    put(cluster, restart_policy="Never", containers=(runs("sh", "-c", command, **fields),))
    ended = container(get(cluster)).state.terminated
    assert ended is not None
    assert ended.message == message


def test_termination_message_can_be_scripted(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, restart_policy="Never", script={"exit-after": "1s", "termination-message": "so it goes"})
    cluster.advance(2)
    ended = container(get(cluster)).state.terminated
    assert ended is not None
    assert ended.message == "so it goes"


def test_containers_share_the_termination_message_limit(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    four = tuple(runs("sleep", "1", name=name) for name in "abcd")
    put(cluster, restart_policy="Never", containers=four, script={"termination-message": "é" * 2048})
    cluster.advance(2)
    ends = [one.state.terminated for one in get(cluster).status.container_statuses]
    assert [end.message for end in ends if end is not None] == ["é" * 1536] * 4
