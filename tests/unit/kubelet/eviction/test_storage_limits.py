# SPDX-License-Identifier: Apache-2.0
"""Evictions of pods over the limits of their storage and of their emptyDir volumes."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import (
    Container,
    EmptyDirVolumeSource,
    Pod,
    PodSpec,
    ResourceRequirements,
    Volume,
)
from kubeloop.kubelet.eviction.eviction_rank import has_storage_limit, storage_limit_eviction
from kubeloop.kubelet.runtime import ContainerUsage


def make_pod(size: str | None, *, medium: str = "", limit: str = "", priority: int = 0) -> Pod:
    volume = Volume(name="v", empty_dir=EmptyDirVolumeSource(medium=medium, size_limit=size))
    limits = {"ephemeral-storage": limit} if limit else {}
    container = Container(name="c", resources=ResourceRequirements(limits=limits))
    return Pod(spec=PodSpec(containers=(container,), volumes=(volume,), priority=priority))


@pytest.mark.parametrize(
    ("pod", "used", "message"),
    [
        (make_pod("1Ki"), 1025, 'Usage of EmptyDir volume "v" exceeds the limit "1Ki". '),
        (make_pod("1Ki"), 1024, ""),
        (make_pod("0"), 1024, ""),
        (make_pod(None), 1 << 30, ""),
        (make_pod("1Ki", medium="Memory"), 1 << 30, ""),
        (make_pod("1Ki", priority=2 * 10**9), 1 << 30, ""),
        (
            make_pod("1Mi", limit="1Ki"),
            1000,
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Ki. ",
        ),
    ],
)
def test_pods_over_their_limits_are_evicted(pod: Pod, used: int, message: str) -> None:
    found = storage_limit_eviction(pod, {"c": ContainerUsage(0, 0, 100)}, {"v": used})
    assert (found.message if found is not None else "") == message


def test_pods_with_limits_are_known() -> None:
    assert has_storage_limit(make_pod("1Ki"))
    assert has_storage_limit(make_pod(None, limit="1Ki"))
    assert not has_storage_limit(make_pod(None))
    assert not has_storage_limit(make_pod("1Ki", medium="Memory"))
