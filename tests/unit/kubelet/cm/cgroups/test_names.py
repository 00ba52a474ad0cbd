# SPDX-License-Identifier: Apache-2.0
"""Names of control groups for both drivers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.kubelet.cm.cgroups.names import (
    ROOT,
    CgroupName,
    child,
    format_path,
    parse_driver_path,
    parse_path,
    pod_uid_of,
)

POD = CgroupName(("kubepods", "burstable", "pod1234-abcd"))
_PARTS = st.text("abcz019-", min_size=1, max_size=8).filter(lambda part: part.strip("-") == part and "--" not in part)


def test_paths_of_a_pod() -> None:
    assert format_path(POD, "cgroupfs") == "/kubepods/burstable/pod1234-abcd"
    slices = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_abcd.slice"
    assert format_path(POD, "systemd") == slices
    assert format_path(ROOT, "systemd") == format_path(ROOT, "cgroupfs") == "/"
    assert pod_uid_of(POD) == "1234-abcd"
    assert pod_uid_of(CgroupName(("kubepods", "burstable"))) == ""
    assert parse_path("/") == ROOT


@given(st.lists(_PARTS, min_size=1, max_size=4))
def test_a_path_leads_back_to_its_name(parts: list[str]) -> None:
    name = child(ROOT, *parts)
    for driver in ("cgroupfs", "systemd"):
        assert parse_driver_path(format_path(name, driver), driver) == name  # type: ignore[arg-type]


@pytest.mark.parametrize("part", ["a_b", "a/b"])
def test_parts_that_systemd_cannot_express_are_refused(part: str) -> None:
    with pytest.raises(ValueError, match="invalid character"):
        child(ROOT, part)
