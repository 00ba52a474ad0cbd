# SPDX-License-Identifier: Apache-2.0
"""The table of the cloud's loops, and how they are chosen."""

from __future__ import annotations

import pytest

from kubeloop.cloud import CONTROLLERS, InvalidCloudControllers, select

# names/controller_names.go of Kubernetes 1.37
UPSTREAM = {
    "cloud-node": "cloud-node-controller",
    "service": "service-lb-controller",
    "route": "node-route-controller",
    "cloud-node-lifecycle": "cloud-node-lifecycle-controller",
}


def test_names_and_aliases_match_upstream() -> None:
    assert {one.alias: one.name for one in CONTROLLERS} == UPSTREAM


def test_every_loop_can_be_wired() -> None:
    assert all(callable(one.wire()) for one in CONTROLLERS)


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (["*"], set(UPSTREAM.values())),
        (["service"], {"service-lb-controller"}),
        (["*", "-route"], set(UPSTREAM.values()) - {"node-route-controller"}),
        (["-service", "service"], set()),
        ([], set()),
    ],
)
def test_first_selector_of_a_controller_takes_precedence(wanted: list[str], chosen: set[str]) -> None:
    assert {one.name for one in select(wanted)} == chosen


def test_unknown_name_is_refused() -> None:
    with pytest.raises(InvalidCloudControllers, match="nonsense"):
        select(["nonsense"])
