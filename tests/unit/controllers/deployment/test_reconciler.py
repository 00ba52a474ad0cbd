# SPDX-License-Identifier: Apache-2.0
"""Tests of objects that an API server rejects, but an old store may contain."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kubeloop.api.generated.apps_v1 import Deployment, DeploymentStrategy
from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.clock import SystemClock
from kubeloop.controllers.deployment.observer import DeploymentCaches
from kubeloop.controllers.deployment.reconciler import Reconciler
from kubeloop.runtime.controller import TerminalError
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.testing import deployment

replace = msgspec.structs.replace


class FakeCache:
    """Client with one deployment only."""

    version = "1"

    def __init__(self, *held: Deployment) -> None:
        self._held = {key_of(one): one for one in held}

    def get(self, namespace: str, name: str) -> Deployment | None:
        return self._held.get(ObjectKey(namespace, name))

    def by_index(self, *_: str) -> tuple[()]:
        return ()


class FakeClient:
    def __init__(self) -> None:
        self.updated: list[Deployment] = []

    async def update(self, obj: Deployment, **_: Any) -> Deployment:
        self.updated.append(obj)
        return obj


class FakeRecorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def event(self, _: Any, *words: str) -> None:
        self.told.append(words)


def reconcile(one: Deployment) -> tuple[FakeClient, FakeRecorder]:
    client, recorder = FakeClient(), FakeRecorder()
    # as far as they are asked
    caches: Any = DeploymentCaches(*(FakeCache(one) for _ in range(3)))  # type: ignore[arg-type]
    made = Reconciler(client, recorder, SystemClock(), caches)  # type: ignore[arg-type]
    asyncio.run(made.reconcile(key_of(one)))
    return client, recorder


def stored(**spec: Any) -> Deployment:
    one = deployment(**spec)
    return replace(one, metadata=replace(one.metadata, uid="u", generation=3, resource_version="1"))


def test_deployment_that_selects_everything_is_rejected() -> None:
    client, recorder = reconcile(stored(selector=LabelSelector()))
    message = "This deployment is selecting all pods. A non-empty selector is required."
    assert recorder.told == [("Warning", "SelectingAll", message)]
    assert [one.status.observed_generation for one in client.updated] == [3]


def test_rejection_is_written_once() -> None:
    one = stored(selector=LabelSelector())
    client, _ = reconcile(replace(one, status=replace(one.status, observed_generation=3)))
    assert client.updated == []


def test_unknown_strategy_is_a_terminal_error() -> None:
    with pytest.raises(TerminalError, match="unexpected deployment strategy type: Odd"):
        reconcile(stored(strategy=DeploymentStrategy(type="Odd")))
