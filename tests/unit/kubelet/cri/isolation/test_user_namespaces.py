# SPDX-License-Identifier: Apache-2.0
"""Ranges of IDs of pods with user namespaces of their own."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from random import Random

import pytest

from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.isolation import user_namespaces
from kubeloop.kubelet.cri.isolation.user_namespaces import (
    IDRange,
    UserNamespaceError,
    UserNamespaceManager,
    parse_sub_ids,
    read_kubelet_range,
)

UNIT = 65536


def manager(root: Path, count: int = 3, max_pods: int = 3) -> UserNamespaceManager:
    return UserNamespaceManager(NodePaths(root), IDRange(2 * UNIT, count * UNIT), UNIT, max_pods, Random(1))


def first_id(found: UserNamespaceManager, uid: str) -> int:
    (mapping,) = found.get_or_create(uid).uids
    assert (mapping.container_id, mapping.length) == (0, UNIT)
    return mapping.host_id


def test_each_pod_has_a_range_of_its_own_until_none_is_left(tmp_path: Path) -> None:
    found = manager(tmp_path)
    assert sorted(first_id(found, uid) for uid in "abc") == [2 * UNIT, 3 * UNIT, 4 * UNIT]
    with pytest.raises(UserNamespaceError, match="could not find an empty slot"):
        found.get_or_create("d")
    freed = first_id(found, "b")
    found.release("b")
    assert not (tmp_path / "pods/b/userns").exists()
    assert first_id(found, "d") == freed


def test_a_kubelet_that_starts_again_keeps_the_ranges(tmp_path: Path) -> None:
    before = manager(tmp_path)
    ranges = {uid: first_id(before, uid) for uid in "ab"}
    after = manager(tmp_path)
    third = first_id(after, "c")
    assert {uid: first_id(after, uid) for uid in "ab"} == ranges
    assert third not in ranges.values()


def test_the_record_has_the_form_of_upstreams_kubelet(tmp_path: Path) -> None:
    first = first_id(manager(tmp_path), "a")
    mapping = {"hostId": first, "containerId": 0, "length": UNIT}
    record = tmp_path / "pods/a/userns"
    assert json.loads(record.read_text()) == {"uidMappings": [mapping], "gidMappings": [mapping]}


@pytest.mark.parametrize(
    ("uids", "gids", "problem"),
    [
        ([(2 * UNIT, 0, 5)], None, "wrong user namespace length 5"),
        ([(2 * UNIT + 1, 0, UNIT)], None, "wrong user namespace offset"),
        ([(9 * UNIT, 0, UNIT)], None, "is out of range"),
        ([(2 * UNIT, 1, UNIT)], None, "UID 0 must be mapped"),
        ([(2 * UNIT, 0, UNIT)], [(3 * UNIT, 0, UNIT)], "should be identical"),
        ([], None, "no more than one mapping"),
    ],
)
def test_a_record_that_no_kubelet_wrote_is_refused(
    tmp_path: Path, uids: list[tuple[int, int, int]], gids: list[tuple[int, int, int]] | None, problem: str
) -> None:
    folder = tmp_path / "pods/a"
    folder.mkdir(parents=True)
    names = ("hostId", "containerId", "length")
    written = [[dict(zip(names, one, strict=True)) for one in part] for part in (uids, uids if gids is None else gids)]
    (folder / "userns").write_text(json.dumps(dict(zip(("uidMappings", "gidMappings"), written, strict=True))))
    with pytest.raises(ValueError, match=problem):
        manager(tmp_path)


def test_two_pods_never_share_a_range(tmp_path: Path) -> None:
    first_id(manager(tmp_path), "a")
    (tmp_path / "pods/b").mkdir()
    (tmp_path / "pods/b/userns").write_bytes((tmp_path / "pods/a/userns").read_bytes())
    with pytest.raises(ValueError, match="already taken"):
        manager(tmp_path)


@pytest.mark.parametrize(
    ("available", "ids", "problem"),
    [
        (IDRange(0, 110 * UNIT), UNIT, "must be greater or equal"),
        (IDRange(5, 110 * UNIT), UNIT, "is not a multiple"),
        (IDRange(UNIT, 110 * UNIT + 1), UNIT, "length .* is not a multiple"),
        (IDRange(UNIT, 109 * UNIT), UNIT, "not enough to support 110 pods"),
        (IDRange(UNIT, 110 * UNIT), UNIT + 1, "length .* is not a multiple"),
    ],
)
def test_a_range_that_is_unsafe_or_too_small_is_refused(
    tmp_path: Path, available: IDRange, ids: int, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        UserNamespaceManager(NodePaths(tmp_path), available, ids, 110, Random(1))


def test_all_ids_but_the_lowest_are_used_without_a_kubelet_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr(user_namespaces.pwd, "getpwnam", unknown)
    assert read_kubelet_range(UNIT) == IDRange(UNIT, (1 << 32) - UNIT)


def test_the_subordinate_ids_of_the_kubelet_user_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "getsubids"
    tool.write_text('#!/bin/sh\necho "0: kubelet 131072 7208960"\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(user_namespaces.pwd, "getpwnam", str)
    monkeypatch.setattr(user_namespaces.shutil, "which", lambda _: str(tool))
    assert read_kubelet_range(UNIT) == IDRange(131072, 7208960)
    tool.write_text('#!/bin/sh\necho "0: kubelet 131072 720896$#"\n')
    with pytest.raises(ValueError, match="mismatched"):
        read_kubelet_range(UNIT)
    tool.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ValueError, match="error retrieving"):
        read_kubelet_range(UNIT)


@pytest.mark.parametrize("text", ["", "0: kubelet 1 2\n1: kubelet 3 4\n", "kubelet 1 2", "0: kubelet one 2"])
def test_malformed_subordinate_ids_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        parse_sub_ids(text)
