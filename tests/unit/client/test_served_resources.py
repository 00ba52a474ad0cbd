# SPDX-License-Identifier: Apache-2.0
"""Tests of the served resources by discovery."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.api.errors import InternalError, NotFound
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.discovery.served_resources import ServedResources, discover_resources
from kubeloop.client.errors import ConnectionLost


def listed(version: str, *plurals: str) -> dict[str, Any]:
    entry = {"kind": "Thing", "namespaced": True, "verbs": ["list"]}
    return {"groupVersion": version, "resources": [{"name": plural, **entry} for plural in plurals]}


def group(name: str, *versions: str, preferred: str) -> dict[str, Any]:
    return {
        "name": name,
        "versions": [{"groupVersion": f"{name}/{one}"} for one in versions],
        "preferredVersion": {"groupVersion": f"{name}/{preferred}"},
    }


def asked(documents: dict[str, Any]) -> ServedResources:
    async def document(path: str) -> Any:
        found = documents.get(path, NotFound("no such path"))
        if isinstance(found, Exception):
            raise found
        return found

    return asyncio.run(discover_resources(document))


BASE = {"/api": {"versions": ["v1"]}, "/apis": {"groups": [group("a", "v1", "v2", preferred="v2")]}}


def test_resource_is_in_the_preferred_version_or_the_first_that_serves_it() -> None:
    served = asked(
        {
            **BASE,
            "/api/v1": listed("v1", "pods"),
            "/apis/a/v1": listed("a/v1", "things", "old"),
            "/apis/a/v2": listed("a/v2", "things", "things/status"),
        }
    )
    names = [(one.group_version, one.plural) for one in served.preferred_resources()]
    assert names == [("v1", "pods"), ("a/v2", "things"), ("a/v1", "old")]
    assert len(list(served.all_resources())) == 4
    assert served.error_text() == ""


def test_failing_version_is_reported_and_others_are_returned() -> None:
    broken = {"/apis/a/v1": ConnectionLost("gone"), "/apis/a/v2": InternalError("broken")}
    served = asked({**BASE, "/api/v1": listed("v1", "pods"), **broken})
    assert [one.plural for one in served.all_resources()] == ["pods"]
    assert served.failures.keys() == {"a/v1", "a/v2"}
    assert served.error_text() == (
        "unable to retrieve the complete list of server APIs: a/v1: gone, a/v2: broken"
    )  # fmt: skip


def test_failed_group_discovery_is_an_error() -> None:
    with pytest.raises(NotFound):
        asked({"/api": {"versions": ["v1"]}})


def test_builtin_kinds_come_from_the_table_unless_the_server_differs() -> None:
    known = resource_of_class(ConfigMap)
    entry = {"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": list(known.verbs)}
    same = asked({**BASE, "/api/v1": {"groupVersion": "v1", "resources": [entry]}})
    assert next(iter(same.all_resources())) is known
    other = asked({**BASE, "/api/v1": {"groupVersion": "v1", "resources": [entry | {"verbs": ["get"]}]}})
    assert next(iter(other.all_resources())).verbs == ("get",)
