# SPDX-License-Identifier: Apache-2.0
"""Watching custom objects, over HTTP's events and from within the process."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call
from kubeloop.api.unstructured import Unstructured
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.apiserver.apiextensions.conftest import DEFINITIONS, NAME, THINGS, fields, thing, version
from tests.unit.apiserver.conftest import ADMIN

# Resource as known from discovery.
DISCOVERED = Resource("example.org", "v1", "things", "Thing")


@pytest.fixture
def entry(api) -> InProcessTransport:
    return InProcessTransport(api.server, ADMIN)


def test_in_process_client_uses_documents(api, install, entry) -> None:
    install(version(schema=fields(a={"type": "string", "default": "d"})))

    async def calls():
        made = await entry.call(
            Call(verb="create", resource=DISCOVERED, namespace="shop", body=thing("t", spec={"x": 1}))
        )
        found = await entry.call(Call(verb="get", resource=DISCOVERED, namespace="shop", name="t"))
        listed = await entry.call(Call(verb="list", resource=DISCOVERED, namespace="shop"))
        return made, found, listed

    made, found, listed = api._runner.run(calls())
    assert isinstance(found, Unstructured)
    assert made == found == listed.items[0]
    assert found["spec"] == {"a": "d"}
    assert found.metadata.name == "t"


def test_in_process_client_gets_not_found_for_an_unknown_resource(api, entry) -> None:
    with pytest.raises(NotFound):
        api._runner.run(entry.call(Call(verb="list", resource=DISCOVERED, namespace="shop")))


def test_watch_survives_a_schema_change_and_ends_with_the_definition(api, install, entry) -> None:
    install(version(schema=fields(a={"type": "string"})))
    changed = version(schema=fields(a={"type": "string"}, b={"type": "string", "default": "d"}))
    seen: list[tuple[str, str, dict[str, str]]] = []

    async def watch() -> None:
        async for batch in entry.watch(Call(verb="watch", resource=DISCOVERED, namespace="shop")):
            seen.extend((one.type, one.object.metadata.name, one.object["spec"]) for one in batch)

    async def changes() -> None:
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        await api._answer("POST", THINGS, thing("one", spec={"a": "1"}), {})
        merge = {"content-type": "application/merge-patch+json"}
        await api._answer("PATCH", f"{DEFINITIONS}/{NAME}", {"spec": {"versions": [changed]}}, merge)
        await api._answer("POST", THINGS, thing("two", spec={"a": "2"}), {})
        await api._answer("DELETE", f"{DEFINITIONS}/{NAME}", None, {})
        await asyncio.wait_for(watching, GIVE_UP_SECONDS)

    api._runner.run(changes())
    assert [(kind, name) for kind, name, _ in seen] == [
        ("ADDED", "one"),
        ("ADDED", "two"),
        ("DELETED", "one"),
        ("DELETED", "two"),
    ]
    assert seen[1][2] == {"a": "2", "b": "d"}
