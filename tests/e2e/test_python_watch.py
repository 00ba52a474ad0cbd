# SPDX-License-Identifier: Apache-2.0
"""The official Python client watches: from a version, through a restart, past compacted history."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.conftest import MakePlane, make_namespace
from tests.e2e.plane import Plane, config_map, eventually


def core_of(plane: Plane) -> Any:
    return client.CoreV1Api(config.new_client_from_config(str(plane.kubeconfig)))


def names_of(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"].metadata.name) for event in events]


def test_watch_from_a_version_delivers_later_events(plane: Plane, namespace: str) -> None:
    core = core_of(plane)
    core.create_namespaced_config_map(namespace, config_map("before"))
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, config_map("one"))
    core.patch_namespaced_config_map("one", namespace, {"data": {"a": "1"}})
    core.delete_namespaced_config_map("one", namespace)
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=1
    )
    assert names_of(list(stream)) == [("ADDED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]
    core.api_client.close()


def test_watch_with_a_selector_delivers_added_and_deleted(plane: Plane, namespace: str) -> None:
    core = core_of(plane)
    core.create_namespaced_config_map(namespace, config_map("one"))
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    for tier in ("front", "back"):
        core.patch_namespaced_config_map("one", namespace, {"metadata": {"labels": {"tier": tier}}})
    stream = watch.Watch().stream(
        core.list_namespaced_config_map,
        namespace,
        resource_version=version,
        label_selector="tier=front",
        timeout_seconds=1,
    )
    assert names_of(list(stream)) == [("ADDED", "one"), ("DELETED", "one")]
    core.api_client.close()


def test_future_version_is_rejected(plane: Plane, namespace: str) -> None:
    core = core_of(plane)
    with pytest.raises(ApiException) as refused:
        core.list_namespaced_config_map(namespace, resource_version="999999999", resource_version_match="Exact")
    assert refused.value.status == 504
    core.api_client.close()


def test_watch_resumes_after_a_restart_without_loss_or_repetition(make_plane: MakePlane) -> None:
    plane = make_plane(command="apiserver")
    plane.start()
    make_namespace(plane, "watched")
    version = plane.get("/api/v1/namespaces/watched/configmaps")["metadata"]["resourceVersion"]
    seen: list[tuple[str, str]] = []
    done = threading.Event()

    def follow() -> None:
        nonlocal version
        while not done.is_set():
            core = core_of(plane)
            stream = watch.Watch()
            try:
                for event in stream.stream(
                    core.list_namespaced_config_map, "watched", resource_version=version, timeout_seconds=5
                ):
                    seen.append((event["type"], event["object"].metadata.name))
                    version = event["object"].metadata.resource_version
                    if done.is_set():
                        stream.stop()
            except Exception:  # the server is away: whatever the client makes of it, try again
                done.wait(0.05)
            finally:
                core.api_client.close()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    path = "/api/v1/namespaces/watched/configmaps"
    for number in range(12):
        plane.create(path, config_map(f"m{number}"))
        if number == 3:
            plane.stop()
            plane.start()
        if number == 8:
            plane.kill()
            plane.start()
    eventually(lambda: len(seen) >= 12)
    done.set()
    plane.create(path, config_map("last"))
    thread.join(GIVE_UP_SECONDS)
    assert [name for _, name in seen][:12] == [f"m{number}" for number in range(12)]
