# SPDX-License-Identifier: Apache-2.0
"""The service account that every namespace has."""

from __future__ import annotations

import pytest

from kubeloop.api.errors import NotFound, StatusCause, forbidden
from kubeloop.api.generated.core_v1 import Namespace, NamespaceStatus, ServiceAccount
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.controllers.serviceaccount import needs_account, wire
from tests.controllers.controller_harness import ControllerHarness, bench


def test_existing_and_new_namespaces_get_the_default_account() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        await plane.namespace("before")
        await plane.start(wire)
        await plane.namespace("later")
        await plane.settle()
        found = await plane.client.list(ServiceAccount)
        assert [one.metadata.namespace for one in found.items] == ["before", "later"]
        assert {one.metadata.name for one in found.items} == {"default"}

    bench(scenario)


def test_deleted_account_is_recreated() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        await plane.start(wire)
        await plane.namespace("a")
        await plane.settle()
        first = await plane.client.get(ServiceAccount, "default", "a")
        await plane.client.delete(ServiceAccount, "default", "a")
        await plane.settle()
        second = await plane.client.get(ServiceAccount, "default", "a")
        assert first.metadata.uid != second.metadata.uid

    bench(scenario)


def test_accounts_of_other_names_are_ignored() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        (loop,) = await plane.start(wire)
        await plane.namespace("a")
        await plane.client.create(ServiceAccount(metadata=ObjectMeta(name="builder", namespace="a")))
        await plane.settle()
        before = loop.status().reconciles
        await plane.client.delete(ServiceAccount, "builder", "a")
        await plane.settle()
        assert loop.status().reconciles == before
        with pytest.raises(NotFound):
            await plane.client.get(ServiceAccount, "builder", "a")

    bench(scenario)


@pytest.mark.parametrize(
    ("phase", "account", "needed"),
    [("Active", None, True), ("Active", object(), False), ("Terminating", None, False), (None, None, False)],
)
def test_missing_account_is_created_in_a_kept_namespace(phase: str | None, account: object, needed: bool) -> None:
    namespace = None if phase is None else Namespace(status=NamespaceStatus(phase=phase))
    assert needs_account(namespace, account) is needed


def test_rejection_by_a_terminating_namespace_is_not_a_failure() -> None:
    async def scenario(plane: ControllerHarness) -> None:
        (loop,) = await plane.start(wire)

        async def refuse(_: object) -> None:
            cause = StatusCause("NamespaceTerminating", "namespace a is being terminated", "metadata.namespace")
            raise forbidden("", "serviceaccounts", "default", "because it is being terminated", (cause,))

        plane.client.create, create = refuse, plane.client.create  # type: ignore[method-assign,assignment]
        await create(Namespace(metadata=ObjectMeta(name="a")))
        await plane.settle()
        assert (loop.status().reconciles, loop.status().errors) == (1, 0)

    bench(scenario)
