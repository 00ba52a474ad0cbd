# SPDX-License-Identifier: Apache-2.0
"""Tests of webhook conversion: reads, writes, lists and watches in any version."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kubeloop.api.requests import Call
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from tests.unit.apiserver.admission.hook_server import HookServer, make_pki
from tests.unit.apiserver.conftest import ADMIN, Api, ManualClock

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "names.example.com"
TEXT = {"type": "string"}


def _schema(**properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}


def to_version(obj: dict[str, Any], version: str) -> dict[str, Any]:
    """v1 has a full name, v2 a first and a last one."""
    spec = obj.get("spec", {})
    if version.endswith("v2") and "full" in spec:
        first, _, last = spec["full"].partition(" ")
        spec = {"first": first, "last": last}
    elif version.endswith("v1") and "first" in spec:
        spec = {"full": f"{spec['first']} {spec['last']}"}
    return {**obj, "apiVersion": version, "spec": spec}


def convert(request: dict[str, Any]) -> dict[str, Any]:
    made = [to_version(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    return {"result": {"status": "Success"}, "convertedObjects": made}


class ConversionApi(Api):
    """Server with a definition whose versions are converted."""

    def __init__(self, runner: asyncio.Runner, hooks: HookServer) -> None:
        super().__init__(runner, ManualClock())
        self.runner = runner
        self.hooks = hooks
        hooks.behaviours["/convert"] = convert
        self.made(CRDS, self.definition())

    def definition(self, stored: str = "v1") -> dict[str, Any]:
        webhook = {"clientConfig": self.hooks.client("/convert"), "conversionReviewVersions": ["v1"]}
        last = {**TEXT, "default": "Doe"}
        return {
            "metadata": {"name": f"people.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"plural": "people", "kind": "Person"},
                "conversion": {"strategy": "Webhook", "webhook": webhook},
                "versions": [
                    {"name": "v1", "served": True, "storage": stored == "v1", "schema": _schema(full=TEXT)},
                    {
                        "name": "v2",
                        "served": True,
                        "storage": stored == "v2",
                        "schema": _schema(first=TEXT, last=last),
                        "selectableFields": [{"jsonPath": ".spec.first"}],
                        "subresources": {"status": {}},
                    },
                ],
            },
        }

    def make(self, name: str, full: str) -> Any:
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Person", "metadata": {"name": name}, "spec": {"full": full}}
        return self.made(people("v1"), body)


def people(version: str, name: str = "") -> str:
    path = f"/apis/{GROUP}/{version}/namespaces/default/people"
    return f"{path}/{name}" if name else path


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def api(pki) -> Iterator[ConversionApi]:
    hooks = HookServer(pki)
    with asyncio.Runner() as runner:
        runner.run(hooks.start())
        yield ConversionApi(runner, hooks)
        runner.run(hooks.stop())


def test_object_is_served_in_either_version(api):
    api.make("ann", "Ann Lee")
    assert not api.hooks.reviews
    seen = api.get(people("v2", "ann")).body
    assert (seen["apiVersion"], seen["spec"]) == (f"{GROUP}/v2", {"first": "Ann", "last": "Lee"})
    assert seen["metadata"] == api.get(people("v1", "ann")).body["metadata"]
    [review] = api.hooks.reviews
    assert (review["apiVersion"], review["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    assert review["request"]["desiredAPIVersion"] == f"{GROUP}/v2"
    assert review["request"]["objects"][0]["spec"] == {"full": "Ann Lee"}


def test_object_is_stored_in_the_storage_version(api):
    body = {"apiVersion": f"{GROUP}/v2", "kind": "Person", "metadata": {"name": "bob"}, "spec": {"first": "Bob"}}
    made = api.made(people("v2"), body)
    assert made["spec"] == {"first": "Bob", "last": "Doe"}
    stored = api.server.registry.storage_named(GROUP, "v1", "people").get("default", "bob")
    assert json.loads(stored.value)["spec"] == {"full": "Bob Doe"}
    assert json.loads(stored.value)["apiVersion"] == f"{GROUP}/v1"
    changed = api.patch("merge", people("v2", "bob"), {"spec": {"last": "Ray"}})
    assert changed.body["spec"] == {"first": "Bob", "last": "Ray"}
    assert api.get(people("v1", "bob")).body["spec"] == {"full": "Bob Ray"}
    same = api.patch("merge", people("v2", "bob"), {"spec": {"last": "Ray"}})
    assert same.body["metadata"]["resourceVersion"] == changed.body["metadata"]["resourceVersion"]


def test_list_is_converted_in_one_call_and_cached(api):
    for number in range(5):
        api.make(f"p{number}", f"P {number}")
    items = api.get(people("v2")).body["items"]
    assert [item["spec"]["last"] for item in items] == ["0", "1", "2", "3", "4"]
    assert len(api.hooks.reviews) == 1
    assert len(api.hooks.reviews[0]["request"]["objects"]) == 5
    api.make("p9", "P 9")
    assert len(api.get(people("v2")).body["items"]) == 6
    assert len(api.hooks.reviews[1]["request"]["objects"]) == 1
    page = api.get(people("v2") + "?limit=4").body
    rest = api.get(people("v2") + f"?limit=4&continue={page['metadata']['continue']}").body
    assert len(rest["items"]) == 2


def test_field_selectors_use_the_version_that_declares_them(api):
    api.make("ann", "Ann Lee")
    api.make("bob", "Bob Ray")
    found = api.get(people("v2") + "?fieldSelector=spec.first=Bob").body["items"]
    assert [item["metadata"]["name"] for item in found] == ["bob"]


def test_storage_version_can_change_with_existing_objects(api):
    api.make("ann", "Ann Lee")
    crd = api.get(f"{CRDS}/people.{GROUP}").body
    assert api.put(f"{CRDS}/people.{GROUP}", {**crd, "spec": api.definition("v2")["spec"]}).status == 200
    assert api.get(people("v1", "ann")).body["spec"] == {"full": "Ann Lee"}
    assert api.patch("merge", people("v1", "ann"), {"spec": {"full": "Ann Fox"}}).status == 200
    stored = api.server.registry.storage_named(GROUP, "v1", "people").get("default", "ann")
    assert json.loads(stored.value)["spec"] == {"first": "Ann", "last": "Fox"}


def test_deletion_needs_conversion(api):
    api.make("ann", "Ann Lee")
    assert api.patch("merge", people("v2", "ann"), {"metadata": {"finalizers": ["example.com/x"]}}).status == 200
    answer = api.ask("DELETE", people("v2", "ann"))
    assert answer.body["metadata"]["deletionTimestamp"]
    assert answer.body["spec"] == {"first": "Ann", "last": "Lee"}
    assert api.patch("merge", people("v2", "ann"), {"metadata": {"finalizers": None}}).status == 200
    assert api.get(people("v1", "ann")).status == 404
    api.make("bob", "Bob Ray")
    assert api.ask("DELETE", people("v2")).status == 200
    assert api.get(people("v1")).body["items"] == []


def test_definition_is_deleted_although_conversion_fails(api):
    api.make("ann", "Ann Lee")
    api.hooks.behaviours["/convert"] = lambda _: (500, b"gone")
    assert api.ask("DELETE", f"{CRDS}/people.{GROUP}").status == 200

    async def settle() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    api.runner.run(settle())
    assert api.get(f"{CRDS}/people.{GROUP}").status == 404


def test_conversion_may_only_change_labels_and_annotations(api):
    api.make("ann", "Ann Lee")

    def label(request: dict[str, Any]) -> dict[str, Any]:
        response = convert(request)
        for obj in response["convertedObjects"]:
            obj["metadata"] |= {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["no.example.com/x"]}
        return response

    api.hooks.behaviours["/convert"] = label
    metadata = api.get(people("v2", "ann")).body["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"a": "b"}, {"c": "d"})
    assert "finalizers" not in metadata


def _spoiled(**parts: Any) -> Any:
    def behave(request: dict[str, Any]) -> dict[str, Any]:
        response = convert(request)
        for obj in response["convertedObjects"]:
            obj |= {key: value for key, value in parts.items() if key != "metadata"}
            obj["metadata"] |= parts.get("metadata", {})
        return response

    return behave


OF_V1 = f"conversion webhook for {GROUP}/v1, Kind=Person"


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (lambda _: (500, b"boom"), 'failed: an error on the server ("boom") has prevented the request from succeeding'),
        (lambda _: {"result": {"status": "Failure", "message": "not me"}}, "failed: not me"),
        (lambda _: {"result": {"status": "Failure"}}, "failed: response.result.status was 'Failure', not 'Success'"),
        (lambda _: {"result": {"status": "Success"}}, "returned 0 objects, expected 1"),
        (lambda _: {"uid": "x"}, 'failed: expected response.uid="UID", got "x"'),
        (
            lambda _: (200, b'{"kind":"X","apiVersion":"v1"}'),
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /v1, Kind=X",
        ),
        (
            _spoiled(apiVersion=f"{GROUP}/v3"),
            "returned invalid converted object at index 0: "
            f"invalid groupVersion (expected {GROUP}/v2, received {GROUP}/v3)",
        ),
        (
            _spoiled(kind="Dog"),
            "returned invalid converted object at index 0: invalid kind (expected Person, received Dog)",
        ),
        (
            _spoiled(metadata={"name": "eve"}),
            "returned invalid converted object at index 0: must have the same name: ann != eve",
        ),
        (
            _spoiled(metadata={"labels": {"a": 1}}),
            "returned invalid converted object at index 0: "
            "metadata.labels[a] must be a string, but is int in converted object",
        ),
    ],
)
def test_failed_conversion_is_reported_and_other_versions_work(api, behaviour, why):
    api.make("ann", "Ann Lee")
    api.hooks.behaviours["/convert"] = behaviour
    answer = api.get(people("v2", "ann"))
    assert answer.status == 500
    why = why.replace("UID", api.hooks.seen[-1]["uid"])
    assert answer.body["message"] == f"{OF_V1} {why}"
    assert api.get(people("v1", "ann")).status == 200
    api.hooks.behaviours["/convert"] = convert
    assert api.get(people("v2", "ann")).status == 200


def test_unreachable_webhook_is_reported_with_its_address(api):
    api.make("ann", "Ann Lee")
    patch = {"spec": {"conversion": {"webhook": {"clientConfig": {"url": "https://127.0.0.1:1/c"}}}}}
    assert api.patch("merge", f"{CRDS}/people.{GROUP}", patch).status == 200
    assert api.get(people("v2")).body["message"] == (
        f'conversion webhook for {GROUP}/v2, Kind=PersonList failed: Post "https://127.0.0.1:1/c?timeout=30s": '
        "dial tcp 127.0.0.1:1: connect: connection refused"
    )


def test_watches_deliver_events_in_their_version_and_in_order(api):
    api.make("ann", "Ann Lee")
    release = asyncio.Event()

    async def slow(request: dict[str, Any]) -> dict[str, Any]:
        await release.wait()
        return convert(request)

    async def watch() -> list[tuple[str, str, str]]:
        entry = InProcessTransport(api.server, ADMIN)
        resource = api.server.registry.storage_named(GROUP, "v2", "people").resource
        events: list[tuple[str, str, str]] = []
        batches = entry.watch(Call(verb="watch", resource=resource, namespace="default"))
        events += _shown(await anext(batches))
        api.hooks.behaviours["/convert"] = slow
        for name in ("bob", "cid"):
            body = {"metadata": {"name": name}, "spec": {"full": f"{name} X"}}
            full = {"apiVersion": f"{GROUP}/v1", "kind": "Person", **body}
            assert (await api._answer("POST", people("v1"), full, {})).status == 201
        release.set()
        assert (await api._answer("DELETE", people("v1", "ann"), None, {})).status == 200
        while len(events) < 4:
            events += _shown(await anext(batches))
        await batches.aclose()
        return events

    assert api.runner.run(watch()) == [
        ("ADDED", "ann", "Ann"),
        ("ADDED", "bob", "bob"),
        ("ADDED", "cid", "cid"),
        ("DELETED", "ann", "Ann"),
    ]


def _shown(batch: Any) -> list[tuple[str, str, str]]:
    return [
        (one.type, one.object.metadata.name, one.object["spec"]["first"]) for one in batch if one.object is not None
    ]


def test_watch_ends_with_an_error_on_failed_conversion(api):
    async def watch() -> None:
        entry = InProcessTransport(api.server, ADMIN)
        resource = api.server.registry.storage_named(GROUP, "v2", "people").resource
        batches = entry.watch(Call(verb="watch", resource=resource, namespace="default"))
        pending = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        api.hooks.behaviours["/convert"] = lambda _: (500, b"gone")
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Person", "metadata": {"name": "bob"}, "spec": {"full": "B X"}}
        assert (await api._answer("POST", people("v1"), body, {})).status == 201
        with pytest.raises(StopAsyncIteration):
            await pending

    api.runner.run(watch())
