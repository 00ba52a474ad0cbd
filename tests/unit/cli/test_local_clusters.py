# SPDX-License-Identifier: Apache-2.0
"""Tests of the registry of clusters: names are exclusive while a process holds them, and end with it."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from kubeloop.cli.local_clusters.registry import (
    ClusterError,
    ClusterRecord,
    ClusterRegistry,
    KubeconfigEntry,
    valid_name,
)
from tests.bounds import GIVE_UP_SECONDS


@pytest.fixture
def registry(tmp_path: Path) -> ClusterRegistry:
    return ClusterRegistry(tmp_path)


def test_claimed_name_is_running_until_its_release(registry: ClusterRegistry) -> None:
    lock = registry.claim("a")
    assert registry.find("a") == ClusterRecord("a", os.getpid())
    assert [one.name for one in registry.running()] == ["a"]
    lock.release()
    assert registry.find("a") is None
    assert registry.running() == []


def test_published_record_replaces_a_longer_one(registry: ClusterRegistry) -> None:
    lock = registry.claim("a")
    lock.publish(ClusterRecord("a", 1, server="https://127.0.0.1:65535", started="2026-01-01T00:00:00Z"))
    shorter = ClusterRecord("a", 1, server="s", started="t")
    lock.publish(shorter)
    assert registry.find("a") == shorter
    assert shorter.is_ready
    lock.release()


def test_running_name_is_rejected(registry: ClusterRegistry) -> None:
    lock = registry.claim("a")
    with pytest.raises(ClusterError, match="'a' is running already"):
        registry.claim("a")
    lock.release()
    registry.claim("a").release()


def test_cluster_without_a_name_gets_the_next_free_one(registry: ClusterRegistry) -> None:
    locks = [registry.claim("") for _ in range(3)]
    assert [lock.name for lock in locks] == ["kubeloop", "kubeloop-2", "kubeloop-3"]
    locks[1].release()
    with registry.reserved("") as name:
        assert name == "kubeloop-2"
    assert registry.find("kubeloop-2") is None
    for lock in locks:
        lock.release()


def _hold(root: Path, held: Event) -> None:
    ClusterRegistry(root).claim("a")
    held.set()
    held._cond.wait_for(lambda: False)  # type: ignore[attr-defined]  # until it is killed


def test_record_of_a_killed_process_is_ignored_and_deleted_with_the_data(
    tmp_path: Path, registry: ClusterRegistry
) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    process = context.Process(target=_hold, args=(tmp_path, held), daemon=True)
    process.start()
    assert held.wait(GIVE_UP_SECONDS)
    assert registry.find("a") == ClusterRecord("a", process.pid or 0)
    process.kill()
    process.join()
    assert registry.find("a") is None
    assert registry.running() == []
    assert not registry.remove_data("a")
    assert not list((tmp_path / "run").iterdir())
    registry.claim("a").release()


def _read(root: Path, reading: Event, end: Event) -> None:
    registry = ClusterRegistry(root)
    while not end.is_set():
        registry.find("a")
        reading.set()


def test_readers_neither_refuse_a_name_nor_remove_its_record(tmp_path: Path, registry: ClusterRegistry) -> None:
    context = multiprocessing.get_context("spawn")
    reading, end = context.Event(), context.Event()
    process = context.Process(target=_read, args=(tmp_path, reading, end), daemon=True)
    process.start()
    assert reading.wait(GIVE_UP_SECONDS)
    for _ in range(300):
        lock = registry.claim("a")
        assert registry.find("a") == ClusterRecord("a", os.getpid())
        lock.release()
    end.set()
    process.join()


def test_data_of_a_cluster_is_listed_and_removed(registry: ClusterRegistry) -> None:
    folder = registry.data_dir("a")
    folder.mkdir(parents=True)
    assert registry.stored() == []
    (folder / "store.db").touch()
    entry = KubeconfigEntry("/home/me/.kube/config", "a")
    registry.save_kubeconfig_entry("a", entry)
    assert registry.stored() == ["a"]
    assert registry.kubeconfig_entry("a") == entry
    assert registry.remove_data("a")
    assert registry.stored() == []
    assert registry.kubeconfig_entry("a") is None
    assert not registry.remove_data("a")


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "../a", "a/b", "a" * 64])
def test_name_that_is_no_dns_label_is_rejected(name: str) -> None:
    with pytest.raises(ClusterError, match="is not a name"):
        valid_name(name)
