# SPDX-License-Identifier: Apache-2.0
"""PodResizeValidator: which resizes a node can bear."""

from __future__ import annotations

import pytest

from kubeloop.api import errors


def _pod(generation, cpu, node="n1", **spec):
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {"metadata": {"generation": generation}, "spec": {"nodeName": node, "containers": [container], **spec}}


@pytest.fixture
def resize(cluster, writes):
    cluster.add("nodes", "n1", status={"allocatable": {"cpu": "2", "memory": "4Gi"}})
    cluster.add("nodes", "win", metadata={"labels": {"kubernetes.io/os": "windows"}})

    def resized(old, new):
        writes.update("pods", "shop", old, new, subresource="resize")

    return resized


def test_fitting_resize_is_admitted(resize):
    resize(_pod(1, "1"), _pod(2, "2"))


def test_no_op_resize_is_not_checked(resize):
    resize(_pod(1, "9"), _pod(1, "9"))


def test_unscheduled_pod_can_have_any_size(resize):
    resize(_pod(1, "1", ""), _pod(2, "9", ""))


@pytest.mark.parametrize(
    ("new", "why", "cause"),
    [
        (_pod(2, "1", "ghost"), 'node "ghost" not found', ()),
        (
            _pod(2, "1", "win"),
            'pod resize is only supported on linux nodes, node "win" is "windows"',
            (errors.StatusCause("UnsupportedPlatform"),),
        ),
        (
            _pod(2, "2500m"),
            "node didn't have enough allocatable resources: cpu, requested: 2500, allocatable: 2000",
            (errors.StatusCause("NodeCapacity"),),
        ),
        (
            _pod(2, "2", overhead={"cpu": "1", "memory": "4Gi"}),
            "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000; "
            "memory, requested: 5368709120, allocatable: 4294967296",
            (errors.StatusCause("NodeCapacity"),),
        ),
    ],
)
def test_resize_beyond_the_nodes_allocatable_is_rejected(resize, new, why, cause):
    with pytest.raises(errors.Forbidden) as caught:
        resize(_pod(1, "1", new["spec"]["nodeName"]), new)
    assert caught.value.message == f'pods "x" is forbidden: {why}'
    assert caught.value.causes == cause
