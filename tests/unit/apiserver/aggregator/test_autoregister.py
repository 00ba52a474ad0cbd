# SPDX-License-Identifier: Apache-2.0
"""Tests of APIServices of served custom versions, kept while they have the label."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.apiserver.aggregator.autoregister import AutoRegistration
from tests.unit.apiserver.apiextensions.conftest import DEFINITIONS, NAME, definition, version
from tests.unit.apiserver.conftest import Api, ManualClock

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
ONE = f"{SERVICES}/v1.example.org"
LABEL = "kube-aggregator.kubernetes.io/automanaged"


class AutoRegisterApi(Api):
    """Lets background work of the server finish before the next request."""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = super().ask(method, path, body, **headers)
        self._runner.run(self._settle())
        return answer

    async def _settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


@pytest.fixture
def api() -> Iterator[AutoRegisterApi]:
    with asyncio.Runner() as runner:
        yield AutoRegisterApi(runner, ManualClock())


def test_api_service_is_created_and_deleted_with_its_definition(api: AutoRegisterApi) -> None:
    api.made(DEFINITIONS, definition())
    found = api.get(ONE).body
    assert found["metadata"]["labels"] == {LABEL: "true"}
    assert found["spec"] == {
        "group": "example.org", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100,
    }  # fmt: skip
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")
    api.ask("DELETE", f"{DEFINITIONS}/{NAME}")
    assert api.get(ONE).status == 404


def test_only_served_versions_are_registered(api: AutoRegisterApi) -> None:
    old = {**version("v1alpha1", storage=False), "served": False}
    api.made(DEFINITIONS, definition(version(), old, version("v2", storage=False)))
    names = [one["metadata"]["name"] for one in api.get(SERVICES).body["items"]]
    assert names == ["v1.example.org", "v2.example.org"]
    crd = api.get(f"{DEFINITIONS}/{NAME}").body
    crd["spec"]["versions"][2]["served"] = False
    assert api.put(f"{DEFINITIONS}/{NAME}", crd).status == 200
    assert api.get(f"{SERVICES}/v2.example.org").status == 404


def test_shared_version_is_unregistered_with_the_last_definition(api: AutoRegisterApi) -> None:
    api.made(DEFINITIONS, definition())
    api.made(DEFINITIONS, definition(plural="others", kind="Other"))
    api.ask("DELETE", f"{DEFINITIONS}/{NAME}")
    assert api.get(ONE).status == 200
    api.ask("DELETE", f"{DEFINITIONS}/others.example.org")
    assert api.get(ONE).status == 404


def test_deleted_or_modified_api_service_is_restored(api: AutoRegisterApi) -> None:
    api.made(DEFINITIONS, definition())
    first = api.get(ONE).body["metadata"]["uid"]
    api.ask("DELETE", ONE)
    assert api.get(ONE).body["metadata"]["uid"] != first
    api.patch("merge", ONE, {"spec": {"groupPriorityMinimum": 5}})
    assert api.get(ONE).body["spec"]["groupPriorityMinimum"] == 1000


def test_api_service_without_the_label_is_ignored(api: AutoRegisterApi) -> None:
    api.made(DEFINITIONS, definition())
    api.patch("merge", ONE, {"metadata": {"labels": {LABEL: None}}, "spec": {"groupPriorityMinimum": 5}})
    assert api.get(ONE).body["spec"]["groupPriorityMinimum"] == 5
    api.ask("DELETE", f"{DEFINITIONS}/{NAME}")
    assert api.get(ONE).status == 200


def test_changes_before_the_start_are_reconciled(api: AutoRegisterApi) -> None:
    api.made(DEFINITIONS, definition())
    api.server.registration.close()
    api.ask("DELETE", ONE)
    stale = {"metadata": {"name": "v9.example.org", "labels": {LABEL: "true"}}}
    api.made(SERVICES, stale | {"spec": {"group": "example.org", "version": "v9", "groupPriorityMinimum": 1000,
                                         "versionPriority": 100}})  # fmt: skip

    async def start_again() -> None:
        again = AutoRegistration(api.registry, api.clock, DEFAULT_FEATURES)
        again.start()
        again.catch_up()
        await asyncio.sleep(0)

    api._runner.run(start_again())
    assert [one["metadata"]["name"] for one in api.get(SERVICES).body["items"]] == ["v1.example.org"]
